package jobs

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Type says what becomes of a job's tasks.
type Type string

// The types of jobs.
const (
	// BatchType is done when so many tasks have ended well.
	BatchType Type = "batch"
	// ServiceType keeps so many tasks running.
	ServiceType Type = "service"
	// DAGType runs steps, each after those that it names.
	DAGType Type = "dag"
	// CronType begins a batch whenever its schedule says so.
	CronType Type = "cron"
	// SystemType keeps a task running on each agent.
	SystemType Type = "system"
	// GangType is done when all its tasks, which begin together, have ended well.
	GangType Type = "gang"
)

// Types lists them all.
func Types() []Type { return []Type{BatchType, ServiceType, DAGType, CronType, SystemType, GangType} }

// Job is what people submit. Its zero fields are the documented defaults.
type Job struct {
	// Name is the job's identity: letters, digits, '-' and '_', at most 63 bytes.
	Name string `json:"name" toml:"name"`
	// Type says what becomes of its tasks.
	Type Type `json:"type" toml:"type"`
	// Priority orders the jobs of one manager: what is free goes to the highest first. Default 0.
	Priority int `json:"priority,omitempty" toml:"priority"`
	// Task is what each of its tasks runs; of a DAG the steps say that.
	Task Task `json:"task,omitzero" toml:"task"`
	// Batch says how many tasks a batch has.
	Batch *Batch `json:"batch,omitempty" toml:"batch"`
	// Service says how many tasks a service has, and how it changes.
	Service *Service `json:"service,omitempty" toml:"service"`
	// Cron says when the runs of a cron job begin.
	Cron *Cron `json:"cron,omitempty" toml:"cron"`
	// System says how the tasks of a system job change.
	System *System `json:"system,omitempty" toml:"system"`
	// Gang says how many members a gang has.
	Gang *Gang `json:"gang,omitempty" toml:"gang"`
	// Steps are those of a DAG, in any order.
	Steps []Step `json:"steps,omitempty" toml:"steps"`
}

// Step is a sub-job of a DAG: a batch that begins when the steps before it have ended.
type Step struct {
	Name string `json:"name" toml:"name"`
	// After names the steps before it. None: it begins with the job.
	After []string `json:"after,omitempty" toml:"after"`
	// When says how they must have ended: all well ("success", the default), one of them badly ("failure"), or in
	// any way ("always"). A step that does not come to be is skipped, and so are those that need its success.
	When When `json:"when,omitempty" toml:"when"`
	// Completions, Parallelism, Failures and Speculate are as in a batch.
	Completions int     `json:"completions,omitempty" toml:"completions"`
	Parallelism int     `json:"parallelism,omitempty" toml:"parallelism"`
	Failures    int     `json:"failures,omitempty" toml:"failures"`
	Speculate   float64 `json:"speculate,omitempty" toml:"speculate"`
	Task        Task    `json:"task" toml:"task"`
}

// When says after which ends of others a step begins.
type When string

// The conditions of steps.
const (
	OnSuccess When = "success"
	OnFailure When = "failure"
	Always    When = "always"
)

