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

// Smoothing is how long it takes until a change of use counts in full. It is also how long a task must have run before
// its use shows what it needs. (R28)
const Smoothing = 10 * time.Second

// An agent's total is divided into this many steps. The allocator is told only of changes of a whole step, because each
// one makes it decide again. Use beyond the requests has finer steps than the gap, because an open offer of the gap is
// rescinded whenever the gap shrinks.
const (
	useSteps = 40
	gapSteps = 20
	// shownSteps are those by which people see what an agent uses change: each one costs whoever watches a view of the
	// agent.
	shownSteps = 20
)

// Agent answers a meter's questions about its agent.
type Agent interface {
	// Settled reports whether the task has run for so long that its use shows what it needs.
	Settled(task api.TaskRef, now time.Time) bool
	// ExecutorHolds returns what the executor has asked for itself, without its tasks.
	ExecutorHolds(executor api.ExecutorRef) api.Resources
}

// Task describes a task that holds its resources.
type Task struct {
	Ref       api.TaskRef
	Executor  api.ExecutorRef
	Resources api.Resources
}

// Meter measures what an agent's tasks use. Its units are updated as tasks come and go, so that the cost of a sample
// depends on the number of executors and not on the number of tasks. Holds: units, revocable and fresh count only tasks
// that hold their resources.
type Meter struct {
	last  protocol.UsageReport
	shown pair // what Moved has compared with

	at    time.Time // when the last sample was taken in, by the leader's clock
	since time.Time // when the first sample came that may count for the gap
	// stamp is the time of the last sample by the agent's clock. It is compared only with other times of that clock.
	stamp  time.Time
	beyond pair // used beyond what was asked for, smoothed
	unused pair // asked for and not used, less the margin, smoothed
	told   api.Resources

	units     map[api.ExecutorRef]*unit
	revocable map[api.TaskRef]request
	fresh     map[api.TaskRef]request // firm tasks that have not run for long enough to be judged; nil: there are none
}

// request holds what a task has asked for.
type request struct {
	unit        *unit // of its executor
	asked, firm pair
}

// unit is an executor with its firm tasks. What they asked for together can be compared with what the executor uses,
// however the executor divides that among them. Revocable tasks are counted separately.
type unit struct {
	tasks int  // tasks that hold resources, firm and revocable
	asked pair // by the firm tasks

	// The fields below belong to the last sample.
	fresh pair // the part of asked that belongs to tasks that had not run for long enough to be judged
	aside pair // used by revocable tasks
	ended pair // used by firm tasks that have ended since the sample
}

// New returns the meter of an agent without tasks.
func New() Meter {
	return Meter{units: make(map[api.ExecutorRef]*unit), revocable: make(map[api.TaskRef]request)}
}

// Last returns the last sample.
func (m *Meter) Last() protocol.UsageReport { return m.last }

// Moved reports whether the last sample differs by a step of the total, or more, from the one of which it last reported
// that.
func (m *Meter) Moved(total api.Resources) bool {
	now, step := pair{float64(m.last.Total.CPU), float64(m.last.Total.Mem)}, pairOf(total)
	if math.Abs(now.cpu-m.shown.cpu) < max(step.cpu/shownSteps, 1) && math.Abs(now.mem-m.shown.mem) < max(step.mem/shownSteps, 1) {
		return false
	}
	m.shown = now
	return true
}

// Told returns the use beyond the requests that was last told to the allocator.
func (m *Meter) Told() api.Resources { return m.told }

// Add adds a task that holds its resources from now on.
func (m *Meter) Add(t Task) {
	u := m.units[t.Executor]
	if u == nil {
		u = &unit{}
		m.units[t.Executor] = u
	}
	u.tasks++
	wish := request{unit: u, asked: pairOf(t.Resources)}
	if t.Resources.HasRevocable() {
		wish.firm = pairOf(t.Resources.Firm())
		m.revocable[t.Ref] = wish
		return
	}
	u.asked = u.asked.plus(wish.asked)
	if m.fresh == nil {
		m.fresh = make(map[api.TaskRef]request)
	}
	m.fresh[t.Ref] = wish
}

// Drop removes a task that gives its resources back.
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

// Check compares the units with the tasks that hold resources, and returns the first difference. It is for tests,
// because it walks all tasks.
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
	same := func(one, other request) bool { return one.asked == other.asked && one.firm == other.firm }
	if len(m.units) != len(of.units) || !maps.EqualFunc(m.revocable, of.revocable, same) {
		return fmt.Errorf("%d units with %d revocable tasks, the tasks make %d with %d", len(m.units), len(m.revocable), len(of.units), len(of.revocable))
	}
	for task, wish := range m.fresh { // order: irrelevant because one fault is enough
		if !same(of.fresh[task], wish) {
			return fmt.Errorf("task %s is to be judged, but holds nothing firm", task)
		}
	}
	return nil
}

