// Command redis keeps one redis-server running with its data on a persistent volume. Start it twice: one instance works,
// the other waits. The server is started where its data is, and waited for while that agent is drained, away or booted
// again. Only when an operator has given the agent up (tender gone) does it begin with an empty volume elsewhere.
//
//	redis -file redis.addr &
//	redis-cli -u "redis://$(cat redis.addr)" set answer 42
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
)

// serve starts redis-server with every write on disk before it is acknowledged.
const serve = `exec redis-server --port "$TENDER_TASK_PORT_REDIS" --dir "$TENDER_TASK_SANDBOX/volumes/redis-data" --appendonly yes --appendfsync always --save ""`

// keeper is the scheduler. Its methods are called one at a time, so it needs no lock.
type keeper struct {
	command string
	told    func(status api.Status) // is told each step of the server's life
	client  *framework.Client
	record         // as it is in the store
	version uint64 // of the record in the store
	read    bool   // record and version are those of the store
	running bool   // a task was launched and has not ended
	settled bool   // it is known what runs
}

// record is what the next instance must know.
type record struct {
	Volume pack.Volume
	Number int // of the newest task
}

const key = "redis"

func newKeeper(command string, told func(api.Status)) *keeper {
	volume := pack.Volume{ID: "redis-data", Role: "redis", Size: api.MilliOf(256)}
	return &keeper{command: command, told: told, record: record{Volume: volume}}
}

// configOf returns the configuration of each instance.
func configOf() framework.Config {
	return framework.Config{Name: "redis", Roles: []api.Role{"redis"}, Standby: true, FailoverTimeout: time.Hour, Suppressed: true}
}

// Subscribed reads what an earlier instance has written, before anything is offered.
func (k *keeper) Subscribed(ctx context.Context, client *framework.Client) error {
	k.client = client
	if err := k.load(ctx); err != nil {
		return err
	}
	return k.demand()
}

// load reads the record, unless it is known.
func (k *keeper) load(ctx context.Context) error {
	if k.read {
		return nil
	}
	entries, err := k.client.Store().List(ctx, key)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		k.version = entry.Version
		if err := json.Unmarshal(entry.Value, &k.record); err != nil {
			return err
		}
	}
	k.read = true
	return nil
}

// Settled is told when it is known what runs.
func (k *keeper) Settled(context.Context) {
	k.settled = true
	_ = k.demand() // fails when Run has ended
}

// demand asks for room for the server while none runs.
func (k *keeper) demand() error {
	demand := api.Demand{}
	if k.settled && !k.running {
		demand.Shapes = k.Volume.Shapes(k.task())
	}
	return k.client.Demand(demand)
}

func (k *keeper) task() api.Task {
	return api.Task{
		ID: api.TaskID(fmt.Sprintf("redis-%d", k.Number)), Resources: api.Scalars(0.5, 128), Ports: map[string]uint16{"redis": 0},
		Command: &api.Command{Shell: k.command},
		Checks:  []api.Check{{Readiness: true, TCP: &api.TCPCheck{Port: "redis"}, Interval: time.Second}},
	}
}

// save writes the record: before an answer that relies on it is sent. After an error nobody knows whether the store has
// it, so it is read again.
func (k *keeper) save(ctx context.Context) error {
	value, err := json.Marshal(k.record)
	if err != nil {
		return err
	}
	entry, err := k.client.Store().Put(ctx, key, value, k.version)
	if k.read = err == nil; k.read {
		k.version = entry.Version
	}
	return err
}

// Offers launches the server where its volume is, or makes the volume.
func (k *keeper) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	if k.running || !k.settled {
		return nil
	}
	if err := k.load(ctx); err != nil {
		log.Print(err)
		return nil
	}
	before := k.record
	k.Number++
	answer, ok := k.Volume.Launch(offers, k.task())
	if ok {
		if err := k.save(ctx); err != nil {
			log.Print(err)
			ok = false
		}
	}
	if !ok {
		k.record = before
		return nil
	}
	k.running = true
	return []api.Answer{answer}
}

// Update follows the server's life.
func (k *keeper) Update(_ context.Context, status api.Status) error {
	if status.Task != k.task().ID {
		return nil // the end of an earlier one
	}
	k.told(status)
	k.Volume.Update(status)
	if k.running = !status.State.Terminal(); k.running {
		return nil
	}
	return k.demand()
}

// AgentLost chooses a new home when the old one was given up, with or without the server on it.
func (k *keeper) AgentLost(_ context.Context, agent api.AgentID, gone bool, why string) {
	if k.Volume.Lost(agent, gone) {
		log.Printf("%s is gone, and the data with it: %s", agent, why)
		_ = k.demand() // fails when Run has ended
	}
}

func main() {
	file := flag.String("file", "redis.addr", "`file` that says where the server is")
	command := flag.String("command", serve, "`line` for the shell that starts the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	keeper := newKeeper(*command, func(s api.Status) {
		fmt.Println(s.Task, s.State, s.Reason, "on", s.Agent, s.Message)
		if s.Healthy != nil && *s.Healthy {
			if err := os.WriteFile(*file, fmt.Appendf(nil, "%s:%d\n", s.Hostname, s.Ports["redis"]), 0o600); err != nil {
				log.Print(err)
			}
		}
	})
	config := configOf()
	config.Masters = strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	if err := framework.Run(ctx, config, keeper); err != nil {
		log.Fatal(err)
	}
}
