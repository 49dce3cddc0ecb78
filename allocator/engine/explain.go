package engine

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

// explainer puts decisions into words.
type explainer struct{ *decider }

// Explain says why the framework is not offered the agent, or, with agent "", what holds it back as a whole.
func (e *Engine) Explain(id api.FrameworkID, on api.AgentID, now time.Time) allocator.Explanation {
	return e.explainer.explain(id, on, now)
}

// explain says why the framework is not offered the agent, or, with agent "", what
// holds it back as a whole. It asks the same questions as Allocate.
func (e *explainer) explain(id api.FrameworkID, on api.AgentID, now time.Time) allocator.Explanation {
	if e.epoch.IsZero() || e.instantOf(now) > e.now {
		e.now = e.instantOf(now)
	}
	f := e.frameworks[id]
	if f == nil {
		return because("%s is not known", id)
	}
	if !f.spec.Active {
		return because("%s is not subscribed", id)
	}
	if on != "" && e.agentOf(on) == nil {
		return because("%s is not known", on)
	}
	var all []string
	several := f.subscribedRoles() > 1
	for _, m := range f.members {
		if !m.subscribed {
			continue
		}
		for _, why := range e.whyIn(m, on) {
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
func (e *explainer) whyIn(m *member, on api.AgentID) []string {
	if why := e.whyMember(m); why != "" {
		return []string{why}
	}
	if on != "" {
		return []string{e.whyAgent(m, e.agentOf(on))}
	}
	return e.whyCluster(m)
}

func because(format string, args ...any) allocator.Explanation {
	return allocator.Explanation{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// whyMember is what holds for every agent; "" when nothing does.
func (e *explainer) whyMember(m *member) string {
	id, role := m.framework.spec.ID, m.role.name
	switch {
	case m.suppressed:
		return fmt.Sprintf("%s suppressed offers in role %s", id, role)
	case m.demand != nil && !m.demand.wants():
		if slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.count > 0 }) {
			return fmt.Sprintf("all that %s wants in role %s is in offers that it has not answered", id, role)
		}
		return fmt.Sprintf("%s wants nothing more in role %s", id, role)
	case e.hold && m.role.limited:
		return fmt.Sprintf("role %s is under a limit and waits for the agents to come back", role)
	case m.gate != nil && m.gate.broken != nil:
		return m.gate.broken.Error()
	}
	return ""
}

// whyPlaceFull names the place that has as many as are wanted in one.
func (e *explainer) whyPlaceFull(m *member, a *agent, _ api.Resources) string {
	for _, s := range m.demand.shapes {
		if one, place, full := s.fullPlace(a); full && s.left() > 0 {
			return fmt.Sprintf("%s wants at most %d in one %s, and has %d in %q, where %s is", m.framework.spec.ID, one.Most, one.By.Words(),
				s.places[slices.Index(s.spec.Spread, one)].counts[place], place, a.spec.ID)
		}
	}
	return fmt.Sprintf("%s has as many as it wants where %s is", m.framework.spec.ID, a.spec.ID)
}

// whyFiltered names the filter that ends last.
func (e *explainer) whyFiltered(m *member, a *agent, _ api.Resources) string {
	var last *filter
	for one := a.filters[m.number]; one != nil; one = one.next {
		if e.inForce(one, m) && (last == nil || one.until > last.until) {
			last = one
		}
	}
	text := fmt.Sprintf("%s filtered %s until %s from now, while it has no more free than %s",
		m.framework.spec.ID, a.spec.ID, span(last.until-e.now), last.refused)
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

func (e *explainer) whyConstraint(m *member, a *agent, _ api.Resources) string {
	gates := []*gate{m.gate}
	if m.demand != nil {
		for _, s := range m.demand.shapes {
			if s.left() > 0 {
				gates = append(gates, s.gate)
			}
		}
	}
	for _, g := range gates {
		if g == nil || e.passes(g, a) {
			continue
		}
		text := fmt.Sprintf("%s fails the constraint %s of %s", a.spec.ID, g.key.expr, m.framework.spec.ID)
		if _, err := e.judge(g, a); err != nil {
			text += ": " + err.Error()
		}
		return text
	}
	return fmt.Sprintf("%s fails a constraint of %s", a.spec.ID, m.framework.spec.ID)
}

// whyTaken says who holds the agent, and behind whom the member was.
func (e *explainer) whyTaken(m *member, a *agent, _ api.Resources) string {
	if len(a.held) == 0 {
		if a.free.IsZero() {
			return fmt.Sprintf("%s has no resources", a.spec.ID)
		}
		if a.open.IsZero() {
			return fmt.Sprintf("all of %s is in use beyond what was asked for", a.spec.ID)
		}
		return fmt.Sprintf("what %s has free is reserved for other roles or revocable", a.spec.ID)
	}
	text := fmt.Sprintf("%s has nothing free for role %s: %s", a.spec.ID, m.role.name, e.holders(a))
	if others := a.open.Filter(func(l api.Label) bool { return l.Reserved != "" && !m.role.name.Within(l.Reserved) }); !others.IsZero() {
		text += fmt.Sprintf("; %s is reserved for other roles", others)
	}
	if beyond := a.free.Without(a.open); !beyond.IsZero() {
		text += fmt.Sprintf("; %s is in use beyond what was asked for", beyond)
	}
	return text + m.whyNotRevocable(a) + e.whyLast(m, a)
}

// holdersMax bounds the frameworks that are named as holders of an agent.
const holdersMax = 5

func (e *explainer) holders(a *agent) string {
	sums := make(map[int32]api.Resources)
	for _, h := range a.held {
		sums[h.member] = sums[h.member].Plus(h.resources)
	}
	var words []string
	for _, number := range slices.Sorted(maps.Keys(sums)) {
		words = append(words, fmt.Sprintf("%s holds %s", e.members[number].framework.spec.ID, sums[number]))
	}
	slices.Sort(words)
	if len(words) > holdersMax {
		words = append(words[:holdersMax], fmt.Sprintf("and %d more", len(words)-holdersMax))
	}
	return strings.Join(words, ", ")
}

// whyLast says behind whom the member was when the agent was last offered; "" if it was
// the member itself, or nobody who is still there.
func (e *explainer) whyLast(m *member, a *agent) string {
	if a.last < 0 || a.last == m.number || e.members[a.last] == nil {
		return ""
	}
	other := e.members[a.last]
	if owed := e.roles[a.owed]; owed != nil && owed.guarantee != nil && !m.role.name.Within(a.owed) {
		return fmt.Sprintf("; its last offer went to %s in role %s for the guarantee of role %s: %s",
			other.framework.spec.ID, other.role.name, owed.name, owed.spoken.Guarantee)
	}
	return "; " + e.whyBehind(m, other)
}

// whyRest says of an agent that has too little left who has the rest, and behind whom the
// member was.
func (e *explainer) whyRest(m *member, a *agent) string {
	if len(a.held) == 0 {
		return ""
	}
	return "; " + e.holders(a) + e.whyLast(m, a)
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

// whyBehind says in the policy's words why the other was offered what the member was not: by where both stand, or at
// the level of the tree of roles where they part.
func (e *explainer) whyBehind(m, other *member) string {
	first, mine := e.standing(other), e.standing(m)
	text := "its last offer went to " + string(first.Framework)
	if e.policy.Less == nil && e.rank(m.role) == e.rank(other.role) {
		if m.role == other.role {
			return text + ": " + e.because(first, mine)
		}
		below, theirs := parted(m.role, other.role)
		first, mine = e.standingOf(theirs, other), e.standingOf(below, m)
	}
	return text + " in role " + string(first.Role) + ": " + e.because(first, mine)
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

// whyLimit: the limit leaves nothing, or only the given part, which is too little.
func (e *explainer) whyLimit(m *member, a *agent, left api.Resources) string {
	if left.IsZero() {
		for r := m.role; r != nil; r = r.parent {
			if text := e.whyReached(r); text != "" {
				return text
			}
		}
	}
	if m.demand != nil {
		return fmt.Sprintf("%s wants %s; of what %s has free its role's limit allows %s: %s", m.framework.spec.ID, m.wishes(), a.spec.ID, left, e.limitWords(m))
	}
	return fmt.Sprintf("of what %s has free the limit of role %s allows %s, less than is worth offering: %s", a.spec.ID, m.role.name, left, e.limitWords(m))
}

func (e *explainer) whyReached(r *role) string {
	for _, item := range r.spoken.Limit.Items() {
		kind := e.kinds.number(item.Name)
		if r.taken.At(kind) < r.limit.At(kind) {
			continue
		}
		over := "at"
		if r.taken.At(kind) > r.limit.At(kind) {
			over = "above"
		}
		return fmt.Sprintf("role %s is %s its limit of %s: it has %s of %s", r.name, over, item.Name,
			api.Milli(r.taken.At(kind)), api.Milli(r.limit.At(kind)))
	}
	return ""
}

// limitWords are the limits that bound the member, and what counts towards them.
func (e *explainer) limitWords(m *member) string {
	var words []string
	for r := m.role; r != nil; r = r.parent {
		var has []string
		for _, item := range r.spoken.Limit.Items() {
			has = append(has, item.Name+":"+milli(r.taken.At(e.kinds.number(item.Name))))
		}
		if len(has) > 0 {
			words = append(words, fmt.Sprintf("role %s has %s of %s", r.name, strings.Join(has, ";"), r.spoken.Limit))
		}
	}
	return strings.Join(words, ", ")
}

// whyMost: offers are capped, and of this agent the framework has one, or its cap is too small.
func (e *explainer) whyMost(m *member, a *agent, left api.Resources) string {
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
func (e *explainer) whyPromises(r *role) string {
	var lacks []string
	for _, other := range e.promises.roles {
		if other == nil || other == r {
			continue
		}
		for kind := range other.guarantee {
			if unmet := other.unmet(kind); unmet > 0 {
				text := fmt.Sprintf("role %s lacks %s:%s", other.name, e.kinds.names[kind], api.Milli(unmet))
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

func (e *explainer) leastWords(m *member) string {
	if m.framework.minimum != nil {
		return m.framework.spec.MinOffer.String()
	}
	var words []string
	for _, l := range e.least {
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

func (e *explainer) whyNothingFits(m *member, a *agent, _ api.Resources) string {
	offer, _ := e.usable(m, a)
	text := fmt.Sprintf("%s has %s free%s; %s wants %s", a.spec.ID, offer, keptOf(a), m.framework.spec.ID, m.wishes())
	if !m.framework.spec.Revocable && slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.revocable }) {
		text += "; it has not said that it takes revocable resources"
	}
	return text + e.whyRest(m, a)
}
