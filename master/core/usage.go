package core

import (
	"math"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// smoothing is how long a change of use takes to count in full (R28).
const smoothing = 10 * time.Second

// pair is an amount of cpus and of mem, in thousandths: what samples measure.
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

// An agent's total is divided into steps. The policy hears of a change that is as large
// as one, as it is asked to think each time; what is used beyond the requests is told more
// finely than the gap, of which an open offer is rescinded whenever it shrinks.
const (
	useSteps = 40
	gapSteps = 20
)

// smoothed is what the samples of an agent's session say, averaged.
type smoothed struct {
	at     time.Time // of the last sample
	since  time.Time // of the first one that the gap may stand on
	stamp  time.Time // of the last one, by the agent's clock: it is compared with itself alone
	beyond pair      // used beyond what was asked for
	unused pair      // asked for and not used, less the margin
	told   api.Resources
}

// used takes a sample. One that was taken before says nothing new.
func (c *Core) used(a *agent, sample protocol.UsageReport) {
	a.usage = sample
	if stamp := sample.Total.At; !stamp.IsZero() && stamp.Equal(a.smooth.stamp) {
		return
	}
	s := &a.smooth
	share := 1.0
	if !s.at.IsZero() {
		share = 1 - math.Exp(-float64(c.now.Sub(s.at))/float64(smoothing))
	}
	s.at, s.stamp = c.now, sample.Total.At
	if s.since.IsZero() {
		s.since = c.now
	}
	beyond, unused := c.weigh(a, sample)
	s.beyond = s.beyond.towards(beyond, share)
	s.unused = s.unused.towards(unused, share)
	c.tellUse(a)
	c.setGap(a, c.gapOf(a))
	if a.gap.IsZero() {
		c.deadlines.clear(&a.stale)
	} else {
		c.deadlines.set(&a.stale, c.now.Add(2*c.config.HeartbeatInterval))
	}
}

// tellUse tells the policy what is used beyond the requests, if that has changed.
func (c *Core) tellUse(a *agent) {
	if told := a.smooth.beyond.inSteps(pairOf(a.total)); !told.Equal(a.smooth.told) {
		a.smooth.told = told
		c.policy.Use(a.id, told)
	}
}

// endUse takes a task that has ended out of what is used beyond the requests: else that
// part of what it frees would be offered only when later samples have outweighed it.
func (c *Core) endUse(t *task) {
	a := t.agent
	if a.smooth.told.IsZero() || t.revocable() {
		return
	}
	var asked, used pair // by what else its executor runs
	if x := a.executors[api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()}]; x != nil {
		asked = pairOf(x.resources)
	}
	for ref, other := range a.tasks { // order: irrelevant because whole numbers are summed
		if other.held && ref.Framework == t.ref.Framework && !other.revocable() && other.task.ExecutorID() == t.task.ExecutorID() {
			asked, used = asked.plus(pairOf(other.resources)), used.plus(usedBy(other, a.usage))
		}
	}
	after := used.less(asked)
	before := used.plus(usedBy(t, a.usage)).less(asked.plus(pairOf(t.resources)))
	a.smooth.beyond = a.smooth.beyond.less(before.less(after))
	c.tellUse(a)
}

// forgetUse ends the samples with their session. The policy forgets them too: samples of
// the next session are compared with nothing.
func (c *Core) forgetUse(a *agent) {
	if !a.smooth.told.IsZero() {
		c.policy.Use(a.id, api.Resources{})
	}
	a.smooth = smoothed{}
	c.deadlines.clear(&a.stale)
	c.setGap(a, api.Resources{})
}

// unit is one executor with its tasks, but for the revocable ones: what it asked for can
// be compared with what it uses, however it divides that among its tasks.
type unit struct {
	asked pair
	fresh pair // of asked: by tasks that have not run for long enough to be judged
	used  pair
	aside pair // of used: by revocable tasks
}

// weigh compares what the agent's executors asked for with what they use. Each counts by
// itself, so that what one leaves unused hides nothing of what another takes too much.
func (c *Core) weigh(a *agent, sample protocol.UsageReport) (beyond, unused pair) {
	if len(sample.Executors) == 0 {
		return pair{}, pair{}
	}
	units := make(map[api.ExecutorRef]*unit, len(sample.Executors))
	for ref, use := range sample.Executors { // order: irrelevant because each is put in its place
		u := &unit{used: pair{float64(use.CPU), float64(use.Mem)}}
		if x := a.executors[ref]; x != nil {
			u.asked = pairOf(x.resources)
		}
		units[ref] = u
	}
	var firm pair                 // of revocable tasks
	for ref, t := range a.tasks { // order: irrelevant because whole numbers are summed
		u := units[api.ExecutorRef{Framework: ref.Framework, Executor: t.task.ExecutorID()}]
		switch {
		case !t.held:
		case t.revocable():
			firm = firm.plus(pairOf(t.resources.Firm()))
			if u != nil {
				u.aside = u.aside.plus(usedBy(t, sample))
			}
		case u != nil:
			c.addAsked(u, t)
		}
	}
	kept := 1 - float64(c.config.RevocableMargin)/100
	var all pair
	for _, u := range units { // order: irrelevant because whole numbers are summed
		used := u.used.less(u.aside)
		all = all.plus(used)
		beyond = beyond.plus(used.less(u.asked))
		unused = unused.plus(u.asked.times(kept).less(u.fresh).less(used))
	}
	return beyond, unused.least(pairOf(a.total).times(kept).less(firm).less(all))
}

// addAsked adds what a firm task asked for.
func (c *Core) addAsked(u *unit, t *task) {
	asked := pairOf(t.resources)
	u.asked = u.asked.plus(asked)
	running := t.status.State == api.TaskRunning || t.status.State == api.TaskKilling
	if running && t.runs.IsZero() {
		t.runs = c.now
	}
	if !running || c.now.Sub(t.runs) < smoothing {
		u.fresh = u.fresh.plus(asked)
	}
}

// usedBy is what a task uses; of one that has no processes of its own, what it asked for.
func usedBy(t *task, sample protocol.UsageReport) pair {
	if use, known := sample.Tasks[t.ref]; known {
		return pair{float64(use.CPU), float64(use.Mem)}
	}
	return pairOf(t.resources)
}
