// Command dask keeps a pool for Dask, the parallel Python: its scheduler, and as many workers as there is work for. Start
// it twice: one instance works, the other waits, and takes over the pool as it is when the first one dies.
//
//	dask -max 8 &
//	tender get endpoints dask    # where the scheduler's port tcp is
//	python3 -c 'from dask.distributed import Client; print(Client("127.0.0.1:31600").submit(sum, [1, 2]).result())'
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/taskset"
)

// pool is one scheduler of Dask with its workers.
type pool struct {
	set  *taskset.Set
	host string // on which scheduler and workers listen; "": all addresses of their machines
	max  int
	// wants asks Dask how many workers it could use.
	wants func(ctx context.Context, task taskset.Task) (int, error)
	spare int // seconds for which there were too many workers
}

// spareMost is how many seconds there may be too many workers, so that a pause between two computations costs none.
const spareMost = 10

func newPool(host string, most int, wants func(context.Context, taskset.Task) (int, error)) *pool {
	p := &pool{host: host, max: most, wants: wants}
	p.set = taskset.New(taskset.Config{Keep: "pool", Loaded: func(ctx context.Context, set *taskset.Set) error { // each instance finds what there is
		return set.Scale(ctx, "scheduler", taskset.Item{Task: api.Task{
			Resources: api.Scalars(0.2, 256), Ports: map[string]uint16{"tcp": 0, "http": 0},
			Command: p.line("dask-scheduler", `--port "$TENDER_TASK_PORT_TCP" --dashboard-address "%s:$TENDER_TASK_PORT_HTTP"`, host),
			Checks:  []api.Check{{Readiness: true, TCP: &api.TCPCheck{Port: "http"}, Interval: time.Second}},
		}}, 1)
	}})
	return p
}

// line is a command in which the programs of Dask listen on the pool's host.
func (p *pool) line(program, format string, args ...any) *api.Command {
	if p.host != "" {
		program += " --host " + p.host
	}
	return &api.Command{Shell: "exec " + program + " " + fmt.Sprintf(format, args...)}
}

// configOf returns the configuration of each instance.
func configOf() framework.Config {
	return framework.Config{Name: "dask", Standby: true, FailoverTimeout: time.Hour}
}

// adapt looks once a second how many workers Dask could use, until ctx ends.
func (p *pool) adapt(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, task := range p.set.Tasks() {
			if task.Item == "scheduler-0" && task.Up {
				if err := p.scale(ctx, task); err != nil {
					log.Print(err)
				}
			}
		}
	}
}

// scale starts more workers at once, and ends some when there were too many for a while. Workers of a scheduler that was
// elsewhere are ended: they would look for it for ever.
func (p *pool) scale(ctx context.Context, scheduler taskset.Task) error {
	name := fmt.Sprintf("worker-%d", scheduler.Status.Ports["tcp"])
	now := 0
	for _, service := range p.set.Services() {
		switch {
		case service.Name == name:
			now = service.Count
		case service.Name != "scheduler":
			if err := p.set.Scale(ctx, service.Name, taskset.Item{}, 0); err != nil {
				return err
			}
		}
	}
	wanted, err := p.wants(ctx, scheduler)
	if err != nil {
		return err
	}
	if wanted = min(wanted, p.max); wanted >= now {
		p.spare = 0
	} else if p.spare++; p.spare < spareMost {
		return nil
	}
	if wanted == now {
		return nil
	}
	address := "tcp://" + p.address(scheduler, "tcp")
	log.Printf("%d workers at %s, there were %d", wanted, address, now)
	return p.set.Scale(ctx, name, taskset.Item{Task: api.Task{
		Resources: api.Scalars(0.5, 256),
		Command:   p.line("dask-worker", "--nthreads 1 --no-nanny --no-dashboard --local-directory . %s", address),
	}}, wanted)
}

// address returns where a port of the scheduler is.
func (p *pool) address(scheduler taskset.Task, port string) string {
	at := scheduler.Status
	return net.JoinHostPort(cmp.Or(p.host, at.Hostname), fmt.Sprint(at.Ports[port]))
}

// askDask asks the scheduler's HTTP server.
func (p *pool) askDask(ctx context.Context, scheduler taskset.Task) (int, error) {
	url := "http://" + p.address(scheduler, "http") + "/json/counts.json"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var counts struct {
		Wanted int `json:"desired_workers"`
	}
	return counts.Wanted, json.NewDecoder(answer.Body).Decode(&counts)
}

func main() {
	host := flag.String("host", "127.0.0.1", "`address` on which all of Dask listens; \"\": the agents' own")
	most := flag.Int("max", 4, "`number` of workers at most")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := newPool(*host, *most, nil)
	p.wants = p.askDask
	go p.adapt(ctx)
	config := configOf()
	config.Masters = strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	if err := framework.Run(ctx, config, p.set); err != nil {
		log.Fatal(err)
	}
}
