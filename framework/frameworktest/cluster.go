package frameworktest

import (
	"context"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// Cluster says what to build. The zero value is one master and one agent of 4 cpus and 4 GB whose
// commands are played by [PlayCommand].
type Cluster struct {
	// Masters form the quorum: 1, 3 or 5. Default 1.
	Masters int
	// Agents of the kind that Machine describes. Default 1; negative: none, see [Handle.AddAgent].
	Agents  int
	Machine Machine
	// Script plays the tasks that no function in Executors runs. It must be a pure function of the
	// task: it is asked by whoever needs to know. Default [PlayCommand].
	Script func(task api.Task) Play
	// Executors are real executor code, by the ID under which tasks name it. It runs in the bubble,
	// as if it were a process on the agent.
	Executors map[api.ExecutorID]ExecutorFunc
	// Allocator by its name. Default: the masters' own.
	Allocator string
	// Latency is the most that bytes are under way; each takes its own time. Default 0.
	Latency time.Duration
	// Seed chooses what is left to chance. Default 1.
	Seed uint64

	// Heartbeat is how often agents and schedulers give a sign of life; who gives none for five of them
	// is DISCONNECTED. Default 1 s, as in life. Nearly all that a cluster with little to do costs is
	// heartbeats: for hours of a thousand agents say 10 s, as docs/performance.md does.
	Heartbeat time.Duration
	// The other times of masters; zero: their defaults.
	OfferTimeout    time.Duration
	TombstoneAfter  time.Duration
	GoneAfter       time.Duration
	FailoverTimeout time.Duration
}

// ExecutorFunc is what [executor.Run] takes.
type ExecutorFunc = func(ctx context.Context, task *executor.Task) error

// Machine is what an agent runs on.
type Machine struct {
	Hostname   string        // default: the host's name in the story, "agent-host-1"
	Resources  api.Resources // default 4 cpus, 4096 MB
	Attributes map[string]string
	Region     string
	Zone       string
}

func (c Cluster) withDefaults() Cluster {
	if c.Masters == 0 {
		c.Masters = 1
	}
	if c.Agents == 0 {
		c.Agents = 1
	}
	if c.Script == nil {
		c.Script = PlayCommand
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Machine.Resources.IsZero() {
		c.Machine.Resources = api.Scalars(4, 4096)
	}
	return c
}
