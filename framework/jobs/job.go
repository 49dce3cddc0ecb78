package jobs

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Type says what happens with a job's tasks.
type Type string

// The types of jobs.
const (
	// BatchType is done when a certain number of tasks have ended well.
	BatchType Type = "batch"
	// ServiceType keeps a certain number of tasks running.
	ServiceType Type = "service"
	// DAGType runs steps, each after the steps that it names.
	DAGType Type = "dag"
	// CronType begins a batch whenever its schedule is due.
	CronType Type = "cron"
	// SystemType keeps a task running on each agent.
	SystemType Type = "system"
	// GangType is done when all its tasks have ended well; they begin together.
	GangType Type = "gang"
)

// Types returns all types.
func Types() []Type { return []Type{BatchType, ServiceType, DAGType, CronType, SystemType, GangType} }

// Job is what people submit. Fields that are zero have the documented defaults.
type Job struct {
	// Name is the job's identity: letters, digits, '-' and '_', at most 63 bytes.
	Name string `json:"name" toml:"name" rule:"required name"`
	// Type says what happens with the job's tasks.
	Type Type `json:"type" toml:"type" rule:"required batch|service|dag|cron|system|gang"`
	// Role is the role in which the job's tasks run: its quota, weight and priority hold for them, and who may see and
	// change the job follows it. Default: the role that the job has already, or else the manager's.
	Role api.Role `json:"role,omitempty" toml:"role"`
	// Priority orders the jobs of one manager: free resources go to the job with the highest priority first. Default 0.
	Priority int `json:"priority,omitempty" toml:"priority" rule:"-1000..1000"`
	// Task is what each of the job's tasks runs. Not for a DAG, whose steps have tasks of their own.
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
	// Steps are the steps of a DAG, in any order.
	Steps []Step `json:"steps,omitempty" toml:"steps" rule:"most=256"`
}

// Step is a sub-job of a DAG: a batch that begins when the steps before it have ended.
type Step struct {
	Name string `json:"name" toml:"name" rule:"required name"`
	// After names the steps before this one. Empty: the step begins with the job.
	After []string `json:"after,omitempty" toml:"after"`
	// When says how the steps in After must have ended: all well ("success", the default), at least one badly
	// ("failure"), or in any way ("always"). A step for which this does not come true is skipped, and so are the steps
	// that need its success.
	When When `json:"when,omitempty" toml:"when" rule:"success|failure|always needs=after"`
	// Completions, Parallelism, Failures and Speculate mean what they mean for a batch.
	Completions int     `json:"completions,omitempty" toml:"completions" rule:"1..100000000"`
	Parallelism int     `json:"parallelism,omitempty" toml:"parallelism" rule:"1..10000"`
	Failures    int     `json:"failures,omitempty" toml:"failures" rule:"0..100000000"`
	Speculate   float64 `json:"speculate,omitempty" toml:"speculate" rule:"1.1..1000"`
	Task        Task    `json:"task" toml:"task" rule:"required"`
}

// When says after which ends of the steps before it a step begins.
type When string

// The conditions of steps.
const (
	OnSuccess When = "success"
	OnFailure When = "failure"
	Always    When = "always"
)

