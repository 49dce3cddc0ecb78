package books

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Explain says why the framework is not offered the agent, or, with agent "", what
// holds it back as a whole. It asks the same questions as Allocate.
func (b *Books) Explain(id api.FrameworkID, on api.AgentID, now time.Time) allocator.Explanation {
	if b.epoch.IsZero() || b.instantOf(now) > b.now {
		b.now = b.instantOf(now)
	}
	f := b.frameworks[id]
	if f == nil {
		return because("%s is not known", id)
	}
	if !f.spec.Active {
		return because("%s is not subscribed", id)
	}
	if on != "" && b.agentOf(on) == nil {
		return because("%s is not known", on)
	}
	var all []string
	for _, m := range f.members {
		if !m.subscribed {
			continue
		}
		why := b.whyMember(m)
		if why == "" && on != "" {
			why = b.whyAgent(m, b.agentOf(on))
		}
		if why != "" {
			all = append(all, why)
		} else if on == "" {
			all = append(all, b.whyCluster(m)...)
		}
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("%s is in no role", id))
	}
	return allocator.Explanation{Reasons: all}
}

func because(format string, args ...any) allocator.Explanation {
	return allocator.Explanation{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// whyMember is what holds for every agent; "" when nothing does.
func (b *Books) whyMember(m *member) string {
	id, role := m.framework.spec.ID, m.role.name
	switch {
	case m.suppressed:
		return fmt.Sprintf("%s suppressed offers in role %s", id, role)
	case m.demand != nil && !m.demand.wants():
		if slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.count > 0 }) {
			return fmt.Sprintf("all that %s wants in role %s is in offers that it has not answered", id, role)
		}
		return fmt.Sprintf("%s wants nothing more in role %s", id, role)
	case b.hold && m.role.limited:
		return fmt.Sprintf("role %s is under a limit and waits for the agents to come back", role)
	case m.gate != nil && m.gate.broken != nil:
		return m.gate.broken.Error()
	}
	return ""
}

// whyAgent is why the member is not offered the agent.
func (b *Books) whyAgent(m *member, a *agent) string {
	id, on, role := m.framework.spec.ID, a.spec.ID, m.role.name
	if !a.offerable {
		return fmt.Sprintf("%s is not offered: %s", on, orElse(a.spec.Why, "it is not running"))
	}
	blocked, cuts := b.promises.blocked, b.saveCuts(m.role)
	offer, why := b.portion(m, a, false)
	b.promises.blocked = blocked
	b.restoreCuts(m.role, cuts)
	switch why {
	case failsConstraint:
		return b.whyConstraint(m, a)
	case nothingLeft:
		return b.whyTaken(m, a)
	case isKept:
		return fmt.Sprintf("what is free of %s is kept for %s, for which tasks were preempted", on, a.keeps[0].of.framework.spec.ID)
	case overLimit:
		return b.whyLimit(m)
	case isPromised:
		return fmt.Sprintf("what is free of %s is held back for guarantees: %s", on, b.whyPromises(m.role))
	case overMost:
		return fmt.Sprintf("%s holds as much of %s as its offers may hold: %s", id, on, m.framework.spec.MaxOffer)
	case tooLittle:
		return fmt.Sprintf("%s has %s free, less than is worth offering to %s: %s", on, a.open, id, b.leastWords(m))
	case nothingFits:
		return b.whyNothingFits(m, a)
	case notNear:
		return fmt.Sprintf("%s is waiting for locality: %s is none of the agents that it prefers", id, on)
	case isFiltered:
		return b.whyFiltered(m, a)
	}
	return fmt.Sprintf("nothing: the next allocation offers %s of %s to %s in role %s", offer, on, id, role)
}

// whyFiltered names the filter that ends last.
func (b *Books) whyFiltered(m *member, a *agent) string {
	var last *filter
	for one := a.filters[m.number]; one != nil; one = one.next {
		if b.inForce(one, m) && (last == nil || one.until > last.until) {
			last = one
		}
	}
	return fmt.Sprintf("%s filtered %s until %s from now, for offers of no more than %s",
		m.framework.spec.ID, a.spec.ID, span(last.until-b.now), last.refused)
}

