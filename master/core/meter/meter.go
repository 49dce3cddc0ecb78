// Package meter compares what the tasks of an agent use with what they asked for. From smoothed samples a Meter
// computes what is used beyond the requests, and the gap: the unused part, which may be offered as revocable. (Protocol
// rule R28.) It knows tasks by their names and changes none.
package meter

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Smoothing is how long a change of use takes to count in full, and for how long a task runs before its use tells what
// it needs. (R28)
const Smoothing = 10 * time.Second

// An agent's total is divided into steps. The policy hears of a change that is as large
// as one, as it is asked to think each time; what is used beyond the requests is told more
// finely than the gap, of which an open offer is rescinded whenever it shrinks.
const (
	useSteps = 40
	gapSteps = 20
)

// Agent is what a meter asks about its agent.
type Agent interface {
	// Settled says that the task has run for so long that what it uses tells what it needs.
	Settled(task api.TaskRef, now time.Time) bool
	// ExecutorHolds is what the executor has asked for beside its tasks.
	ExecutorHolds(executor api.ExecutorRef) api.Resources
}

// Task is what a meter knows of a task that holds its resources.
type Task struct {
	Ref       api.TaskRef
	Executor  api.ExecutorRef
	Resources api.Resources
}

// Meter is what an agent's tasks use. Its units are kept as tasks come and go, so that a sample costs what there are
// executors, however many tasks they run. Holds: what stands in them is of tasks that are held.
type Meter struct {
	last protocol.UsageReport

	at     time.Time // of the last sample
	since  time.Time // when the first one came from which the gap may be computed
	stamp  time.Time // the last one's time by the agent's clock, which is compared only with itself
	beyond pair      // used beyond what was asked for
	unused pair      // asked for and not used, less the margin
	told   api.Resources

	units     map[api.ExecutorRef]*unit
	revocable map[api.TaskRef]request
	fresh     map[api.TaskRef]request // firm ones that no sample could judge yet
}

// request is what a task has asked for.
type request struct {
	executor    api.ExecutorRef
	asked, firm pair
}

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

// New is the meter of an agent without tasks.
func New() Meter {
	return Meter{
		units:     make(map[api.ExecutorRef]*unit),
		revocable: make(map[api.TaskRef]request),
		fresh:     make(map[api.TaskRef]request),
	}
}

// Last is the last sample.
func (m *Meter) Last() protocol.UsageReport { return m.last }

// Told is what was told last to be used beyond the requests.
func (m *Meter) Told() api.Resources { return m.told }

// Add takes in a task that holds its resources from now on.
func (m *Meter) Add(t Task) {
	u := m.units[t.Executor]
	if u == nil {
		u = &unit{}
		m.units[t.Executor] = u
	}
	u.tasks++
	wish := request{executor: t.Executor, asked: pairOf(t.Resources)}
	if t.Resources.HasRevocable() {
		wish.firm = pairOf(t.Resources.Firm())
		m.revocable[t.Ref] = wish
		return
	}
	u.asked = u.asked.plus(wish.asked)
	m.fresh[t.Ref] = wish
}

// Drop takes out a task that gives its resources back.
func (m *Meter) Drop(t Task) {
	u := m.units[t.Executor]
	if u.tasks--; u.tasks == 0 {
		delete(m.units, t.Executor)
	}
	delete(m.revocable, t.Ref)
	delete(m.fresh, t.Ref)
	if !t.Resources.HasRevocable() {
		u.asked = u.asked.less(pairOf(t.Resources))
	}
}