// Task is what each task of a sub-job runs, what it needs, and how often it is tried.
type Task struct {
	// Command is a line for /bin/sh; Argv is a program with its arguments. Exactly one of them is set, or neither if there
	// is an Image whose own command is to run.
	Command string   `json:"command,omitempty" toml:"command"`
	Argv    []string `json:"argv,omitempty" toml:"argv"`
	// Env is the environment, beside the variables TENDER_TASK_* and TENDER_JOB_*.
	Env map[string]string `json:"env,omitempty" toml:"env"`
	// CPUs is how many processors the task needs, Mem and Disk how many MB. Defaults: 0.1 processors and 32 MB of memory.
	CPUs float64 `json:"cpus,omitempty" toml:"cpus" rule:"amount"`
	Mem  float64 `json:"mem,omitempty" toml:"mem" rule:"amount"`
	Disk float64 `json:"disk,omitempty" toml:"disk" rule:"amount zero"`
	Runs
	// Ports are names of ports, such as "http". The task gets a port for each, and finds its number in a variable such
	// as TENDER_TASK_PORT_HTTP.
	Ports []string `json:"ports,omitempty" toml:"ports"`
	// Checks find out whether the running task is healthy. A task that has to prove itself must pass all of them.
	Checks []Check `json:"checks,omitempty" toml:"checks" rule:"most=8"`
	Given
	// Where names attributes that the task's agent must have: {disk = "ssd", zone = ["a", "b"], rack = {not = "r1"}}.
	Where map[string]Match `json:"where,omitempty" toml:"where"`
	// Constraint is an expression over the task's agent that must be true, beside Where, such as attributes["rack"] == "r1".
	Constraint string `json:"constraint,omitempty" toml:"constraint"`
	// Spread distributes the tasks of a sub-job evenly over agents, zones, regions or the values of an attribute
	// ("attribute:rack"), with at most Most of them in one such place (0: as many as there is room for).
	Spread api.Place `json:"spread,omitempty" toml:"spread"`
	Most   int       `json:"most,omitempty" toml:"most" rule:"0..10000 needs=spread"`
	// Labels describe the task for people and their tools.
	Labels map[string]string `json:"labels,omitempty" toml:"labels"`
	// KillGrace is how long the task may take to end when it is asked to, before it is killed. Default 5 s.
	KillGrace Duration `json:"kill_grace,omitempty" toml:"kill_grace" rule:"positive"`
	// Timeout ends an attempt that takes longer, and counts it as failed. Default: no limit. Not for services.
	Timeout Duration `json:"timeout,omitempty" toml:"timeout" rule:"positive"`
	// Attempts is how often an index may fail before it is given up. Default 4. An index of a service is never given
	// up.
	Attempts int `json:"attempts,omitempty" toml:"attempts" rule:"1..1000000"`
	// Backoff is the pause before the second attempt. It doubles with each failure, up to BackoffMax. Each pause is
	// shortened by up to a half, so that tasks do not come in waves. Defaults 1 s and 1 min.
	Backoff    Duration `json:"backoff,omitempty" toml:"backoff" rule:"positive"`
	BackoffMax Duration `json:"backoff_max,omitempty" toml:"backoff_max" rule:"positive"`
	// LostAfter is how long a task is awaited whose agent is taken for dead, before it is started elsewhere. Default:
	// not at all; negative: until the agent is back or an operator gives it up.
	LostAfter Duration `json:"lost_after,omitempty" toml:"lost_after"`
}

// Runs says as whom and in what a task runs, and what it takes beside the usual resources.
type Runs struct {
	// Image is an OCI image in which the task runs, such as docker.io/library/alpine:3.20. Without a command the image's
	// own command runs.
	Image string `json:"image,omitempty" toml:"image"`
	// User is the user as whom the task runs; its agent must allow that. Default: the agent decides.
	User string `json:"user,omitempty" toml:"user"`
	// Dir is the folder in which the task begins: below its sandbox, or an absolute path. Default: the sandbox, or the
	// folder that the image names.
	Dir string `json:"dir,omitempty" toml:"dir"`
	// GPUs is how many GPUs the task needs; they are given whole.
	GPUs float64 `json:"gpus,omitempty" toml:"gpus" rule:"amount zero"`
	// KillSignal asks the task to end: SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 or SIGWINCH. Default: the signal
	// that the image names, or else SIGTERM.
	KillSignal string `json:"kill_signal,omitempty" toml:"kill_signal" rule:"SIGHUP|SIGINT|SIGQUIT|SIGTERM|SIGUSR1|SIGUSR2|SIGWINCH"`
	// Resources are amounts of further resources, such as {licenses = 1}.
	Resources map[string]float64 `json:"resources,omitempty" toml:"resources" rule:"amount"`
	// Revocable takes cpus and mem from what other tasks have and do not use. The task is ended when they need them, which
	// is no failure of it.
	Revocable bool `json:"revocable,omitempty" toml:"revocable"`
	// Limits are the most that the task may use, on agents that can enforce it.
	Limits *Limits `json:"limits,omitempty" toml:"limits"`
}

