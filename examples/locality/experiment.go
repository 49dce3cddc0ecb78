package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
)

// kind sums up the jobs of one size.
type kind struct {
	jobs, tasks, local int
	took               time.Duration // of the jobs, from their arrival to their end
}

func (k kind) hitRate() float64    { return float64(k.local) / float64(k.tasks) }
func (k kind) mean() time.Duration { return k.took / time.Duration(k.jobs) }

// running is a job that has arrived and has not ended.
type running struct {
	job
	came   time.Time
	left   int
	prefer map[string]locality.Prefer
}

// experiment runs jobs with one wait. In addition to a task set it only adds the jobs when they are due, and counts.
type experiment struct {
	*taskset.Set
	jobs []job
	once sync.Once

	mu           sync.Mutex
	running      map[string]*running
	small, large kind
}

func newExperiment(wait time.Duration, jobs []job) *experiment {
	e := &experiment{jobs: jobs, running: make(map[string]*running)}
	e.Set = taskset.New(taskset.Config{
		Locality: locality.Config{Node: locality.Wait{Time: wait}},
		Ended:    e.ended,
	})
	return e
}

// Subscribed starts the arrival of the jobs.
func (e *experiment) Subscribed(ctx context.Context, client *framework.Client) error {
	e.once.Do(func() {
		waiting := len(e.jobs)
		for _, j := range e.jobs {
			time.AfterFunc(j.at, func() {
				e.come(j)
				e.mu.Lock()
				defer e.mu.Unlock()
				if waiting--; waiting == 0 {
					go e.Close()
				}
			})
		}
	})
	return e.Set.Subscribed(ctx, client)
}

func (e *experiment) come(j job) {
	r := &running{job: j, came: time.Now(), left: len(j.items), prefer: make(map[string]locality.Prefer)}
	for _, item := range j.items {
		r.prefer[item.ID] = item.Prefer
	}
	e.mu.Lock()
	e.running[j.name] = r
	e.mu.Unlock()
	if err := e.Add(context.Background(), j.items...); err != nil {
		panic(err) // cannot fail: the names are made here
	}
}

// ended is called for each task that is done.
func (e *experiment) ended(outcome taskset.Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.running[outcome.Group]
	k := &e.small
	if r.large {
		k = &e.large
	}
	k.tasks++
	if slices.Contains(r.prefer[outcome.Item].Agents, outcome.Status.Agent) {
		k.local++
	}
	if r.left--; r.left == 0 {
		k.jobs++
		k.took += time.Since(r.came)
		delete(e.running, r.name)
	}
}

// look is a scheduler that takes nothing. It only learns which agents there are.
type look struct {
	agents map[api.AgentID]bool
}

func (l *look) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	for _, offer := range offers {
		l.agents[offer.Agent] = true
	}
	return nil
}

func (l *look) Update(context.Context, api.Status) error { return nil }

// agentsOf returns the agents that are offered within the given time.
func agentsOf(ctx context.Context, config framework.Config, moment time.Duration) ([]api.AgentID, error) {
	ctx, done := context.WithTimeout(ctx, moment)
	defer done()
	config.Name, config.TeardownAtEnd = config.Name+"-look", true
	seen := &look{agents: make(map[api.AgentID]bool)}
	if err := framework.Run(ctx, config, seen); err != nil {
		return nil, err
	}
	var agents []api.AgentID
	for agent := range seen.agents {
		agents = append(agents, agent)
	}
	slices.Sort(agents)
	return agents, nil
}