// Check says what is wrong with the units, when these are the tasks that are held. It is for tests: it walks all tasks.
func (m *Meter) Check(held []Task) error {
	of := New()
	for _, t := range held {
		of.Add(t)
	}
	for executor, u := range m.units { // order: irrelevant because one fault is enough
		if is := of.units[executor]; is == nil || is.tasks != u.tasks || is.asked != u.asked {
			return fmt.Errorf("executor %s is summed as %+v, its tasks are %+v", executor, *u, is)
		}
	}
	if len(m.units) != len(of.units) || !maps.Equal(m.revocable, of.revocable) {
		return fmt.Errorf("%d units with %d revocable tasks, the tasks make %d with %d", len(m.units), len(m.revocable), len(of.units), len(of.revocable))
	}
	for task, wish := range m.fresh { // order: irrelevant because one fault is enough
		if of.fresh[task] != wish {
			return fmt.Errorf("task %s is to be judged, but holds nothing firm", task)
		}
	}
	return nil
}

// Take takes a sample, and returns whether it says anything new: one that was taken before does not. Of what was asked
// for, the margin, in percent, is never called unused.
func (m *Meter) Take(sample protocol.UsageReport, a Agent, total api.Resources, margin int, now time.Time) bool {
	m.last = sample
	if stamp := sample.Total.At; !stamp.IsZero() && stamp.Equal(m.stamp) {
		return false
	}
	share := 1.0
	if !m.at.IsZero() {
		share = 1 - math.Exp(-float64(now.Sub(m.at))/float64(Smoothing))
	}
	m.at, m.stamp = now, sample.Total.At
	if m.since.IsZero() {
		m.since = now
	}
	beyond, unused := m.weigh(a, pairOf(total), 1-float64(margin)/100)
	m.beyond = m.beyond.towards(beyond, share)
	m.unused = m.unused.towards(unused, share)
	return true
}

// Tell returns what is used beyond the requests, in steps of the total, and whether that has changed since it was told
// last.
func (m *Meter) Tell(total api.Resources) (used api.Resources, changed bool) {
	used = m.beyond.inSteps(pairOf(total))
	if used.Equal(m.told) {
		return used, false
	}
	m.told = used
	return used, true
}

// Forget ends the samples with their session: those of the next one are compared with nothing. It reports whether
// anything had been told.
func (m *Meter) Forget() bool {
	told := !m.told.IsZero()
	m.at, m.since, m.stamp = time.Time{}, time.Time{}, time.Time{}
	m.beyond, m.unused, m.told = pair{}, pair{}, api.Resources{}
	return told
}

// Distrust lets no gap be until enough new samples show again that there is one.
func (m *Meter) Distrust(now time.Time) { m.since = now }

// Gap is what the tasks leave unused, in whole steps of the total; before is what it was.
func (m *Meter) Gap(total, before api.Resources, now time.Time) api.Resources {
	if now.Sub(m.since) < Smoothing {
		return api.Resources{}
	}
	all, was := pairOf(total), pairOf(before)
	return revocableOf(pair{settled(was.cpu, m.unused.cpu, all.cpu), settled(was.mem, m.unused.mem, all.mem)})
}

// settled is the amount in whole steps. It shrinks at once, but grows only by more than a step and a half, so that it
// does not go to and fro between two steps.
func settled(before, amount, total float64) float64 {
	step := max(1, total/gapSteps)
	if amount >= before && amount < before+1.5*step {
		return before
	}
	return math.Floor(amount/step) * step
}

func revocableOf(p pair) api.Resources {
	return api.NewResources(
		api.Resource{Label: api.Label{Name: "cpus", Revocable: true}, Scalar: api.Milli(p.cpu)},
		api.Resource{Label: api.Label{Name: "mem", Revocable: true}, Scalar: api.Milli(p.mem)},
	)
}

// weigh compares what the agent's executors asked for with what they use. Each counts by
// itself, so that what one leaves unused hides nothing of what another takes too much.
func (m *Meter) weigh(a Agent, total pair, kept float64) (beyond, unused pair) {
	if len(m.last.Executors) == 0 {
		return pair{}, pair{}
	}
	firm := m.judge(a)
	var all pair
	for ref, use := range m.last.Executors { // order: irrelevant because whole numbers are summed
		var of unit
		if u := m.units[ref]; u != nil {
			of = *u
		}
		of.asked = of.asked.plus(pairOf(a.ExecutorHolds(ref)))
		used := pair{float64(use.CPU), float64(use.Mem)}.less(of.aside)
		all = all.plus(used)
		beyond = beyond.plus(used.less(of.asked))
		unused = unused.plus(of.asked.times(kept).less(of.fresh).less(used))
	}
	return beyond, unused.least(total.times(kept).less(firm).less(all))
}

