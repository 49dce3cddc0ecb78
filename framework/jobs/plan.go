package jobs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Plan is what a job comes to: its sub-jobs, in the order in which they may begin.
type Plan struct {
	SubJobs []SubJob `json:"sub_jobs"`
}

// SubJob is a group of equal tasks of a job, told apart by their index.
type SubJob struct {
	Name string `json:"name"`
	// Tasks is how many indexes it has, from 0 on.
	Tasks int `json:"tasks"`
	// AtOnce is how many of them run at a time.
	AtOnce int `json:"at_once"`
	// Keep: each index is kept running. Otherwise each ends once, well.
	Keep bool `json:"keep,omitempty"`
	// EachAgent: there is an index for each agent that matches; Tasks and AtOnce are no more than bounds.
	EachAgent bool `json:"each_agent,omitempty"`
	// Together: all indexes begin at one time, or none does.
	Together bool `json:"together,omitempty"`
	// Failures is how many indexes may be given up.
	Failures int `json:"failures,omitempty"`
	// Speculate says which tasks are slow enough for a copy; 0: none.
	Speculate float64 `json:"speculate,omitempty"`
	// After and When say when it begins.
	After []string `json:"after,omitempty"`
	When  When     `json:"when,omitempty"`
	Task  Task     `json:"task"`
}

// MainSubJob is the name of the only sub-job of a job that has one.
const MainSubJob = "main"

// Plan makes the job's plan. The job must have been checked.
func (j Job) Plan() Plan {
	j = j.WithDefaults()
	if j.Type == DAGType {
		return Plan{SubJobs: planSteps(j.Steps)}
	}
	one := SubJob{Name: MainSubJob, Task: j.Task}
	switch j.Type {
	case BatchType:
		one.Tasks, one.AtOnce, one.Failures, one.Speculate = j.Batch.Completions, j.Batch.Parallelism, j.Batch.Failures, j.Batch.Speculate
	case ServiceType:
		one.Tasks, one.AtOnce, one.Keep = j.Service.Count, j.Service.Count, true
	case SystemType:
		one.Tasks, one.AtOnce, one.Keep, one.EachAgent, one.Task = CompletionsMax, TasksMax, true, true, one.Task.onEachAgent()
	case GangType:
		one.Tasks, one.AtOnce, one.Together = j.Gang.Members, j.Gang.Members, true
	case CronType: // of each run
		one.Tasks, one.AtOnce, one.Failures, one.Speculate = j.Cron.Completions, j.Cron.Parallelism, j.Cron.Failures, j.Cron.Speculate
	}
	return Plan{SubJobs: []SubJob{one}}
}

// planSteps puts each step behind those that it comes after, and else as they are written.
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
			return subJobs // a ring, which Check refuses
		}
	}
	return subJobs
}

// APITask is the task without its ID, and without what depends on the index.
func (t Task) APITask() api.Task {
	resources := api.Scalars(t.CPUs, t.Mem)
	for name, amount := range map[string]float64{"disk": t.Disk, "gpus": t.GPUs} { // order: irrelevant because a sum is made
		if amount > 0 {
			resources = resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: name}, Scalar: api.MilliOf(amount)}))
		}
	}
	task := api.Task{
		Resources: resources, KillGrace: time.Duration(t.KillGrace), Labels: maps.Clone(t.Labels),
		Command: &api.Command{Shell: t.Command, Argv: slices.Clone(t.Argv), Env: maps.Clone(t.Env)},
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

// Constraint is Where as masters judge it.
func (t Task) Constraint() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.Where)) {
		what := "attributes[?" + strconv.Quote(name) + "].orValue(\"\")"
		if name == "hostname" || name == "region" || name == "zone" {
			what = name
		}
		parts = append(parts, what+" == "+strconv.Quote(t.Where[name]))
	}
	return strings.Join(parts, " && ")
}

// Fits says whether an offer's agent has what Where asks for.
func (t Task) Fits(offer api.Offer) bool {
	for name, value := range t.Where { // order: irrelevant because all must hold
		has := offer.Attributes[name]
		switch name {
		case "hostname":
			has = offer.Hostname
		case "region":
			has = offer.Region
		case "zone":
			has = offer.Zone
		}
		if has != value {
			return false
		}
	}
	return true
}

// Same says whether both run the same: changing from one to the other replaces no task.
func (t Task) Same(other Task) bool {
	a, b := t.withDefaults(), other.withDefaults()
	for _, one := range []*Task{&a, &b} { // how often it is tried, and where it may run, is no part of what runs
		one.Attempts, one.Backoff, one.BackoffMax, one.LostAfter, one.Timeout = 0, 0, 0, 0, 0
	}
	return a.text() == b.text()
}
