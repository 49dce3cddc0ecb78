package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
)

// workload says which jobs come when. Its numbers are those of the paper, made smaller.
type workload struct {
	small, large           int // number of jobs
	smallEvery, largeEvery time.Duration
	taskTime               time.Duration // average time of a task; each takes between half of it and one and a half
}

const (
	smallBlocks = 3
	largeBlocks = 100
	// copies is on how many agents each block is.
	copies = 3
)

// job reads blocks, with one task for each.
type job struct {
	name  string
	large bool
	at    time.Duration // when it arrives
	items []taskset.Item
}

// jobs distributes the blocks over the agents. The same seed gives the same jobs.
func (w workload) jobs(agents []api.AgentID, seed uint64) []job {
	random := rand.New(rand.NewPCG(seed, 1))
	var jobs []job
	for i := range w.small {
		jobs = append(jobs, w.job(fmt.Sprint("small-", i), smallBlocks, time.Duration(i)*w.smallEvery, agents, random))
	}
	for i := range w.large {
		jobs = append(jobs, w.job(fmt.Sprint("large-", i), largeBlocks, time.Duration(i)*w.largeEvery, agents, random))
	}
	return jobs
}

func (w workload) job(name string, blocks int, at time.Duration, agents []api.AgentID, random *rand.Rand) job {
	j := job{name: name, large: blocks == largeBlocks, at: at}
	for block := range blocks {
		var prefer locality.Prefer
		for _, i := range random.Perm(len(agents))[:min(copies, len(agents))] {
			prefer.Agents = append(prefer.Agents, agents[i])
		}
		length := w.taskTime/2 + time.Duration(random.Int64N(int64(w.taskTime)))
		j.items = append(j.items, taskset.Item{
			ID:    fmt.Sprintf("%s-block-%d", name, block),
			Group: name,
			Task: api.Task{
				Resources: api.Scalars(1, 32),
				Command:   &api.Command{Argv: []string{"sleep", fmt.Sprintf("%.2f", length.Seconds())}},
			},
			Prefer: prefer,
		})
	}
	return j
}
