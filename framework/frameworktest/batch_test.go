package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// batch is a small batch scheduler. It runs each of its jobs to success once; what ended badly it tries again, under a
// new ID. It ends when all jobs are done.
type batch struct {
	size    api.Resources
	command func(job int) *api.Command
	waiting []int              // jobs to start
	tries   map[int]int        // of each job
	flying  map[api.TaskID]int // jobs by the task that tries them
	done    map[int]bool
	jobs    int
	stays   bool         // after the last job
	moods   *rand.Rand   // nil: it handles every update at once
	left    atomic.Int32 // jobs that are not done, for others to read
	client  *framework.Client
}

func newBatch(jobs int, command string) *batch {
	b := &batch{
		size:    api.Scalars(0.5, 128),
		command: func(int) *api.Command { return &api.Command{Shell: command} },
		tries:   make(map[int]int), flying: make(map[api.TaskID]int), done: make(map[int]bool), jobs: jobs,
	}
	for job := range jobs {
		b.waiting = append(b.waiting, job)
	}
	b.left.Store(int32(jobs))
	return b
}

func (b *batch) Subscribed(_ context.Context, client *framework.Client) error {
	b.client = client
	// A scheduler that was killed does not know which of its launches were sent.
	return client.Reconcile(slices.Collect(maps.Keys(b.flying))...)
}

// Offers packs as many jobs as fit into each offer.
func (b *batch) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		var tasks []api.Task
		left := offer.Resources
		for len(b.waiting) > 0 {
			rest, fits := left.Minus(b.size)
			if !fits {
				break
			}
			left = rest
			tasks = append(tasks, b.next())
		}
		if len(tasks) > 0 {
			answers = append(answers, api.Launch(offer, tasks...))
		}
	}
	return answers
}

func (b *batch) next() api.Task {
	job := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.tries[job]++
	id := api.TaskID(fmt.Sprintf("job-%d-%d", job, b.tries[job]))
	b.flying[id] = job
	return api.Task{ID: id, Resources: b.size, Command: b.command(job)}
}

var errMood = errors.New("not now")

func (b *batch) Update(ctx context.Context, status api.Status) error {
	if b.moods != nil {
		select {
		case <-time.After(time.Duration(b.moods.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if b.moods.IntN(10) == 0 {
			return errMood
		}
	}
	job, ok := b.flying[status.Task]
	if !ok || !status.State.Terminal() && status.State != api.TaskUnknown {
		return nil
	}
	delete(b.flying, status.Task)
	if status.State == api.TaskFinished {
		b.done[job] = true
	} else {
		b.waiting = append(b.waiting, job)
		_ = b.client.Revive() // fails only when Run ends
	}
	b.left.Store(int32(b.jobs - len(b.done)))
	if len(b.done) == b.jobs && !b.stays {
		_ = b.client.Teardown()
	}
	return nil
}
