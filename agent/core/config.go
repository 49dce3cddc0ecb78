package core

import (
	"cmp"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
)

// Config is what a core is made with. Zero fields mean the documented defaults.
type Config struct {
	// Agent is what the agent tells masters about itself. The core fills in the ID.
	Agent   api.Agent
	Version string
	// Sandboxes is the folder under which every executor and task has its own.
	Sandboxes string

	// HeartbeatInterval and SessionTimeout hold until a leader says otherwise. Default
	// 1 s and 5 s.
	HeartbeatInterval time.Duration
	SessionTimeout    time.Duration
	// ResendMin is the first pause before an unacknowledged status is sent again; it
	// doubles up to ResendMax. Default 1 s, 1 min.
	ResendMin time.Duration
	ResendMax time.Duration
	// KillGrace is for tasks and executors that name none. Default 5 s.
	KillGrace time.Duration
	// KillSlack is how much longer than the grace an executor may take to end a task before the agent sends SIGKILL
	// itself. Default 5 s.
	KillSlack time.Duration
	// ExecutorTimeout is how long an executor may take to subscribe after its start,
	// and to come back after a restart of the agent. Default 1 min.
	ExecutorTimeout time.Duration
	// ExecutorIdle is how long the built-in executor of a framework stays without a
	// task. Default 1 min. Short costs a start for the next task; long keeps a process.
	// A framework's own executor stays until it is shut down.
	ExecutorIdle time.Duration
	// RecoveryTimeout is how long executors wait for an agent that went away before
	// they kill their tasks. Default 15 min; negative = not at all.
	RecoveryTimeout time.Duration
	// StubsMax is how many ended tasks are remembered, and their sandboxes kept; the
	// oldest go first. Default 1000.
	StubsMax int
	// SandboxAge is how long the sandbox of an ended task is kept. Default 7 days.
	SandboxAge time.Duration
	// SandboxBytesMax is how many bytes the kept sandboxes of ended tasks may take together; beyond it the oldest
	// go. Default 0: as many as the disk has room for.
	SandboxBytesMax int64
	// TaskUser is the user that tasks run as when they ask for none. TaskUsers are the users that tasks may ask for;
	// "*" stands for everybody but root.
	TaskUser  string
	TaskUsers []string
	// NoImages says why this agent runs no tasks in images, as a part of a sentence. Default "": it runs them.
	NoImages string
	// GPUs are the driver's names of the agent's GPUs, by index. Default: the indices as names, as many as its
	// resources say.
	GPUs []string
	// TasksMax is how many tasks one agent holds. A launch beyond it is DROPPED.
	// Default 100,000.
	TasksMax int
}

func (c Config) withDefaults() Config {
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 5*time.Second)
	c.ResendMin = cmp.Or(c.ResendMin, time.Second)
	c.ResendMax = cmp.Or(c.ResendMax, time.Minute)
	c.KillGrace = cmp.Or(c.KillGrace, 5*time.Second)
	c.KillSlack = cmp.Or(c.KillSlack, 5*time.Second)
	c.ExecutorTimeout = cmp.Or(c.ExecutorTimeout, time.Minute)
	c.ExecutorIdle = cmp.Or(c.ExecutorIdle, time.Minute)
	c.RecoveryTimeout = max(cmp.Or(c.RecoveryTimeout, 15*time.Minute), 0)
	c.StubsMax = cmp.Or(c.StubsMax, 1000)
	c.SandboxAge = cmp.Or(c.SandboxAge, 7*24*time.Hour)
	c.TasksMax = cmp.Or(c.TasksMax, 100_000)
	if len(c.GPUs) == 0 {
		for i := range int(c.Agent.Resources.Scalar(api.GPUs) / 1000) {
			c.GPUs = append(c.GPUs, strconv.Itoa(i))
		}
	}
	return c
}
