package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// keeper is a scheduler whose executor lives on: its first task runs until it is killed, beside short ones.
type keeper struct {
	scheduler
	keeps api.TaskID // guarded by mu
}

// keepers are all of them, in this process.
type keepers struct {
	cluster *cluster
	journal *journal
	each    []*keeper
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func startKeepers(ctx context.Context, c *cluster) (*keepers, error) {
	j, err := openJournal(filepath.Join(c.dir, "journal"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	all := &keepers{cluster: c, journal: j, cancel: cancel}
	for i := range c.options.executors {
		k := &keeper{scheduler: scheduler{dir: c.dir, name: fmt.Sprintf("keeper-%d", i+1), journal: j, inFlight: map[api.TaskID]bool{}, ctx: ctx}}
		all.each = append(all.each, k)
		config := framework.Config{Name: k.name, Masters: strings.Split(c.addresses(), ","), TeardownAtEnd: true}
		all.running.Go(func() {
			if err := framework.Run(ctx, config, k); err != nil {
				fmt.Fprintf(os.Stderr, "chaos: %s: %v\n", k.name, err)
			}
		})
	}
	return all, nil
}

// end tears all of them down.
func (a *keepers) end() {
	a.cancel()
	a.running.Wait()
}

// finish makes all tasks end. It does not ask for their ends: the statuses must come by themselves.
func (a *keepers) finish(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(a.cluster.dir, "stop"), nil, 0o600); err != nil {
		return err
	}
	for _, k := range a.each {
		if err := k.release(); err != nil {
			return err
		}
	}
	if err := a.cluster.await(ctx, "the last task's end", 4*a.cluster.options.heal, func(context.Context) string { return a.cluster.openTasks() }); err != nil {
		return err
	}
	return a.journal.say("settled", "keepers")
}

// release kills the task that runs on.
func (k *keeper) release() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.client.Kill(k.keeps)
}

// Subscribed starts nothing beside offers.
func (k *keeper) Subscribed(_ context.Context, client *framework.Client) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client = client
	return nil
}

// Offers launches the task that stays, and then one short task after the other. Leftovers are returned at once for the
// others.
func (k *keeper) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, offer := range offers {
		work := nap
		if k.keeps == "" {
			work = stay
		}
		if len(k.inFlight) > 1 || k.stopping() {
			answers = append(answers, api.Decline(offer, 300*time.Millisecond))
		} else if answer, launched := k.launch(offer, work, ""); launched {
			answers = append(answers, answer)
			if work != nap {
				k.keeps = answer.Operations[0].Tasks[0].ID
			}
		}
	}
	return answers
}
