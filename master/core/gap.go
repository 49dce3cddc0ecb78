package core

import (
	"math"
	"slices"

	"github.com/tenderhq/tender/api"
)

// gapOf is what the agent's tasks leave unused, in whole steps.
func (r *usage) gapOf(a *agent) api.Resources {
	if r.now.Sub(a.smooth.since) < smoothing {
		return api.Resources{}
	}
	total, spare, before := pairOf(a.total), a.smooth.unused, pairOf(a.gap)
	return revocableOf(pair{settled(before.cpu, spare.cpu, total.cpu), settled(before.mem, spare.mem, total.mem)})
}

// settled is the amount in whole steps. It shrinks at once and grows only by more than a
// step and a half, so that it does not swing about a step.
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
	a.gap = gap
	if excess := a.overGap(); !excess.IsZero() {
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

// closeGap takes back what is offered as revocable, until the samples of a whole
// smoothing say anew that there is some.
func (r *usage) closeGap(a *agent, why string) {
	if !a.gap.IsZero() {
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
		r.setGap(r.agentByID[id], r.agentByID[id].gap)
	}
}
