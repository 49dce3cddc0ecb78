package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// attemptsMax is how often a chunk is tried before the whole count fails.
const attemptsMax = 5

// scheduler hands chunks to whatever is offered and gathers their counts.
type scheduler struct {
	chunks   [][]string
	executor api.Executor
	progress *progress
	finish   context.CancelFunc
	client   *framework.Client

	pending  []int                // chunks that no task has, in order
	attempts []int                // tasks so far, by chunk
	running  map[api.TaskID]int   // chunk of each task that has not ended
	parts    map[int]map[int]part // by chunk, then by number
	done     int

	counts  counts
	byAgent map[api.AgentID]int // tasks finished
	hosts   map[api.AgentID]string
	retries int
	failure error
}

func newScheduler(chunks [][]string, self api.Executor, progress *progress, finish context.CancelFunc) *scheduler {
	s := &scheduler{
		chunks: chunks, executor: self, progress: progress, finish: finish,
		attempts: make([]int, len(chunks)), running: map[api.TaskID]int{}, parts: map[int]map[int]part{},
		counts: counts{}, byAgent: map[api.AgentID]int{}, hosts: map[api.AgentID]string{},
	}
	for chunk := range chunks {
		s.pending = append(s.pending, chunk)
	}
	if len(chunks) == 0 {
		finish()
	}
	return s
}

// taskResources is what one task needs.
var taskResources = api.Scalars(0.25, 64)

// Subscribed states the demand, so that nothing is offered that is not needed.
func (s *scheduler) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	return s.demand()
}

func (s *scheduler) demand() error {
	demand := api.Demand{}
	if count := int64(len(s.pending)); count > 0 {
		// The first task on an agent brings the executor with it.
		shape := taskResources.Plus(s.executor.Resources)
		demand.Shapes = []api.Shape{{Resources: shape, Count: count}}
	}
	return s.client.Demand(demand)
}

// Offers packs as many tasks as fit into each offer.
func (s *scheduler) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		if tasks := s.pack(offer); len(tasks) > 0 {
			answers = append(answers, api.Launch(offer, tasks...))
		}
	}
	return answers
}

func (s *scheduler) pack(offer api.Offer) []api.Task {
	s.hosts[offer.Agent] = offer.Hostname
	left := offer.Resources.UsableBy(offer.Role)
	if len(offer.Executors) == 0 {
		_, rest, ok := left.Carve(s.executor.Resources)
		if !ok {
			return nil
		}
		left = rest
	}
	var tasks []api.Task
	for len(s.pending) > 0 {
		_, rest, ok := left.Carve(taskResources)
		if !ok {
			break
		}
		left = rest
		tasks = append(tasks, s.start(s.pending[0]))
		s.pending = s.pending[1:]
	}
	return tasks
}

// start makes a task of a chunk. Its ID is new each time, as IDs are never used twice.
func (s *scheduler) start(chunk int) api.Task {
	data, err := json.Marshal(s.chunks[chunk])
	if err != nil {
		panic(err) // a list of strings
	}
	s.attempts[chunk]++
	id := api.TaskID(fmt.Sprintf("count-%d-%d", chunk, s.attempts[chunk]))
	s.running[id] = chunk
	s.parts[chunk] = map[int]part{}
	return api.Task{ID: id, Resources: taskResources, Executor: &s.executor, Data: data}
}

// Update gathers the parts; a task that did not finish is tried again. It may be told
// the same thing twice, which changes nothing.
func (s *scheduler) Update(_ context.Context, status api.Status) error {
	chunk, ok := s.running[status.Task]
	if !ok {
		return nil
	}
	if len(status.Data) > 0 {
		var part part
		if err := json.Unmarshal(status.Data, &part); err != nil {
			return s.fail(fmt.Errorf("task %s sent counts that can't be read: %w", status.Task, err))
		}
		s.parts[chunk][part.Part] = part
	}
	if !status.State.Terminal() {
		return nil
	}
	delete(s.running, status.Task)
	if status.State == api.TaskFinished && s.complete(chunk) {
		return s.finished(chunk, status.Agent)
	}
	return s.retry(chunk, status)
}

// complete reports whether all parts of the chunk have come.
func (s *scheduler) complete(chunk int) bool {
	for _, part := range s.parts[chunk] {
		return part.Of == len(s.parts[chunk])
	}
	return false
}

func (s *scheduler) finished(chunk int, agent api.AgentID) error {
	for _, part := range s.parts[chunk] {
		s.counts.add(part.Counts)
	}
	delete(s.parts, chunk)
	s.byAgent[agent]++
	s.done++
	s.progress.show(s.done)
	if s.done == len(s.chunks) {
		s.finish()
		return nil
	}
	return s.demand()
}

func (s *scheduler) retry(chunk int, status api.Status) error {
	if s.attempts[chunk] >= attemptsMax {
		return s.fail(fmt.Errorf("task %s is %s %s after %d attempts: %s",
			status.Task, status.State, status.Reason, attemptsMax, status.Message))
	}
	s.retries++
	s.pending = append(s.pending, chunk)
	return s.demand()
}

// fail ends the run; the status counts as handled.
func (s *scheduler) fail(err error) error {
	s.failure = err
	s.finish()
	return nil
}
