package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// keeper keeps a task running in each of its slots. It does nothing that its successor could not know: it writes each
// launch to the store before it launches the task.
type keeper struct {
	command api.Command
	slots   []slot
	client  *framework.Client
}

// slot is one copy of the command.
type slot struct {
	kept
	version uint64 // version of the entry in the store
	wanted  bool   // no task of the slot is known to run or to be on its way
}

// kept is what the store has of a slot.
type kept struct {
	Task api.TaskID // the task that was launched last, "" = none yet
	Runs int        // number of tasks that were launched so far
}

// size is what one copy needs.
var size = api.Scalars(0.1, 32)

func key(slot int) string { return fmt.Sprintf("slot/%d", slot) }

// Subscribed begins a session: this instance is the active one. It reads what the instance before has written, and asks
// what has become of its tasks; Update is told the answers.
func (k *keeper) Subscribed(ctx context.Context, client *framework.Client) error {
	k.client = client
	var tasks []api.TaskID
	for i := range k.slots {
		entry, err := client.Store().Get(ctx, key(i))
		if err != nil {
			return err
		}
		s := slot{version: entry.Version}
		if entry.Version > 0 {
			if err := json.Unmarshal(entry.Value, &s.kept); err != nil {
				return fmt.Errorf("the store's %s: %w", key(i), err)
			}
		}
		if s.wanted = s.Task == ""; !s.wanted {
			tasks = append(tasks, s.Task)
		}
		k.slots[i] = s
	}
	fmt.Println("active as", client.FrameworkID(), "with", len(tasks), "tasks from before")
	if len(tasks) > 0 {
		if err := client.Reconcile(tasks...); err != nil {
			return err
		}
	}
	return k.demand()
}

// demand states how many copies are missing; offers come only for those.
func (k *keeper) demand() error {
	var demand api.Demand
	missing := int64(0)
	for _, s := range k.slots {
		if s.wanted {
			missing++
		}
	}
	if missing > 0 {
		demand.Shapes = []api.Shape{{Resources: size, Count: missing}}
	}
	return k.client.Demand(demand)
}

// Offers launches the missing copies. If a launch can't be written to the store, it does not happen: the store refuses
// the write if this instance was taken over meanwhile (R5).
func (k *keeper) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		var tasks []api.Task
		left := offer.Resources
		for i := range k.slots {
			rest, fits := left.Minus(size)
			if !fits || !k.slots[i].wanted {
				continue
			}
			if err := k.plan(ctx, i); err != nil {
				fmt.Println("not launched:", err)
				break
			}
			left = rest
			tasks = append(tasks, api.Task{ID: k.slots[i].Task, Resources: size, Command: &k.command})
		}
		if len(tasks) > 0 {
			answers = append(answers, api.Launch(offer, tasks...))
		}
	}
	return answers
}

// plan writes the next task of a slot to the store.
func (k *keeper) plan(ctx context.Context, i int) error {
	s := &k.slots[i]
	next := kept{Task: api.TaskID(fmt.Sprintf("copy-%d-%d", i, s.Runs+1)), Runs: s.Runs + 1}
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	entry, err := k.client.Store().Put(ctx, key(i), value, s.version)
	if err != nil {
		return err
	}
	s.kept, s.version, s.wanted = next, entry.Version, false
	return nil
}

// Update lets the next copy start when one has ended, or was never started.
func (k *keeper) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	for i := range k.slots {
		s := &k.slots[i]
		if s.Task == status.Task && status.State.Settled() {
			s.wanted = true
			return k.demand()
		}
	}
	return nil
}