// Limits are the most that a task may use. What is left out follows from what the task asks for.
type Limits struct {
	CPUs float64 `json:"cpus,omitempty" toml:"cpus" rule:"amount"`
	// Mem is in MB, and not less than the task asks for.
	Mem float64 `json:"mem,omitempty" toml:"mem" rule:"amount"`
	// Pids bounds processes and threads together.
	Pids int `json:"pids,omitempty" toml:"pids" rule:"1..4194304"`
}

// Given is what a task finds in its sandbox and its environment when it starts, in addition to Env.
type Given struct {
	// Files are fetched into the sandbox before the task starts.
	Files []File `json:"files,omitempty" toml:"files"`
	// Secrets are the secrets of the masters that the task gets. Their values are no part of the job.
	Secrets []Secret `json:"secrets,omitempty" toml:"secrets" rule:"most=32"`
	// Volumes are the IDs of persistent volumes that exist, reserved for the job's role or for one above it. The task
	// runs on the agent that has them, finds them in its sandbox as volumes/ID, and waits while another task uses one.
	Volumes []api.VolumeID `json:"volumes,omitempty" toml:"volumes" rule:"most=16"`
}

// File is a file that the agent fetches into the sandbox.
type File struct {
	// Source is a path or URL.
	Source string `json:"source" toml:"source" rule:"required"`
	// Name is the file's name in the sandbox. Default: the last part of Source.
	Name string `json:"name,omitempty" toml:"name"`
	// SHA256 is required for http and https.
	SHA256     string `json:"sha256,omitempty" toml:"sha256"`
	Executable bool   `json:"executable,omitempty" toml:"executable"`
	// Extract unpacks the file, a tar, tar.gz or zip.
	Extract bool `json:"extract,omitempty" toml:"extract"`
}

// Batch says how many tasks a batch has. Each task has an index, from 0, in the variable TENDER_JOB_INDEX.
type Batch struct {
	// Completions is how many tasks must end well. Default 1.
	Completions int `json:"completions,omitempty" toml:"completions" rule:"1..100000000"`
	// Parallelism is how many tasks run at a time. Default: all, at most 1,000.
	Parallelism int `json:"parallelism,omitempty" toml:"parallelism" rule:"1..10000"`
	// Failures is how many indexes may be given up before the job has failed. Default 0.
	Failures int `json:"failures,omitempty" toml:"failures" rule:"0..100000000"`
	// Deadline ends the job if it is not done this long after it was submitted. Default: no deadline.
	Deadline Duration `json:"deadline,omitempty" toml:"deadline" rule:"positive"`
	// Speculate makes a copy, on another agent, of a task that runs for more than this many times the median of the
	// others. That happens only when three of four indexes have ended well and nothing else waits. The task that ends
	// well first counts, and the other is killed, so use it only for tasks that may run twice. Default: never.
	Speculate float64 `json:"speculate,omitempty" toml:"speculate" rule:"1.1..1000"`
}

