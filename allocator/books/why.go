package books

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// why asks the questions of portion one after the other, and returns the first answer that
// rules the agent out by itself, with what was left at that point. So what can never be,
// such as a task that is larger than the limit of its role, is named before what passes,
// such as a guarantee that is not met yet.
func (b *Books) why(m *member, a *agent) (api.Resources, refusal) {
	b.turn.owed = false
	blocked, cuts := b.promises.blocked, b.saveCuts(m.role)
	defer func() {
		b.promises.blocked = blocked
		b.restoreCuts(m.role, cuts)
	}()
	if m.gate != nil && !b.passes(m.gate, a) {
		return api.Resources{}, failsConstraint
	}
	if slices.ContainsFunc(a.keeps, func(k *keep) bool { return k.of == m }) {
		return api.Resources{}, isFreed
	}
	offer, why := b.usable(m, a)
	if why != granted {
		return offer, why
	}
	if m.role.limited && b.withinLimits(m.role, offer).IsZero() {
		return api.Resources{}, overLimit // of every agent
	}
	for _, step := range b.steps(m, a) {
		if offer = step.cut(offer); offer.IsZero() {
			return offer, step.why
		}
		_, verdict := b.wanted(m, a, offer, offer)
		switch {
		case verdict == nothingFits && step.why != granted, verdict == tooLittle && step.why != granted:
			return offer, step.why
		case verdict != granted && verdict != isFiltered:
			return offer, verdict
		}
	}
	return b.wanted(m, a, offer, offer)
}

// step is one way in which an offer becomes smaller.
type step struct {
	why refusal // granted: this is what is free
	cut func(api.Resources) api.Resources
}

// steps are those of bounded; guarantees, which others can meet, come last.
func (b *Books) steps(m *member, a *agent) []step {
	steps := []step{{granted, func(offer api.Resources) api.Resources { return offer }}}
	if m.role.limited {
		steps = append(steps, step{overLimit, func(offer api.Resources) api.Resources { return b.withinLimits(m.role, offer) }})
	}
	if m.framework.most != nil {
		steps = append(steps, step{overMost, func(offer api.Resources) api.Resources { return b.withinMost(m, a, offer) }})
	}
	if b.promises.count > 0 {
		steps = append(steps, step{isPromised, func(offer api.Resources) api.Resources { return b.withinPromises(m.role, offer, false) }})
	}
	return steps
}

func (b *Books) saveCuts(r *role) []bool {
	var cuts []bool
	for ; r != nil; r = r.parent {
		cuts = append(cuts, r.cut)
	}
	return cuts
}

func (b *Books) restoreCuts(r *role, cuts []bool) {
	for ; r != nil; r = r.parent {
		r.cut, cuts = cuts[0], cuts[1:]
	}
}
