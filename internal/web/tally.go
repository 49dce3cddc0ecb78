package web

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// sizes are the kinds of resources that are added up.
var sizes = [...]string{"cpus", "mem", "disk", "gpus"}

// amounts says how much there is of each of the sizes, in thousandths, so that sums are exact.
type amounts [len(sizes)]int64

// amountsOf adds up resources, whatever they are reserved for. What is revocable is not counted.
func amountsOf(resources *structpb.Struct) (sum amounts) {
	for name, value := range resources.GetFields() { // order: irrelevant because they are added
		bare, of, _ := strings.Cut(name, "(")
		if i := slices.Index(sizes[:], bare); i >= 0 && !strings.Contains(of, "revocable") {
			sum[i] += int64(math.Round(1000 * value.GetNumberValue()))
		}
	}
	return sum
}

// of returns the amount of a kind; zero of a kind that is not added up.
func (a amounts) of(kind string) float64 {
	if i := slices.Index(sizes[:], kind); i >= 0 {
		return float64(a[i]) / 1000
	}
	return 0
}

func (a *amounts) add(b amounts, times int64) {
	for i := range a {
		a[i] += times * b[i]
	}
}

// holder is who holds something: a framework, by its name where it has one, in a role, for a job where it has jobs.
type holder struct{ role, framework, job string }

// holding is what a holder holds by its tasks.
type holding struct {
	holder
	amounts
	tasks int
}

// tally keeps the sums that the views show, change by change, because there may be too many tasks to add them up at each
// look. The zero value is usable.
type tally struct {
	tasks  map[string]counted    // by FRAMEWORK/TASK
	on     map[string][]holding  // by agent, sorted by holder; a slice is replaced, never edited
	all    map[holder]holding    // on all agents
	agents map[string][2]amounts // by agent: in total, allocated
	total  [2]amounts
	states map[string]int
}

// counted is how a task is counted.
type counted struct {
	holder
	amounts
	agent string
	state string
}

// turn takes in a change.
func (t *tally) turn(kind, name string, change *apiv1.Change) {
	switch kind {
	case "task":
		t.turnTask(name, change.GetTask())
	case "agent":
		var now [2]amounts
		if agent := change.GetAgent(); agent != nil {
			now = [2]amounts{amountsOf(agent.GetTotal()), amountsOf(agent.GetAllocated())}
		}
		for i := range now {
			t.total[i].add(t.agents[name][i], -1)
			t.total[i].add(now[i], 1)
		}
		if t.agents == nil {
			t.agents = make(map[string][2]amounts)
		}
		if t.agents[name] = now; change.GetAgent() == nil {
			delete(t.agents, name)
		}
	}
}

func (t *tally) turnTask(name string, task *apiv1.TaskView) {
	if old, known := t.tasks[name]; known {
		t.count(old, -1)
		delete(t.tasks, name)
	}
	if task == nil {
		return
	}
	if t.tasks == nil {
		t.tasks, t.on, t.all, t.states = make(map[string]counted), make(map[string][]holding), make(map[holder]holding), make(map[string]int)
	}
	now := counted{
		holder{task.GetRole(), cmp.Or(task.GetFrameworkName(), task.GetFrameworkId()), task.GetLabels()[api.JobLabel]}, amountsOf(task.GetResources()), task.GetAgentId(),
		task.GetState(),
	}
	t.tasks[name] = now
	t.count(now, 1)
}

// count counts a task once more, or once less.
func (t *tally) count(task counted, times int64) {
	if t.states[task.state] += int(times); t.states[task.state] == 0 {
		delete(t.states, task.state)
	}
	sum := func(h holding) holding {
		h.holder, h.tasks = task.holder, h.tasks+int(times)
		h.amounts.add(task.amounts, times)
		return h
	}
	if t.all[task.holder] = sum(t.all[task.holder]); t.all[task.holder].tasks == 0 {
		delete(t.all, task.holder)
	}
	here := slices.Clone(t.on[task.agent])
	i, known := slices.BinarySearchFunc(here, task.holder, func(h holding, of holder) int { return compareHolders(h.holder, of) })
	if !known {
		here = slices.Insert(here, i, holding{})
	}
	if here[i] = sum(here[i]); here[i].tasks == 0 {
		here = slices.Delete(here, i, i+1)
	}
	if t.on[task.agent] = here; len(here) == 0 {
		delete(t.on, task.agent)
	}
}

func compareHolders(a, b holder) int {
	return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.framework, b.framework), cmp.Compare(a.job, b.job))
}

// sums is what a tally comes to at a moment.
type sums struct {
	on               map[string][]holding  // by agent
	agents           map[string][2]amounts // by agent: in total, allocated
	all              []holding             // sorted by holder
	total, allocated amounts
	tasks            int
	states           map[string]int // how many tasks are in each
}

func (t *tally) sums() sums {
	return sums{
		on: maps.Clone(t.on), agents: maps.Clone(t.agents), total: t.total[0], allocated: t.total[1], tasks: len(t.tasks), states: maps.Clone(t.states),
		all: slices.SortedFunc(maps.Values(t.all), func(a, b holding) int { return compareHolders(a.holder, b.holder) }),
	}
}