// Service says how many tasks of a service are kept running, and how they are changed.
type Service struct {
	// Count is how many tasks are kept running; 0 keeps the job without any. Default (nil): 1.
	Count *int `json:"count,omitempty" toml:"count" rule:"0..10000"`
	// AtOnce is how many tasks are in change at a time when the job gets another Task. Default 1.
	AtOnce int `json:"at_once,omitempty" toml:"at_once" rule:"1..10000"`
	// Proof is how long a changed task must run well before the next one is changed. Default 10 s. It lasts at least as
	// long as the checks of a task that has passed them need to find that it no longer does: with the defaults of a check
	// 45 s.
	Proof Duration `json:"proof,omitempty" toml:"proof" rule:"positive"`
	// Canary is how many tasks are changed first; these must run well for CanaryProof before others are changed.
	// Default 0; CanaryProof 1 min, and as long as the checks need, like Proof.
	Canary      int      `json:"canary,omitempty" toml:"canary" rule:"0..10000"`
	CanaryProof Duration `json:"canary_proof,omitempty" toml:"canary_proof" rule:"positive needs=canary"`
	// KeepBad leaves a change that has gone wrong as it is. Without it the service goes back to the version before by
	// itself, when a changed task ends badly before it has proven itself.
	KeepBad bool `json:"keep_bad,omitempty" toml:"keep_bad"`
	// ProgressDeadline is how long a change, or the beginning of the service, may go on without a task that proves
	// itself. Then a change is bad. Default 10 min, and at least twice as long as the tasks need to prove themselves.
	ProgressDeadline Duration `json:"progress_deadline,omitempty" toml:"progress_deadline" rule:"positive"`
}

// Duration is written in a job file as, for example, "1h30m".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	*d = Duration(span)
	return err
}

// IsZero reports whether the duration is left to its default.
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
	DefaultProgress    = 10 * time.Minute
)

// WithDefaults returns the job with its defaults filled in.
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
		j.Service = j.Service.withDefaults(j.Task.timeToFail())
	case CronType:
		j.Cron = j.Cron.withDefaults()
	case SystemType:
		j.System = j.System.withDefaults(j.Task.timeToFail())
	case GangType:
		j.Gang = j.Gang.withDefaults()
	}
	return j
}

func (s Step) withDefaults() Step {
	batch := (&Batch{Completions: s.Completions, Parallelism: s.Parallelism, Failures: s.Failures}).withDefaults()
	s.Completions, s.Parallelism, s.Task = batch.Completions, batch.Parallelism, s.Task.withDefaults()
	s.When = cmp.Or(s.When, OnSuccess)
	return s
}

func (t Task) withDefaults() Task {
	t.CPUs = cmp.Or(t.CPUs, DefaultCPUs)
	t.Mem = cmp.Or(t.Mem, DefaultMem)
	t.Attempts = cmp.Or(t.Attempts, DefaultAttempts)
	t.Backoff = cmp.Or(t.Backoff, Duration(DefaultBackoff))
	t.BackoffMax = cmp.Or(t.BackoffMax, max(Duration(DefaultBackoffMax), t.Backoff))
	return t
}

func (b *Batch) withDefaults() *Batch {
	var full Batch
	if b != nil {
		full = *b
	}
	full.Completions = max(full.Completions, 1)
	full.Parallelism = cmp.Or(full.Parallelism, min(full.Completions, DefaultParallelism))
	return &full
}

// withDefaults raises proofs to what the checks of the service's tasks need to fail.
func (s *Service) withDefaults(checks Duration) *Service {
	var full Service
	if s != nil {
		full = *s
	}
	if full.Count == nil {
		full.Count = new(1)
	}
	full.AtOnce = cmp.Or(full.AtOnce, 1)
	full.Proof = max(cmp.Or(full.Proof, Duration(DefaultProof)), checks)
	full.CanaryProof = max(cmp.Or(full.CanaryProof, Duration(DefaultCanaryProof)), checks)
	full.ProgressDeadline = cmp.Or(full.ProgressDeadline, max(Duration(DefaultProgress), 2*full.longestProof()))
	return &full
}

// longestProof returns how long the tasks of the service need to prove themselves, at most.
func (s *Service) longestProof() Duration {
	if s.Canary > 0 {
		return max(s.Proof, s.CanaryProof)
	}
	return s.Proof
}
