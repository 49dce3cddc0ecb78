package frameworktest

import (
	"cmp"
	"context"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// Cluster says what to build. The zero value is one master and one agent with 4 cpus and 4 GB, whose commands are
// played by [PlayCommand].
type Cluster struct {
	// Masters is the size of the quorum: 1, 3 or 5. Default 1.
	Masters int
	// Agents is the number of agents on machines like Machine. Default 1; negative: none, see [Handle.AddAgent].
	Agents  int
	Machine Machine
	// Script plays the tasks that no function in Executors runs. It must be a pure function of the task, because it may
	// be called several times, also at the same time. Default [PlayCommand].
	Script func(task api.Task) Play
	// Executors are real executor functions, by the ID under which tasks name the executor. They run in the bubble, as
	// if they were processes on the agents.
	Executors map[api.ExecutorID]ExecutorFunc
	// Allocator is the name of the masters' allocator. Default: the masters' own default.
	Allocator string
	// Latency is the longest time that bytes may be under way; each write takes a time of its own. Default 0.
	Latency time.Duration
	// Seed determines what is random. Default 1.
	Seed uint64

	// Heartbeat is how often agents and schedulers send a heartbeat; one that sends none for five times as long is
	// DISCONNECTED. Default 1 s, as in real clusters. Heartbeats are nearly all that a cluster with little to do costs:
	// for hours of a thousand agents set 10 s, as docs/performance.md does.
	Heartbeat time.Duration
	// Further times of the masters; zero: the masters' defaults.
	OfferTimeout    time.Duration
	TombstoneAfter  time.Duration
	GoneAfter       time.Duration
	FailoverTimeout time.Duration
}

// ExecutorFunc is a function for [executor.Run].
type ExecutorFunc = func(ctx context.Context, task *executor.Task) error

// Machine describes the machine of an agent.
type Machine struct {
	Hostname   string        // default: the host's name in the story, "agent-host-1"
	Resources  api.Resources // default 4 cpus, 4096 MB
	Attributes map[string]string
	Region     string
	Zone       string
}

func (c Cluster) withDefaults() Cluster {
	c.Masters = cmp.Or(c.Masters, 1)
	c.Agents = cmp.Or(c.Agents, 1)
	if c.Script == nil {
		c.Script = PlayCommand
	}
	c.Seed = cmp.Or(c.Seed, 1)
	if c.Machine.Resources.IsZero() {
		c.Machine.Resources = api.Scalars(4, 4096)
	}
	return c
}