// span is a time for people: whole seconds when it is longer than a few.
func span(i instant) string {
	d := time.Duration(i)
	if d > 2*time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
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

func (b *Books) whyConstraint(m *member, a *agent) string {
	gates := []*gate{m.gate}
	if m.demand != nil {
		for _, s := range m.demand.shapes {
			if s.left() > 0 {
				gates = append(gates, s.gate)
			}
		}
	}
	for _, g := range gates {
		if g == nil || b.passes(g, a) {
			continue
		}
		text := fmt.Sprintf("%s fails the constraint %s of %s", a.spec.ID, g.key.expr, m.framework.spec.ID)
		if _, err := b.judge(g, a); err != nil {
			text += ": " + err.Error()
		}
		return text
	}
	return fmt.Sprintf("%s fails a constraint of %s", a.spec.ID, m.framework.spec.ID)
}

// whyTaken says who holds the agent, and behind whom the member was.
func (b *Books) whyTaken(m *member, a *agent) string {
	if len(a.held) == 0 {
		if a.free.IsZero() {
			return fmt.Sprintf("%s has no resources", a.spec.ID)
		}
		if a.open.IsZero() {
			return fmt.Sprintf("all of %s is in use beyond what was asked for", a.spec.ID)
		}
		return fmt.Sprintf("what %s has free is reserved for other roles or revocable", a.spec.ID)
	}
	sums := make(map[int32]api.Resources)
	for _, h := range a.held {
		sums[h.member] = sums[h.member].Plus(h.resources)
	}
	var holders []string
	for _, number := range slices.Sorted(maps.Keys(sums)) {
		holders = append(holders, fmt.Sprintf("%s holds %s", b.members[number].framework.spec.ID, sums[number]))
	}
	slices.Sort(holders)
	text := fmt.Sprintf("%s has nothing free for role %s: %s", a.spec.ID, m.role.name, strings.Join(holders, ", "))
	if beyond := a.free.Without(a.open); !beyond.IsZero() {
		text += fmt.Sprintf("; %s is in use beyond what was asked for", beyond)
	}
	text += m.whyNotRevocable(a)
	if a.last >= 0 && a.last != m.number && b.members[a.last] != nil {
		text += "; " + b.whyBehind(m, b.members[a.last])
	}
	return text
}

// whyNotRevocable says why the member is not offered revocable resources of an agent of
// which nothing else is left.
func (m *member) whyNotRevocable(a *agent) string {
	free := a.open.Revocable()
	switch {
	case m.framework.spec.Revocable && a.spec.Total.Revocable().IsZero():
		return "; they leave nothing unused that could be offered as revocable"
	case !m.framework.spec.Revocable && !free.IsZero():
		return fmt.Sprintf("; %s is free for frameworks that take revocable resources, which %s does not", free, m.framework.spec.ID)
	}
	return ""
}

// whyBehind says where both stand, at the level of the tree where they part.
func (b *Books) whyBehind(m, other *member) string {
	if b.rank(m.role) != b.rank(other.role) {
		return fmt.Sprintf("its last offer went to %s in role %s: priority %d against %d",
			other.framework.spec.ID, other.role.name, b.rank(other.role), b.rank(m.role))
	}
	if m.role == other.role {
		return fmt.Sprintf("its last offer went to %s: share %s now, against %s of %s",
			other.framework.spec.ID, ratio(other.taken.dominant(b.total)), ratio(m.taken.dominant(b.total)), m.framework.spec.ID)
	}
	mine, theirs := parted(m.role, other.role)
	return fmt.Sprintf("its last offer went to %s in role %s: weighted share %s now, against %s of role %s",
		other.framework.spec.ID, theirs.name, ratio(b.share(theirs)), ratio(b.share(mine)), mine.name)
}

// parted returns the siblings above r and s, or r and s themselves when one is above the other.
func parted(r, s *role) (*role, *role) {
	for x := r; x != nil; x = x.parent {
		for y := s; y != nil; y = y.parent {
			if x != y && x.parent == y.parent {
				return x, y
			}
		}
	}
	return r, s
}

// ratio writes a share with three decimals.
func ratio(share float64) string { return fmt.Sprintf("%.3g", share) }

func (b *Books) whyLimit(m *member) string {
	for r := m.role; r != nil; r = r.parent {
		for _, item := range r.spoken.Limit.Items() {
			kind := b.kinds.number(item.Name)
			if r.taken.at(kind) >= r.limit.at(kind) {
				over := "at"
				if r.taken.at(kind) > r.limit.at(kind) {
					over = "above"
				}
				return fmt.Sprintf("role %s is %s its limit of %s: it has %s of %s", r.name, over, item.Name,
					api.Milli(r.taken.at(kind)), api.Milli(r.limit.at(kind)))
			}
		}
	}
	return fmt.Sprintf("role %s is at a limit", m.role.name)
}

// whyPromises names what is lacking, and to whom.
func (b *Books) whyPromises(r *role) string {
	var lacks []string
	for _, other := range b.promises.roles {
		if other == nil || other == r {
			continue
		}
		for kind := range other.guarantee {
			if unmet := other.unmet(kind); unmet > 0 {
				lacks = append(lacks, fmt.Sprintf("role %s lacks %s:%s", other.name, b.kinds.names[kind], api.Milli(unmet)))
			}
		}
	}
	slices.Sort(lacks)
	if len(lacks) > 5 {
		lacks = append(lacks[:5], "and others")
	}
	return strings.Join(lacks, ", ")
}

func (b *Books) leastWords(m *member) string {
	if m.framework.minimum != nil {
		return m.framework.spec.MinOffer.String()
	}
	var words []string
	for _, l := range b.least {
		words = append(words, l.words)
	}
	return strings.Join(words, " or ")
}

// wishes lists the shapes that are still wanted, the first few.
func (m *member) wishes() string {
	var words []string
	for _, s := range m.demand.shapes {
		if s.left() == 0 {
			continue
		}
		if len(words) == 3 {
			words = append(words, "...")
			break
		}
		words = append(words, s.spec.Resources.String())
	}
	return strings.Join(words, " or ")
}

func (b *Books) whyNothingFits(m *member, a *agent) string {
	offer, _ := b.usable(m, a)
	if m.role.limited {
		if cut := b.withinLimits(m.role, offer); !same(cut, offer) {
			return fmt.Sprintf("%s wants %s; %s has %s free, of which the limit of its role allows %s", m.framework.spec.ID, m.wishes(), a.spec.ID, offer, cut)
		}
	}
	text := fmt.Sprintf("%s has %s free; %s wants %s", a.spec.ID, offer, m.framework.spec.ID, m.wishes())
	if !m.framework.spec.Revocable && slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.revocable }) {
		text += "; it has not said that it takes revocable resources"
	}
	return text
}
