package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// frameworks are all of them; each has a task that runs to the end, so that its executor lives.
type frameworks struct {
	each   []*scheduler
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func startFrameworks(ctx context.Context, master string, count int) *frameworks {
	ctx, cancel := context.WithCancel(ctx)
	all := &frameworks{cancel: cancel}
	for i := range count {
		s := &scheduler{name: fmt.Sprintf("chaos-agent-%d", i+1), tasks: map[api.TaskID]*task{}, changed: make(chan struct{}, 1)}
		all.each = append(all.each, s)
		config := framework.Config{Name: s.name, Masters: []string{master}, TeardownAtEnd: true}
		all.ended.Go(func() { s.failed = framework.Run(ctx, config, s) })
	}
	return all
}

// end tears all of them down.
func (f *frameworks) end() {
	f.cancel()
	f.ended.Wait()
}

// scheduler is one framework.
type scheduler struct {
	name   string
	client *framework.Client
	failed error // of its run; read after that

	mu       sync.Mutex
	tasks    map[api.TaskID]*task // guarded by mu
	count    int                  // guarded by mu
	inFlight int                  // short ones; guarded by mu
	stopping bool                 // guarded by mu
	changed  chan struct{}        // capacity 1: a task has ended
}

// task is what became of one.
type task struct {
	keeps  bool // it runs until it is killed
	latest api.TaskState
	why    string
}

// shortMax is how many short tasks a framework has at a time.
const shortMax = 1

func (s *scheduler) Subscribed(_ context.Context, client *framework.Client) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
	return nil
}

// Offers launches the task that stays, then short ones. What is left over goes to the others at once.
func (s *scheduler) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, offer := range offers {
		var tasks []api.Task
		if s.count == 0 && !s.stopping {
			tasks = append(tasks, s.task("keeps", "exec sleep 100000"))
		}
		if s.inFlight < shortMax && !s.stopping {
			s.inFlight++
			tasks = append(tasks, s.task("short", "sleep 0.2"))
		}
		answer := api.Decline(offer, 300*time.Millisecond)
		if len(tasks) > 0 {
			answer = api.Launch(offer, tasks...)
			answer.Filter.Refuse = -1
		}
		answers = append(answers, answer)
	}
	return answers
}

// task makes one. It makes a file in its sandbox that must not be there, which proves that it has run, and only once.
func (s *scheduler) task(kind, work string) api.Task {
	s.count++
	id := api.TaskID(fmt.Sprintf("%s-%d", kind, s.count))
	s.tasks[id] = &task{keeps: kind == "keeps"}
	const proof = "set -C; true > started || { true > again; exit 9; }; "
	return api.Task{ID: id, Resources: api.Scalars(0.1, 40), Command: &api.Command{Shell: proof + work}}
}

func (s *scheduler) Update(_ context.Context, status api.Status) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.tasks[status.Task]
	if its == nil || its.latest.Terminal() {
		return nil
	}
	its.latest, its.why = status.State, fmt.Sprintf("%v %v %s", status.State, status.Reason, status.Message)
	if !status.State.Terminal() {
		return nil
	}
	if !its.keeps {
		s.inFlight--
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// open are the tasks whose end was not told.
func (s *scheduler) open() (ids []api.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, its := range s.tasks {
		if !its.latest.Terminal() {
			ids = append(ids, id)
		}
	}
	return ids
}

// finish has all tasks end, and returns those whose end is never told. Nobody asks for it: the statuses must come.
func (f *frameworks) finish(ctx context.Context, most time.Duration) (late []string) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, s := range f.each {
		s.mu.Lock()
		s.stopping = true
		for id, its := range s.tasks {
			if its.keeps && !its.latest.Terminal() {
				if err := s.client.Kill(id); err != nil {
					fmt.Println(s.name, err)
				}
			}
		}
		s.mu.Unlock()
	}
	for _, s := range f.each {
		for open := s.open(); len(open) > 0; open = s.open() {
			select {
			case <-s.changed:
				continue
			case <-ctx.Done():
			}
			for _, id := range open {
				late = append(late, s.name+"/"+string(id))
			}
			break
		}
	}
	return late
}

// findings are what was seen of tasks.
type findings struct {
	launched, dropped, silent int
	lost, twice               []string
}

// judge looks at each task: how it has ended, and what it has left in its sandbox.
func (f *frameworks) judge(found *findings, sandboxes string) {
	for _, s := range f.each {
		s.mu.Lock()
		for id, its := range s.tasks {
			found.launched++
			name := s.name + "/" + string(id)
			folder := filepath.Join(sandboxes, string(s.client.FrameworkID()), string(api.CommandExecutor), "tasks", string(id))
			_, started := os.Lstat(filepath.Join(folder, "started"))
			_, again := os.Lstat(filepath.Join(folder, "again"))
			good := its.latest == api.TaskFinished && !its.keeps || its.latest == api.TaskKilled && its.keeps
			switch {
			case again == nil:
				found.twice = append(found.twice, name)
			case its.latest == api.TaskDropped && started != nil:
				found.dropped++
			case !its.latest.Terminal(): // it is counted as one without an end
			case !good || started != nil:
				found.lost = append(found.lost, name+" ("+its.why+")")
			}
		}
		s.mu.Unlock()
	}
}