// Task is what each task of a sub-job runs, what it needs, and how often it is tried.
type Task struct {
	// Command is a line for /bin/sh; Argv is a program with its arguments. One of them is set.
	Command string   `json:"command,omitempty" toml:"command"`
	Argv    []string `json:"argv,omitempty" toml:"argv"`
	// Env is the environment, beside TENDER_TASK_* and TENDER_JOB_*.
	Env map[string]string `json:"env,omitempty" toml:"env"`
	// CPUs is how many processors it needs, Mem and Disk how many MB, GPUs how many devices. Defaults 0.1 and 32 MB.
	CPUs float64 `json:"cpus,omitempty" toml:"cpus"`
	Mem  float64 `json:"mem,omitempty" toml:"mem"`
	Disk float64 `json:"disk,omitempty" toml:"disk"`
	GPUs float64 `json:"gpus,omitempty" toml:"gpus"`
	// Ports are names, such as "http": it gets a port for each, as TENDER_TASK_PORT_HTTP.
	Ports []string `json:"ports,omitempty" toml:"ports"`
	// Checks say whether it is well while it runs. What is to prove itself has to pass them all.
	Checks []Check `json:"checks,omitempty" toml:"checks"`
	Given
	// Where names attributes that its agent must have: {disk = "ssd", zone = "a"}.
	Where map[string]string `json:"where,omitempty" toml:"where"`
	// Spread puts the tasks of a sub-job evenly over agents, zones, regions or the values of an attribute
	// ("attribute:rack"), and at most Most of them into one such place (0: as many as there is room for).
	Spread api.Place `json:"spread,omitempty" toml:"spread"`
	Most   int       `json:"most,omitempty" toml:"most"`
	// Labels are for people and their tools.
	Labels map[string]string `json:"labels,omitempty" toml:"labels"`
	// KillGrace is how long it may take to end when it is asked to, before it is killed. Default 5 s.
	KillGrace Duration `json:"kill_grace,omitempty" toml:"kill_grace"`
	// Timeout ends an attempt that takes longer, and counts it as failed. Default: none. Not for services.
	Timeout Duration `json:"timeout,omitempty" toml:"timeout"`
	// Attempts is how often an index may fail before it is given up. Default 4. A service never gives up.
	Attempts int `json:"attempts,omitempty" toml:"attempts"`
	// Backoff is the pause before the second attempt; it doubles with each failure, up to BackoffMax. A part of up to
	// a half is taken off, so that tasks do not come in waves. Defaults 1 s and 1 min.
	Backoff    Duration `json:"backoff,omitempty" toml:"backoff"`
	BackoffMax Duration `json:"backoff_max,omitempty" toml:"backoff_max"`
	// LostAfter is how long a task is waited for whose agent is taken for dead, before it is started elsewhere.
	// Default: not at all; negative: until the agent is back, or an operator gives it up.
	LostAfter Duration `json:"lost_after,omitempty" toml:"lost_after"`
}

// Given is what a task finds in its sandbox and its environment when it starts, beside Env.
type Given struct {
	// Files are fetched into the sandbox before it starts.
	Files []File `json:"files,omitempty" toml:"files"`
	// Secrets are those of the masters that it is given. Their values are no part of the job.
	Secrets []Secret `json:"secrets,omitempty" toml:"secrets"`
}

// File is one that the agent brings into the sandbox.
type File struct {
	// Source is a path or URL.
	Source string `json:"source" toml:"source"`
	// Name is its name in the sandbox. Default: the last part of Source.
	Name string `json:"name,omitempty" toml:"name"`
	// SHA256 is needed for http and https.
	SHA256     string `json:"sha256,omitempty" toml:"sha256"`
	Executable bool   `json:"executable,omitempty" toml:"executable"`
	// Extract unpacks a tar, tar.gz or zip.
	Extract bool `json:"extract,omitempty" toml:"extract"`
}

// Batch says how many tasks a batch has. Each has an index from 0 on, as TENDER_JOB_INDEX.
type Batch struct {
	// Completions is how many must end well. Default 1.
	Completions int `json:"completions,omitempty" toml:"completions"`
	// Parallelism is how many run at a time. Default: all, at most 1,000.
	Parallelism int `json:"parallelism,omitempty" toml:"parallelism"`
	// Failures is how many indexes may be given up before the job has failed. Default 0.
	Failures int `json:"failures,omitempty" toml:"failures"`
	// Deadline ends the job when it is not done so long after it was submitted. Default: none.
	Deadline Duration `json:"deadline,omitempty" toml:"deadline"`
	// Speculate gives a copy, on another agent, to a task that takes longer than so many times what half of the others
	// took at most, once three of four indexes have ended well and nothing else waits. Whichever ends well first counts,
	// the other is killed. For tasks that may run twice. Default: never.
	Speculate float64 `json:"speculate,omitempty" toml:"speculate"`
}