// judge adds up, for each unit, what the sample says nothing about yet, and what revocable tasks used. It returns what
// is firm of the latter.
func (m *Meter) judge(a Agent) (firm pair) {
	for _, u := range m.units { // order: irrelevant because each is reset by itself
		u.fresh, u.aside, u.ended = pair{}, pair{}, pair{}
	}
	for ref, wish := range m.fresh { // order: irrelevant because whole numbers are summed
		if a.Settled(ref, m.at) {
			delete(m.fresh, ref)
			continue
		}
		u := m.units[wish.executor]
		u.fresh = u.fresh.plus(wish.asked)
	}
	for ref, wish := range m.revocable { // order: irrelevant because whole numbers are summed
		u := m.units[wish.executor]
		u.aside = u.aside.plus(m.usedBy(ref, wish.asked))
		firm = firm.plus(wish.firm)
	}
	return firm
}

// usedBy is what a task uses; of one that has no processes of its own, what it asked for.
func (m *Meter) usedBy(task api.TaskRef, asked pair) pair {
	if use, known := m.last.Tasks[task]; known {
		return pair{float64(use.CPU), float64(use.Mem)}
	}
	return asked
}

// End takes a task that ends out of what is used beyond the requests: else that part
// of what it frees would be offered only when later samples have outweighed it. It reports whether that was told.
func (m *Meter) End(t Task, a Agent) bool {
	if t.Resources.HasRevocable() {
		return false
	}
	firm := pairOf(t.Resources)
	u, mine := m.units[t.Executor], m.usedBy(t.Ref, firm)
	told := !m.told.IsZero()
	if told {
		use, asked := m.last.Executors[t.Executor], u.asked.plus(pairOf(a.ExecutorHolds(t.Executor)))
		used := pair{float64(use.CPU), float64(use.Mem)}.less(u.aside).less(u.ended)
		before, after := used.less(asked), used.less(mine).less(asked.less(firm))
		m.beyond = m.beyond.less(before.less(after))
	}
	u.ended = u.ended.plus(mine)
	return told
}

// pair is an amount of cpus and one of mem, in thousandths. These two are what samples measure.
type pair struct{ cpu, mem float64 }

func pairOf(resources api.Resources) pair {
	return pair{float64(resources.Scalar("cpus")), float64(resources.Scalar("mem"))}
}

func (p pair) plus(q pair) pair { return pair{p.cpu + q.cpu, p.mem + q.mem} }

// less is p without q, and never below nothing.
func (p pair) less(q pair) pair { return pair{max(0, p.cpu-q.cpu), max(0, p.mem-q.mem)} }

func (p pair) least(q pair) pair { return pair{min(p.cpu, q.cpu), min(p.mem, q.mem)} }

func (p pair) times(x float64) pair { return pair{p.cpu * x, p.mem * x} }

// towards moves p by a share of its distance to q.
func (p pair) towards(q pair, share float64) pair {
	return pair{p.cpu + share*(q.cpu-p.cpu), p.mem + share*(q.mem-p.mem)}
}

// inSteps rounds to whole steps of what the agent has.
func (p pair) inSteps(total pair) api.Resources {
	return api.NewResources(
		api.Resource{Label: api.Label{Name: "cpus"}, Scalar: inSteps(p.cpu, total.cpu)},
		api.Resource{Label: api.Label{Name: "mem"}, Scalar: inSteps(p.mem, total.mem)},
	)
}

func inSteps(amount, total float64) api.Milli {
	step := max(1, total/useSteps)
	return api.Milli(math.Round(amount/step) * step)
}
