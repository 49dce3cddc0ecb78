package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// unit is one executor with its tasks, but for the revocable ones: what it asked for can
// be compared with what it uses, however it divides that among its tasks.
type unit struct {
	tasks int  // that are held, of both kinds
	asked pair // by the firm ones

	// By the last sample.
	fresh pair // the part of asked that is of tasks which had not run for long enough to be judged
	aside pair // used by revocable tasks
	ended pair // what firm tasks used that have ended since
}

// units are an agent's tasks as samples are compared with them. They are kept as tasks come
// and go, so that a sample costs what there are executors, however many tasks they run.
// Holds: what stands here is of tasks that are held.
type units struct {
	of        map[api.ExecutorRef]*unit
	revocable map[api.TaskRef]*task
	fresh     map[api.TaskRef]*task // firm ones that no sample could judge yet
}

func newUnits() units {
	return units{make(map[api.ExecutorRef]*unit), make(map[api.TaskRef]*task), make(map[api.TaskRef]*task)}
}

// add takes in a task that holds its resources from now on.
func (us *units) add(t *task) {
	u := us.of[t.executor()]
	if u == nil {
		u = &unit{}
		us.of[t.executor()] = u
	}
	u.tasks++
	if t.revocable() {
		us.revocable[t.ref] = t
		return
	}
	u.asked = u.asked.plus(pairOf(t.resources))
	us.fresh[t.ref] = t
}

// drop takes out a task that gives its resources back.
func (us *units) drop(t *task) {
	u := us.of[t.executor()]
	if u.tasks--; u.tasks == 0 {
		delete(us.of, t.executor())
	}
	delete(us.revocable, t.ref)
	delete(us.fresh, t.ref)
	if !t.revocable() {
		u.asked = u.asked.less(pairOf(t.resources))
	}
}

// executor is who runs the task.
func (t *task) executor() api.ExecutorRef {
	return api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()}
}

// weigh compares what the agent's executors asked for with what they use. Each counts by
// itself, so that what one leaves unused hides nothing of what another takes too much.
func (r *usage) weigh(a *agent, sample protocol.UsageReport) (beyond, unused pair) {
	if len(sample.Executors) == 0 {
		return pair{}, pair{}
	}
	firm := r.judge(a, sample)
	kept := 1 - float64(r.config.RevocableMargin)/100
	var all pair
	for ref, use := range sample.Executors { // order: irrelevant because whole numbers are summed
		var of unit
		if u := a.units.of[ref]; u != nil {
			of = *u
		}
		if x := a.executors[ref]; x != nil {
			of.asked = of.asked.plus(pairOf(x.resources))
		}
		used := pair{float64(use.CPU), float64(use.Mem)}.less(of.aside)
		all = all.plus(used)
		beyond = beyond.plus(used.less(of.asked))
		unused = unused.plus(of.asked.times(kept).less(of.fresh).less(used))
	}
	return beyond, unused.least(pairOf(a.Total).times(kept).less(firm).less(all))
}

// judge adds up, for each unit, what the sample says nothing about yet, and what revocable tasks used. It returns what
// is firm of the latter.
func (r *usage) judge(a *agent, sample protocol.UsageReport) (firm pair) {
	us := &a.units
	for _, u := range us.of { // order: irrelevant because each is reset by itself
		u.fresh, u.aside, u.ended = pair{}, pair{}, pair{}
	}
	for ref, t := range us.fresh { // order: irrelevant because whole numbers are summed
		if r.settledIn(t) {
			delete(us.fresh, ref)
			continue
		}
		u := us.of[t.executor()]
		u.fresh = u.fresh.plus(pairOf(t.resources))
	}
	for _, t := range us.revocable { // order: irrelevant because whole numbers are summed
		u := us.of[t.executor()]
		u.aside = u.aside.plus(usedBy(t, sample))
		firm = firm.plus(pairOf(t.resources.Firm()))
	}
	return firm
}

// settledIn says that the task has run for so long that what it uses tells what it needs.
func (r *usage) settledIn(t *task) bool {
	running := t.status.State == api.TaskRunning || t.status.State == api.TaskKilling
	if running && t.runs.IsZero() {
		t.runs = r.now
	}
	return running && r.now.Sub(t.runs) >= smoothing
}

// usedBy is what a task uses; of one that has no processes of its own, what it asked for.
func usedBy(t *task, sample protocol.UsageReport) pair {
	if use, known := sample.Tasks[t.ref]; known {
		return pair{float64(use.CPU), float64(use.Mem)}
	}
	return pairOf(t.resources)
}

// endUse takes a task that ends out of what is used beyond the requests: else that part
// of what it frees would be offered only when later samples have outweighed it.
func (r *usage) endUse(t *task) {
	a, ref := t.agent, t.executor()
	if t.revocable() {
		return
	}
	u, mine := a.units.of[ref], usedBy(t, a.usage)
	if !a.smooth.told.IsZero() {
		use, asked := a.usage.Executors[ref], u.asked
		if x := a.executors[ref]; x != nil {
			asked = asked.plus(pairOf(x.resources))
		}
		used := pair{float64(use.CPU), float64(use.Mem)}.less(u.aside).less(u.ended)
		before, after := used.less(asked), used.less(mine).less(asked.less(pairOf(t.resources)))
		a.smooth.beyond = a.smooth.beyond.less(before.less(after))
		r.tellUse(a)
	}
	u.ended = u.ended.plus(mine)
}
