package books

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
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
	several := f.subscribedRoles() > 1
	for _, m := range f.members {
		if !m.subscribed {
			continue
		}
		for _, why := range b.whyIn(m, on) {
			if several && !strings.HasSuffix(why, "in role "+string(m.role.name)) {
				why = fmt.Sprintf("in role %s: %s", m.role.name, why)
			}
			all = append(all, why)
		}
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("%s is in no role", id))
	}
	return allocator.Explanation{Reasons: all}
}

// subscribedRoles counts them: what is said of one of several names it.
func (f *framework) subscribedRoles() int {
	n := 0
	for _, m := range f.members {
		if m.subscribed {
			n++
		}
	}
	return n
}

// whyIn is what holds the member back from the agent, or with "" from the cluster.
func (b *Books) whyIn(m *member, on api.AgentID) []string {
	if why := b.whyMember(m); why != "" {
		return []string{why}
	}
	if on != "" {
		return []string{b.whyAgent(m, b.agentOf(on))}
	}
	return b.whyCluster(m)
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
	offer, why := b.why(m, a)
	switch why {
	case failsConstraint:
		return b.whyConstraint(m, a)
	case nothingLeft:
		return b.whyTaken(m, a)
	case isFreed:
		return fmt.Sprintf("tasks on %s were asked back for %s: it is offered what they hold when they have ended", on, id)
	case isKept:
		return fmt.Sprintf("what is free of %s is kept for %s, for which tasks were preempted", on, a.keeps[0].of.framework.spec.ID)
	case overLimit:
		return b.whyLimit(m, a, offer)
	case isPromised:
		return fmt.Sprintf("what is free of %s is held back for guarantees%s: %s", on, butFor(offer), b.whyPromises(m.role))
	case overMost:
		return b.whyMost(m, a, offer)
	case tooLittle:
		return fmt.Sprintf("%s has %s free%s, less than is worth offering to %s: %s", on, offer, keptOf(a), id, b.leastWords(m)) + b.whyRest(m, a)
	case nothingFits:
		return b.whyNothingFits(m, a)
	case placeFull:
		return b.whyFull(m, a)
	case notNear:
		return fmt.Sprintf("%s is waiting for locality: %s is none of the agents that it prefers", id, on)
	case isFiltered:
		return b.whyFiltered(m, a)
	}
	return fmt.Sprintf("nothing: the next allocation offers %s of %s to %s in role %s", offer, on, id, role)
}

// whyFull names the place that has as many as are wanted in one.
func (b *Books) whyFull(m *member, a *agent) string {
	for _, s := range m.demand.shapes {
		if one, place, full := s.fullPlace(a); full && s.left() > 0 {
			return fmt.Sprintf("%s wants at most %d in one %s, and has %d in %q, where %s is", m.framework.spec.ID, one.Most, one.By.Words(),
				s.places[slices.Index(s.spec.Spread, one)].counts[place], place, a.spec.ID)
		}
	}
	return fmt.Sprintf("%s has as many as it wants where %s is", m.framework.spec.ID, a.spec.ID)
}

// whyFiltered names the filter that ends last.
func (b *Books) whyFiltered(m *member, a *agent) string {
	var last *filter
	for one := a.filters[m.number]; one != nil; one = one.next {
		if b.inForce(one, m) && (last == nil || one.until > last.until) {
			last = one
		}
	}
	text := fmt.Sprintf("%s filtered %s until %s from now, while it has no more free than %s",
		m.framework.spec.ID, a.spec.ID, span(last.until-b.now), last.refused)
	if last.short {
		text += ": it gave back an offer of it untouched"
	}
	return text
}

// span is a time for people.
func span(i instant) string { return words.Span(time.Duration(i)) }

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
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
	text := fmt.Sprintf("%s has nothing free for role %s: %s", a.spec.ID, m.role.name, b.holders(a))
	if others := a.open.Filter(func(l api.Label) bool { return l.Reserved != "" && !m.role.name.Within(l.Reserved) }); !others.IsZero() {
		text += fmt.Sprintf("; %s is reserved for other roles", others)
	}
	if beyond := a.free.Without(a.open); !beyond.IsZero() {
		text += fmt.Sprintf("; %s is in use beyond what was asked for", beyond)
	}
	return text + m.whyNotRevocable(a) + b.whyLast(m, a)
}

// holdersMax bounds the frameworks that are named as holders of an agent.
const holdersMax = 5

func (b *Books) holders(a *agent) string {
	sums := make(map[int32]api.Resources)
	for _, h := range a.held {
		sums[h.member] = sums[h.member].Plus(h.resources)
	}
	var words []string
	for _, number := range slices.Sorted(maps.Keys(sums)) {
		words = append(words, fmt.Sprintf("%s holds %s", b.members[number].framework.spec.ID, sums[number]))
	}
	slices.Sort(words)
	if len(words) > holdersMax {
		words = append(words[:holdersMax], fmt.Sprintf("and %d more", len(words)-holdersMax))
	}
	return strings.Join(words, ", ")
}