// Service says how many tasks of a service are kept running, and how they change.
type Service struct {
	// Count is how many. Default 1.
	Count int `json:"count,omitempty" toml:"count"`
	// AtOnce is how many are in change at a time when the job gets another task. Default 1.
	AtOnce int `json:"at_once,omitempty" toml:"at_once"`
	// Proof is how long a changed task must run well before the next one's turn. Default 10 s.
	Proof Duration `json:"proof,omitempty" toml:"proof"`
	// Canary is how many are changed first; they must run well for CanaryProof before the others have their turn.
	// Default 0; CanaryProof 1 min.
	Canary      int      `json:"canary,omitempty" toml:"canary"`
	CanaryProof Duration `json:"canary_proof,omitempty" toml:"canary_proof"`
	// KeepBad leaves a change that has gone wrong as it is. Default: the service goes back to the version before, by
	// itself, when a changed task ends badly before it has proven itself.
	KeepBad bool `json:"keep_bad,omitempty" toml:"keep_bad"`
}

// Duration is written as "1h30m".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	*d = Duration(span)
	return err
}

// IsZero says whether it is left to its default.
func (d Duration) IsZero() bool { return d == 0 }

func (d Duration) String() string { return time.Duration(d).String() }

// Defaults of [Job].
const (
	DefaultCPUs        = 0.1
	DefaultMem         = 32
	DefaultAttempts    = 4
	DefaultBackoff     = time.Second
	DefaultBackoffMax  = time.Minute
	DefaultParallelism = 1000
	DefaultProof       = 10 * time.Second
	DefaultCanaryProof = time.Minute
)

// WithDefaults fills in what was left open.
func (j Job) WithDefaults() Job {
	if j.Type != DAGType {
		j.Task = j.Task.withDefaults()
	}
	j.Steps = slices.Clone(j.Steps)
	for i := range j.Steps {
		j.Steps[i] = j.Steps[i].withDefaults()
	}
	switch j.Type {
	case BatchType:
		j.Batch = j.Batch.withDefaults()
	case ServiceType:
		j.Service = j.Service.withDefaults()
	case CronType:
		j.Cron = j.Cron.withDefaults()
	case SystemType:
		j.System = j.System.withDefaults()
	case GangType:
		j.Gang = j.Gang.withDefaults()
	}
	return j
}

func (s Step) withDefaults() Step {
	batch := (&Batch{Completions: s.Completions, Parallelism: s.Parallelism, Failures: s.Failures}).withDefaults()
	s.Completions, s.Parallelism, s.Task = batch.Completions, batch.Parallelism, s.Task.withDefaults()
	if s.When == "" {
		s.When = OnSuccess
	}
	return s
}

func (t Task) withDefaults() Task {
	if t.CPUs == 0 {
		t.CPUs = DefaultCPUs
	}
	if t.Mem == 0 {
		t.Mem = DefaultMem
	}
	if t.Attempts == 0 {
		t.Attempts = DefaultAttempts
	}
	if t.Backoff == 0 {
		t.Backoff = Duration(DefaultBackoff)
	}
	if t.BackoffMax == 0 {
		t.BackoffMax = max(Duration(DefaultBackoffMax), t.Backoff)
	}
	return t
}

func (b *Batch) withDefaults() *Batch {
	var full Batch
	if b != nil {
		full = *b
	}
	full.Completions = max(full.Completions, 1)
	if full.Parallelism == 0 {
		full.Parallelism = min(full.Completions, DefaultParallelism)
	}
	return &full
}

func (s *Service) withDefaults() *Service {
	full := Service{Count: 1}
	if s != nil {
		full = *s
	}
	if full.AtOnce == 0 {
		full.AtOnce = 1
	}
	if full.Proof == 0 {
		full.Proof = Duration(DefaultProof)
	}
	if full.CanaryProof == 0 {
		full.CanaryProof = Duration(DefaultCanaryProof)
	}
	return &full
}
