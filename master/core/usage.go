package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/meter"
)

// usage acts on what agents' tasks use. The policy is told of use beyond the requests, and the gap is offered as
// revocable (R28). It never touches a task.
type usage struct {
	*base
	standing *standing
	offers   *offers
}

// agentUsage is what an agent's tasks use.
type agentUsage struct {
	meter      meter.Meter
	meterStale *deadline // when its last sample is too old to count (R28)
	counted    time.Time // until when what its tasks use is counted (R80)
}

// used takes in a sample. It ignores a sample that has the same time as the one before. One that comes before the agent
// has told which tasks it has waits until then: all that they use would pass for use beyond what was asked for.
func (r *usage) used(a *agent, sample protocol.UsageReport) {
	if a.report != nil {
		waits := sample // only one that waits is kept
		a.report.usage = &waits
		return
	}
	if !a.meter.Take(sample, a, a.Total, r.config.RevocableMargin, r.now) {
		return
	}
	if r.countUse(a, sample); a.meter.Moved(a.Total) {
		r.noteAgent(a, change.Figures, "")
	}
	r.tellUse(a)
	r.setGap(a, a.meter.Gap(a.Total, a.Gap, r.now))
	if a.Gap.IsZero() {
		r.deadlines.Clear(a.meterStale)
	} else {
		r.deadlines.Set(a.meterStale, r.now.Add(2*a.told.beat))
	}
}

// tellUse tells the policy the use beyond the requests, if that has changed.
func (r *usage) tellUse(a *agent) {
	if used, changed := a.meter.Tell(a.Total); changed {
		r.policy.Use(a.id, used)
	}
}

// endUse takes a task that ends out of what is used, and out of the meter.
func (r *usage) endUse(t *task) {
	if t.agent.meter.End(t.metered(), t.agent) {
		r.tellUse(t.agent)
	}
	t.agent.meter.Drop(t.metered())
}

// forgetUse drops the samples of a session that ends. The policy forgets them too.
func (r *usage) forgetUse(a *agent) {
	if a.meter.Forget() {
		r.policy.Use(a.id, api.Resources{})
	}
	r.deadlines.Clear(a.meterStale)
	r.setGap(a, api.Resources{})
}

// metered returns the task as its agent's meter knows it.
func (t *task) metered() meter.Task {
	return meter.Task{
		Ref:       t.ref,
		Executor:  api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()},
		Resources: t.resources,
	}
}

// Settled reports whether the task has run for so long that its use shows what it needs.
func (a *agent) Settled(ref api.TaskRef, now time.Time) bool {
	t := a.tasks[ref]
	running := t.status.State == api.TaskRunning || t.status.State == api.TaskKilling
	if running && t.runs.IsZero() {
		t.runs = now
	}
	return running && now.Sub(t.runs) >= meter.Smoothing
}

// ExecutorHolds returns what the executor has asked for itself, without its tasks.
func (a *agent) ExecutorHolds(ref api.ExecutorRef) api.Resources {
	if x := a.executors[ref]; x != nil {
		return x.resources
	}
	return api.Resources{}
}

// setGap changes how much of the agent may be offered as revocable. When open offers hold more than that, they are
// rescinded, the youngest first. Tasks that hold more stay until their agent needs the room.
func (r *usage) setGap(a *agent, gap api.Resources) {
	a.SetGap(gap)
	if excess := a.OverGap(); !excess.IsZero() {
		r.offers.rescindAll(beyondGap(a.offers, excess), "what tasks leave unused has become less")
	}
	if !r.standing.gapToTell(a).Equal(a.gapTold) {
		a.policyStale = true
		r.standing.offerAgent(a)
	}
}

// beyondGap returns the youngest offers that together hold the excess.
func beyondGap(offers map[api.OfferID]*offer, excess api.Resources) map[api.OfferID]*offer {
	some := make(map[api.OfferID]*offer)
	for _, o := range slices.Backward(sortedOffers(offers)) {
		if !excess.Intersect(o.resources).IsZero() {
			some[o.id] = o
			excess = excess.Without(o.resources)
		}
	}
	return some
}

// closeGap sets the gap to zero, which rescinds its open offers, until enough new samples show again that there is one.
func (r *usage) closeGap(a *agent, why string) {
	if !a.Gap.IsZero() {
		r.info("gap closed", field("agent", a.id), field("why", why))
	}
	a.meter.Distrust(r.now)
	r.setGap(a, api.Resources{})
}

// takesRevocable records whether the framework accepts revocable resources. The policy is told the gaps of all agents
// as soon as any framework does, and that there are none when the last one stops.
func (r *usage) takesRevocable(fw *framework, takes bool) {
	if !r.standing.takesRevocable(fw, takes) {
		return
	}
	for _, id := range sortedKeys(r.agentByID) {
		r.setGap(r.agentByID[id], r.agentByID[id].Gap)
	}
}
