package core

import (
	"math"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// usage is what agents' tasks use, smoothed, and what follows: what is used beyond the requests, and the gap of what is
// revocable (R28). It never touches a task.
type usage struct {
	*base
	standing *standing
	offers   *offers
}

// agentUsage is what an agent's tasks use.
type agentUsage struct {
	usage  protocol.UsageReport
	smooth smoothed
	units  units     // what samples are compared with
	stale  *deadline // when its last sample says nothing any more (R28)
}

// smoothing is how long a change of use takes to count in full (R28).
const smoothing = 10 * time.Second

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
	since  time.Time // when the first one came from which the gap may be computed
	stamp  time.Time // the last one's time by the agent's clock, which is compared only with itself
	beyond pair      // used beyond what was asked for
	unused pair      // asked for and not used, less the margin
	told   api.Resources
}

// used takes a sample. One that was taken before says nothing new.
func (r *usage) used(a *agent, sample protocol.UsageReport) {
	a.usage = sample
	if stamp := sample.Total.At; !stamp.IsZero() && stamp.Equal(a.smooth.stamp) {
		return
	}
	s := &a.smooth
	share := 1.0
	if !s.at.IsZero() {
		share = 1 - math.Exp(-float64(r.now.Sub(s.at))/float64(smoothing))
	}
	s.at, s.stamp = r.now, sample.Total.At
	if s.since.IsZero() {
		s.since = r.now
	}
	beyond, unused := r.weigh(a, sample)
	s.beyond = s.beyond.towards(beyond, share)
	s.unused = s.unused.towards(unused, share)
	r.tellUse(a)
	r.setGap(a, r.gapOf(a))
	if a.Gap.IsZero() {
		r.deadlines.clear(a.stale)
	} else {
		r.deadlines.set(a.stale, r.now.Add(2*r.config.HeartbeatInterval))
	}
}

// tellUse tells the policy what is used beyond the requests, if that has changed.
func (r *usage) tellUse(a *agent) {
	if told := a.smooth.beyond.inSteps(pairOf(a.Total)); !told.Equal(a.smooth.told) {
		a.smooth.told = told
		r.policy.Use(a.id, told)
	}
}

// forgetUse ends the samples with their session. The policy forgets them too: samples of
// the next session are compared with nothing.
func (r *usage) forgetUse(a *agent) {
	if !a.smooth.told.IsZero() {
		r.policy.Use(a.id, api.Resources{})
	}
	a.smooth = smoothed{}
	r.deadlines.clear(a.stale)
	r.setGap(a, api.Resources{})
}

// gapOf is what the agent's tasks leave unused, in whole steps.
func (r *usage) gapOf(a *agent) api.Resources {
	if r.now.Sub(a.smooth.since) < smoothing {
		return api.Resources{}
	}
	total, spare, before := pairOf(a.Total), a.smooth.unused, pairOf(a.Gap)
	return revocableOf(pair{settled(before.cpu, spare.cpu, total.cpu), settled(before.mem, spare.mem, total.mem)})
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

// setGap changes how much of the agent is revocable. Open offers of more are rescinded,
// the youngest first; tasks that hold more stay until their agent needs the room.
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

// beyondGap are the youngest offers that together hold what is too much.
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

// closeGap takes back what is offered as revocable, until enough new samples show again that there is some.
func (r *usage) closeGap(a *agent, why string) {
	if !a.Gap.IsZero() {
		r.info("gap closed", field("agent", a.id), field("why", why))
	}
	a.smooth.since = r.now
	r.setGap(a, api.Resources{})
}

// rescindRevocable takes back the framework's offers that hold revocable resources.
func (r *offers) rescindRevocable(fw *framework, why string) {
	some := make(map[api.OfferID]*offer)
	for id, o := range fw.offers { // order: irrelevant because rescindAll sorts
		if o.resources.HasRevocable() {
			some[id] = o
		}
	}
	r.rescindAll(some, why)
}

// takesRevocable notes whether the framework takes revocable resources. With the first
// one the policy hears of what there is, with the last one it forgets it.
func (r *usage) takesRevocable(fw *framework, takes bool) {
	before := len(r.standing.takers)
	if takes {
		r.standing.takers[fw.id] = true
	} else {
		delete(r.standing.takers, fw.id)
	}
	if (before > 0) == (len(r.standing.takers) > 0) {
		return
	}
	for _, id := range sortedKeys(r.agentByID) {
		r.setGap(r.agentByID[id], r.agentByID[id].Gap)
	}
}