// whyLast says behind whom the member was when the agent was last offered; "" if it was
// the member itself, or nobody who is still there.
func (b *Books) whyLast(m *member, a *agent) string {
	if a.last < 0 || a.last == m.number || b.members[a.last] == nil {
		return ""
	}
	other := b.members[a.last]
	if owed := b.roles[a.owed]; owed != nil && owed.guarantee != nil && !m.role.name.Within(a.owed) {
		return fmt.Sprintf("; its last offer went to %s in role %s for the guarantee of role %s: %s",
			other.framework.spec.ID, other.role.name, owed.name, owed.spoken.Guarantee)
	}
	return "; " + b.whyBehind(m, other)
}

// whyRest says of an agent that has too little left who has the rest, and behind whom the
// member was.
func (b *Books) whyRest(m *member, a *agent) string {
	if len(a.held) == 0 {
		return ""
	}
	return "; " + b.holders(a) + b.whyLast(m, a)
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
	if b.options.order.Less != nil {
		return b.whyAhead(m, other)
	}
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

// whyLimit: the limit leaves nothing, or only the given part, which is too little.
func (b *Books) whyLimit(m *member, a *agent, left api.Resources) string {
	if left.IsZero() {
		for r := m.role; r != nil; r = r.parent {
			if text := b.whyReached(r); text != "" {
				return text
			}
		}
	}
	if m.demand != nil {
		return fmt.Sprintf("%s wants %s; of what %s has free its role's limit allows %s: %s", m.framework.spec.ID, m.wishes(), a.spec.ID, left, b.limitWords(m))
	}
	return fmt.Sprintf("of what %s has free the limit of role %s allows %s, less than is worth offering: %s", a.spec.ID, m.role.name, left, b.limitWords(m))
}

func (b *Books) whyReached(r *role) string {
	for _, item := range r.spoken.Limit.Items() {
		kind := b.kinds.number(item.Name)
		if r.taken.at(kind) < r.limit.at(kind) {
			continue
		}
		over := "at"
		if r.taken.at(kind) > r.limit.at(kind) {
			over = "above"
		}
		return fmt.Sprintf("role %s is %s its limit of %s: it has %s of %s", r.name, over, item.Name,
			api.Milli(r.taken.at(kind)), api.Milli(r.limit.at(kind)))
	}
	return ""
}

// limitWords are the limits that bound the member, and what counts towards them.
func (b *Books) limitWords(m *member) string {
	var words []string
	for r := m.role; r != nil; r = r.parent {
		var has []string
		for _, item := range r.spoken.Limit.Items() {
			has = append(has, item.Name+":"+milli(r.taken.at(b.kinds.number(item.Name))))
		}
		if len(has) > 0 {
			words = append(words, fmt.Sprintf("role %s has %s of %s", r.name, strings.Join(has, ";"), r.spoken.Limit))
		}
	}
	return strings.Join(words, ", ")
}

// whyMost: offers are capped, and of this agent the framework has one, or its cap is too small.
func (b *Books) whyMost(m *member, a *agent, left api.Resources) string {
	id, most := m.framework.spec.ID, m.framework.spec.MaxOffer
	switch {
	case a.hasOffer(m):
		return fmt.Sprintf("%s holds as much of %s as its offers may hold: %s", id, a.spec.ID, most)
	case m.demand != nil:
		return fmt.Sprintf("%s wants %s, but says that its offers may hold no more than %s", id, m.wishes(), most)
	}
	return fmt.Sprintf("%s says that its offers may hold no more than %s; of %s that is %s, less than is worth offering", id, most, a.spec.ID, left)
}

// butFor is what is left all the same, and does not help.
func butFor(left api.Resources) string {
	if left.IsZero() {
		return ""
	}
	return fmt.Sprintf(" but for %s, which is too little", left)
}

func keptOf(a *agent) string {
	if len(a.keeps) == 0 {
		return ""
	}
	return fmt.Sprintf(" beside what is kept for %s, for which tasks were preempted", a.keeps[0].of.framework.spec.ID)
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
				text := fmt.Sprintf("role %s lacks %s:%s", other.name, b.kinds.names[kind], api.Milli(unmet))
				if other.listed == 0 {
					text += " (though nobody in it wants anything now)"
				}
				lacks = append(lacks, text)
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
		words = append(words, s.spec.Resources.String()+spreadWords(s.spec.Spread))
	}
	return strings.Join(words, " or ")
}

// spreadWords say where the tasks are to be; nothing where that is anywhere.
func spreadWords(spread []api.Spread) string {
	var words strings.Builder
	for _, one := range spread {
		fmt.Fprintf(&words, ", spread by %s", one.By.Words())
		if one.Most > 0 {
			fmt.Fprintf(&words, " with at most %d in each", one.Most)
		}
	}
	return words.String()
}

func (b *Books) whyNothingFits(m *member, a *agent) string {
	offer, _ := b.usable(m, a)
	text := fmt.Sprintf("%s has %s free%s; %s wants %s", a.spec.ID, offer, keptOf(a), m.framework.spec.ID, m.wishes())
	if !m.framework.spec.Revocable && slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.revocable }) {
		text += "; it has not said that it takes revocable resources"
	}
	return text + b.whyRest(m, a)
}