// Take takes in a sample and returns whether it is a new one; a sample with the same time as the one before is not. The
// margin is the percentage of what was asked for that never counts as unused.
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

// Tell returns the use beyond the requests, rounded to steps of the total, and whether that has changed since the last
// call.
func (m *Meter) Tell(total api.Resources) (used api.Resources, changed bool) {
	used = m.beyond.inSteps(pairOf(total))
	if used.Equal(m.told) {
		return used, false
	}
	m.told = used
	return used, true
}

// Forget drops what the samples of a session have shown, when the session ends: samples of the next session are not
// compared with them. It reports whether Tell had returned any use beyond the requests.
func (m *Meter) Forget() bool {
	told := !m.told.IsZero()
	m.at, m.since, m.stamp = time.Time{}, time.Time{}, time.Time{}
	m.beyond, m.unused, m.told = pair{}, pair{}, api.Resources{}
	return told
}

// Distrust makes the gap zero until samples of another Smoothing have shown that there is one.
func (m *Meter) Distrust(now time.Time) { m.since = now }

// Gap returns what the tasks leave unused, in whole steps of the total. The argument before is the gap so far.
func (m *Meter) Gap(total, before api.Resources, now time.Time) api.Resources {
	if now.Sub(m.since) < Smoothing {
		return api.Resources{}
	}
	all, was := pairOf(total), pairOf(before)
	return revocableOf(pair{settled(was.cpu, m.unused.cpu, all.cpu), settled(was.mem, m.unused.mem, all.mem)})
}

// settled rounds the amount down to whole steps. The result shrinks at once but grows only by more than a step and a
// half, so that it does not alternate between two steps.
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

// weigh compares what the agent's executors asked for with what they use. Each executor is compared by itself, so that
// what one leaves unused does not hide what another one uses beyond its request.
func (m *Meter) weigh(a Agent, total pair, kept float64) (beyond, unused pair) {
	firm := m.judge(a)
	if len(m.last.Executors) == 0 {
		return pair{}, pair{}
	}
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

// judge computes two sums for each unit: what was asked for by tasks that have not run for long enough to be judged,
// and what revocable tasks used. It returns the firm part of what revocable tasks asked for.
func (m *Meter) judge(a Agent) (firm pair) {
	for _, u := range m.units { // order: irrelevant because each is reset by itself
		u.fresh, u.aside, u.ended = pair{}, pair{}, pair{}
	}
	for ref, wish := range m.fresh { // order: irrelevant because whole numbers are summed
		if a.Settled(ref, m.at) {
			delete(m.fresh, ref)
			continue
		}
		wish.unit.fresh = wish.unit.fresh.plus(wish.asked)
	}
	if len(m.fresh) == 0 {
		m.fresh = nil // an emptied map keeps its memory, and ten thousand agents have tasks that stay
	}
	for ref, wish := range m.revocable { // order: irrelevant because whole numbers are summed
		wish.unit.aside = wish.unit.aside.plus(m.usedBy(ref, wish.asked))
		firm = firm.plus(wish.firm)
	}
	return firm
}

// usedBy returns what a task uses. For a task without processes of its own it returns what the task asked for.
func (m *Meter) usedBy(task api.TaskRef, asked pair) pair {
	if use, known := m.last.Tasks[task]; known {
		return pair{float64(use.CPU), float64(use.Mem)}
	}
	return asked
}

// End subtracts the part of a task that ends from the use beyond the requests. Otherwise that part of what it frees
// would be offered only after later samples have outweighed it. It reports whether any use beyond the requests had been
// told.
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

// pair is an amount of cpus and one of mem, in thousandths. Samples measure only these two.
type pair struct{ cpu, mem float64 }

func pairOf(resources api.Resources) pair {
	return pair{float64(resources.Scalar("cpus")), float64(resources.Scalar("mem"))}
}

func (p pair) plus(q pair) pair { return pair{p.cpu + q.cpu, p.mem + q.mem} }

// less returns p minus q, but never less than zero.
func (p pair) less(q pair) pair { return pair{max(0, p.cpu-q.cpu), max(0, p.mem-q.mem)} }

func (p pair) least(q pair) pair { return pair{min(p.cpu, q.cpu), min(p.mem, q.mem)} }

func (p pair) times(x float64) pair { return pair{p.cpu * x, p.mem * x} }

// towards returns p moved towards q by a share (0 to 1) of their distance.
func (p pair) towards(q pair, share float64) pair {
	return pair{p.cpu + share*(q.cpu-p.cpu), p.mem + share*(q.mem-p.mem)}
}

// inSteps rounds to whole steps of the agent's total.
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
