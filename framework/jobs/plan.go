package jobs

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Plan lists the sub-jobs of a job, in the order in which they may begin.
type Plan struct {
	SubJobs []SubJob `json:"sub_jobs"`
}

// SubJob is a group of equal tasks of a job, which differ only by their index.
type SubJob struct {
	Name string `json:"name"`
	// Tasks is how many indexes the sub-job has, from 0.
	Tasks int `json:"tasks"`
	// AtOnce is how many tasks run at a time.
	AtOnce int `json:"at_once"`
	// Keep says that each index is kept running. Otherwise each index has to end well once.
	Keep bool `json:"keep,omitempty"`
	// EachAgent says that there is one index for each agent that matches. Tasks and AtOnce are then only bounds.
	EachAgent bool `json:"each_agent,omitempty"`
	// Together says that all indexes begin at one time, or none does.
	Together bool `json:"together,omitempty"`
	// Failures is how many indexes may be given up before the sub-job has failed.
	Failures int `json:"failures,omitempty"`
	// Speculate says how slow a task must be to get a copy; 0: no copies.
	Speculate float64 `json:"speculate,omitempty"`
	// After and When say after which sub-jobs this one begins.
	After []string `json:"after,omitempty"`
	When  When     `json:"when,omitempty"`
	Task  Task     `json:"task"`
}

// MainSubJob is the name of the sub-job of a job that has only one.
const MainSubJob = "main"

// Plan returns the job's plan. The job must have passed Check.
func (j Job) Plan() Plan {
	j = j.WithDefaults()
	if j.Type == DAGType {
		return Plan{SubJobs: planSteps(j.Steps)}
	}
	sub := SubJob{Name: MainSubJob, Task: j.Task}
	switch j.Type {
	case BatchType:
		sub.Tasks, sub.AtOnce, sub.Failures, sub.Speculate = j.Batch.Completions, j.Batch.Parallelism, j.Batch.Failures, j.Batch.Speculate
	case ServiceType:
		sub.Tasks, sub.AtOnce, sub.Keep = *j.Service.Count, *j.Service.Count, true
	case SystemType:
		sub.Tasks, sub.AtOnce, sub.Keep, sub.EachAgent, sub.Task = CompletionsMax, TasksMax, true, true, sub.Task.onEachAgent()
	case GangType:
		sub.Tasks, sub.AtOnce, sub.Together = j.Gang.Members, j.Gang.Members, true
	case CronType: // for each run
		sub.Tasks, sub.AtOnce, sub.Failures, sub.Speculate = j.Cron.Completions, j.Cron.Parallelism, j.Cron.Failures, j.Cron.Speculate
	}
	return Plan{SubJobs: []SubJob{sub}}
}

// planSteps returns the steps in the order in which they are written, but each behind those that it comes after.
func planSteps(steps []Step) (subJobs []SubJob) {
	placed := make(map[string]bool, len(steps))
	for len(subJobs) < len(steps) {
		before := len(subJobs)
		for _, step := range steps {
			if placed[step.Name] || slices.ContainsFunc(step.After, func(name string) bool { return !placed[name] }) {
				continue
			}
			placed[step.Name] = true
			subJobs = append(subJobs, SubJob{Name: step.Name, Tasks: step.Completions, AtOnce: step.Parallelism, Failures: step.Failures,
				Speculate: step.Speculate, After: step.After, When: step.When, Task: step.Task})
		}
		if len(subJobs) == before {
			return subJobs // the steps form a ring, which Check refuses
		}
	}
	return subJobs
}

// APITask returns the task without its ID, and without what depends on its index.
func (t Task) APITask() api.Task {
	resources := api.Scalars(t.CPUs, t.Mem)
	for name, amount := range map[string]float64{"disk": t.Disk, "gpus": t.GPUs} { // order: irrelevant because a sum is made
		if amount > 0 {
			resources = resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: name}, Scalar: api.MilliOf(amount)}))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Resources)) {
		resources = resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: name}, Scalar: api.MilliOf(t.Resources[name])}))
	}
	if t.Revocable {
		resources = resources.AsRevocable()
	}
	task := api.Task{
		Image: t.Image, Resources: resources, KillGrace: time.Duration(t.KillGrace), KillSignal: t.KillSignal, Labels: maps.Clone(t.Labels),
		Command: &api.Command{Shell: t.Command, Argv: slices.Clone(t.Argv), Env: maps.Clone(t.Env), User: t.User, Dir: t.Dir},
	}
	if t.Limits != nil {
		task.Limits = api.Limits{CPUs: api.MilliOf(t.Limits.CPUs), Mem: api.MilliOf(t.Limits.Mem), Pids: int64(t.Limits.Pids)}
	}
	for _, check := range t.Checks {
		task.Checks = append(task.Checks, check.apiCheck())
	}
	for _, secret := range t.Secrets {
		task.Secrets = append(task.Secrets, api.Secret(secret))
	}
	for _, file := range t.Files {
		task.Command.URIs = append(task.Command.URIs, api.URI(file))
	}
	if len(t.Ports) > 0 {
		task.Ports = make(map[string]uint16, len(t.Ports))
		for _, name := range t.Ports {
			task.Ports[name] = 0
		}
	}
	return task
}

// Same reports whether both tasks run the same, so that a change from one to the other replaces no task.
func (t Task) Same(other Task) bool {
	a, b := t.withDefaults(), other.withDefaults()
	for _, task := range []*Task{&a, &b} { // how often a task is tried, and where it may run, does not change what runs
		task.Attempts, task.Backoff, task.BackoffMax, task.LostAfter, task.Timeout = 0, 0, 0, 0, 0
	}
	return a.asText() == b.asText()
}
