package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// explainer puts decisions into words.
type explainer struct{ *decider }

// Explain says why the framework is not offered the agent, or, with agent "", what holds it back as a whole.
func (e *Engine) Explain(id api.FrameworkID, on api.AgentID, now time.Time) allocator.Explanation {
	return e.explainer.explain(id, on, now)
}

// explain returns why the framework is not offered the agent or, if agent is "", what holds it back as a whole. It asks
// the same questions as Allocate.
func (e *explainer) explain(id api.FrameworkID, on api.AgentID, now time.Time) allocator.Explanation {
	if e.Epoch.IsZero() || e.InstantOf(now) > e.Now {
		e.Now = e.InstantOf(now)
	}
	f := e.Frameworks[id]
	if f == nil {
		return because("%s is not known", id)
	}
	if !f.Spec.Active {
		return because("%s is not subscribed", id)
	}
	if on != "" && e.AgentOf(on) == nil {
		return because("%s is not known", on)
	}
	var all []string
	several := f.SubscribedRoles() > 1
	for _, m := range f.Members {
		if !m.Subscribed {
			continue
		}
		for _, why := range e.whyIn(m, on) {
			if several && !strings.HasSuffix(why, "in role "+string(m.Role.Name)) {
				why = fmt.Sprintf("in role %s: %s", m.Role.Name, why)
			}
			all = append(all, why)
		}
	}
	if len(all) == 0 {
		all = append(all, fmt.Sprintf("%s is in no role", id))
	}
	return allocator.Explanation{Reasons: all}
}

// whyIn returns what holds the member back from the agent or, if that is "", from the whole cluster.
func (e *explainer) whyIn(m *books.Member, on api.AgentID) []string {
	if why := e.whyMember(m); why != "" {
		return []string{why}
	}
	if on != "" {
		return []string{e.whyAgent(m, e.AgentOf(on))}
	}
	return e.whyCluster(m)
}

func because(format string, args ...any) allocator.Explanation {
	return allocator.Explanation{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// whyMember returns a reason that applies to every agent; "" if there is none.
func (e *explainer) whyMember(m *books.Member) string {
	id, role := m.Framework.Spec.ID, m.Role.Name
	switch {
	case m.Framework.Spec.Withheld != "":
		return fmt.Sprintf("%s is offered nothing more for now: %s", id, m.Framework.Spec.Withheld)
	case m.Suppressed:
		return fmt.Sprintf("%s suppressed offers in role %s", id, role)
	case m.Demand != nil && !m.Demand.Wants():
		if slices.ContainsFunc(m.Demand.Shapes, func(s *books.Shape) bool { return s.Count > 0 }) {
			return fmt.Sprintf("all that %s wants in role %s is in offers that it has not answered or keeps; its demand has to say all that it "+
				"wants, with what it holds", id, role)
		}
		return fmt.Sprintf("%s wants nothing more in role %s", id, role)
	case e.OnHold && m.Role.Limited:
		return fmt.Sprintf("role %s is under a limit and waits for the agents to come back", role)
	case m.Gate != nil && m.Gate.Broken != nil:
		return m.Gate.Broken.Error()
	}
	return ""
}

// whyPlaceFull names the place of the agent that has as many of the shape as are wanted in one place.
func (e *explainer) whyPlaceFull(m *books.Member, a *books.Agent, _ api.Resources) string {
	for _, s := range m.Demand.Shapes {
		if one, place, full := s.FullPlace(a); full && s.Left() > 0 {
			return fmt.Sprintf("%s wants at most %d in one %s, and has %d in %q, where %s is", m.Framework.Spec.ID, one.Most, one.By.Words(),
				s.Places[slices.Index(s.Spec.Spread, one)].Counts[place], place, a.Spec.ID)
		}
	}
	return fmt.Sprintf("%s has as many as it wants where %s is", m.Framework.Spec.ID, a.Spec.ID)
}

// whyFiltered names the filter that ends last.
func (e *explainer) whyFiltered(m *books.Member, a *books.Agent, _ api.Resources) string {
	var last *books.Filter
	for one := a.Filters[m.Number]; one != nil; one = one.Next {
		if e.InForce(one, m) && (last == nil || one.Until > last.Until) {
			last = one
		}
	}
	text := fmt.Sprintf("%s filtered %s until %s from now, while it has no more free than %s",
		m.Framework.Spec.ID, a.Spec.ID, words.Span(time.Duration(last.Until-e.Now)), last.Refused)
	if last.Extended {
		text += ": it gave back an offer of it untouched"
	}
	return text
}

func (e *explainer) whyConstraint(m *books.Member, a *books.Agent, _ api.Resources) string {
	gates := []*books.Gate{m.Gate}
	if m.Demand != nil {
		for _, s := range m.Demand.Shapes {
			if s.Left() > 0 {
				gates = append(gates, s.Gate)
			}
		}
	}
	for _, g := range gates {
		if g == nil || e.Passes(g, a) {
			continue
		}
		text := fmt.Sprintf("%s fails the constraint %s of %s", a.Spec.ID, g.Key.Expr, m.Framework.Spec.ID)
		if _, err := e.Judge(g, a); err != nil {
			text += ": " + err.Error()
		}
		return text
	}
	return fmt.Sprintf("%s fails a constraint of %s", a.Spec.ID, m.Framework.Spec.ID)
}

// whyTaken says who holds the agent, and after whom the member would have been offered it.
func (e *explainer) whyTaken(m *books.Member, a *books.Agent, _ api.Resources) string {
	if a.HoldsNothing() {
		if a.Free.IsZero() {
			return fmt.Sprintf("%s has no resources", a.Spec.ID)
		}
		if a.Open.IsZero() {
			return fmt.Sprintf("all of %s is in use beyond what was asked for", a.Spec.ID)
		}
		return fmt.Sprintf("what %s has free is reserved for other roles or revocable", a.Spec.ID)
	}
	text := fmt.Sprintf("%s has nothing free for role %s: %s", a.Spec.ID, m.Role.Name, e.holders(a))
	if others := a.Open.Filter(func(l api.Label) bool { return l.Reserved != "" && !m.Role.Name.Within(l.Reserved) }); !others.IsZero() {
		text += fmt.Sprintf("; %s is reserved for other roles", others)
	}
	if beyond := a.Free.Without(a.Open); !beyond.IsZero() {
		text += fmt.Sprintf("; %s is in use beyond what was asked for", beyond)
	}
	return text + m.WhyNotRevocable(a) + e.whyLast(m, a)
}

// holdersMax bounds the frameworks that are named as holders of an agent.
const holdersMax = 5

func (e *explainer) holders(a *books.Agent) string {
	sums := make(map[int32]api.Resources)
	for h := range a.Held {
		sums[h.Member] = sums[h.Member].Plus(h.Resources)
	}
	var words []string
	for _, number := range slices.Sorted(maps.Keys(sums)) {
		words = append(words, fmt.Sprintf("%s holds %s", e.Members[number].Framework.Spec.ID, sums[number]))
	}
	slices.Sort(words)
	if len(words) > holdersMax {
		words = append(words[:holdersMax], fmt.Sprintf("and %d more", len(words)-holdersMax))
	}
	return strings.Join(words, ", ")
}

// whyLast says after whom the member would have been offered the agent when it was last offered; "" if it was offered
// to the member itself, or to a member that no longer exists.
func (e *explainer) whyLast(m *books.Member, a *books.Agent) string {
	if a.Last < 0 || a.Last == m.Number || e.Members[a.Last] == nil {
		return ""
	}
	other := e.Members[a.Last]
	if owed := e.Roles[a.Owed]; owed != nil && owed.Guarantee != nil && !m.Role.Name.Within(a.Owed) {
		return fmt.Sprintf("; its last offer went to %s in role %s for the guarantee of role %s: %s",
			other.Framework.Spec.ID, other.Role.Name, owed.Name, owed.Spoken.Guarantee)
	}
	return "; " + e.whyBehind(m, other)
}

// whyRest says, of an agent that has too little left, who holds the rest and after whom the member would have been
// offered it.
func (e *explainer) whyRest(m *books.Member, a *books.Agent) string {
	if a.HoldsNothing() {
		return ""
	}
	return "; " + e.holders(a) + e.whyLast(m, a)
}

// whyBehind says in the policy's words why the other member was offered what this one was not. It compares the two
// members, or the roles at the level of the tree where their paths part.
func (e *explainer) whyBehind(m, other *books.Member) string {
	first, mine := e.standing(other), e.standing(m)
	text := "its last offer went to " + string(first.Framework)
	if e.policy.Less == nil && e.rankOf(m.Role) == e.rankOf(other.Role) {
		if m.Role == other.Role {
			return text + ": " + e.because(first, mine)
		}
		below, theirs := parted(m.Role, other.Role)
		first, mine = e.standingOf(theirs, other), e.standingOf(below, m)
	}
	return text + " in role " + string(first.Role) + ": " + e.because(first, mine)
}

// parted returns the two roles, among r and s and those above them, at which the paths to r and s part in the tree. If
// one of them is above the other, it returns r and s themselves.
func parted(r, s *books.Role) (*books.Role, *books.Role) {
	for x := r; x != nil; x = x.Parent {
		for y := s; y != nil; y = y.Parent {
			if x != y && x.Parent == y.Parent {
				return x, y
			}
		}
	}
	return r, s
}

// whyLimit says that a limit leaves nothing, or only the given part, which is too little.
func (e *explainer) whyLimit(m *books.Member, a *books.Agent, left api.Resources) string {
	if left.IsZero() {
		for r := m.Role; r != nil; r = r.Parent {
			if text := e.whyReached(r); text != "" {
				return text
			}
		}
	}
	if m.Demand != nil {
		return fmt.Sprintf("%s wants %s; of what %s has free its role's limit allows %s: %s", m.Framework.Spec.ID, m.Wishes(), a.Spec.ID, left, e.limitWords(m))
	}
	return fmt.Sprintf("of what %s has free the limit of role %s allows %s, less than is worth offering: %s", a.Spec.ID, m.Role.Name, left, e.limitWords(m))
}

func (e *explainer) whyReached(r *books.Role) string {
	for _, item := range r.Spoken.Limit.Items() {
		kind := e.Kinds.Number(item.Name)
		if r.Taken.At(kind) < r.Limit.At(kind) {
			continue
		}
		over := "at"
		if r.Taken.At(kind) > r.Limit.At(kind) {
			over = "above"
		}
		return fmt.Sprintf("role %s is %s its limit of %s: it has %s of %s", r.Name, over, item.Name,
			api.Milli(r.Taken.At(kind)), api.Milli(r.Limit.At(kind)))
	}
	return ""
}

// limitWords describes the limits that apply to the member, and what counts towards them.
func (e *explainer) limitWords(m *books.Member) string {
	var words []string
	for r := m.Role; r != nil; r = r.Parent {
		var has []string
		for _, item := range r.Spoken.Limit.Items() {
			has = append(has, item.Name+":"+milli(r.Taken.At(e.Kinds.Number(item.Name))))
		}
		if len(has) > 0 {
			words = append(words, fmt.Sprintf("role %s has %s of %s", r.Name, strings.Join(has, ";"), r.Spoken.Limit))
		}
	}
	return strings.Join(words, ", ")
}

// whyMost says that the framework's MaxOffer stands in the way: it has an offer of this agent already, or the cap is
// too small.
func (e *explainer) whyMost(m *books.Member, a *books.Agent, left api.Resources) string {
	id, most := m.Framework.Spec.ID, m.Framework.Spec.MaxOffer
	switch {
	case a.HasOffer(m):
		return fmt.Sprintf("%s holds as much of %s as its offers may hold: %s", id, a.Spec.ID, most)
	case m.Demand != nil:
		return fmt.Sprintf("%s wants %s, but says that its offers may hold no more than %s", id, m.Wishes(), most)
	}
	return fmt.Sprintf("%s says that its offers may hold no more than %s; of %s that is %s, less than is worth offering", id, most, a.Spec.ID, left)
}

// butFor names what is left and is not enough.
func butFor(left api.Resources) string {
	if left.IsZero() {
		return ""
	}
	return fmt.Sprintf(" but for %s, which is too little", left)
}

func keptOf(a *books.Agent) string {
	if len(a.Keeps) == 0 {
		return ""
	}
	return fmt.Sprintf(" beside what is kept for %s, for which tasks were preempted", a.Keeps[0].Of.Framework.Spec.ID)
}

// whyPromises says what is missing of guarantees, and of whose.
func (e *explainer) whyPromises(r *books.Role) string {
	var lacks []string
	for _, other := range e.Promises.Roles {
		if other == nil || other == r {
			continue
		}
		for kind := range other.Guarantee {
			if unmet := other.Unmet(kind); unmet > 0 {
				text := fmt.Sprintf("role %s lacks %s:%s", other.Name, e.Kinds.Names[kind], api.Milli(unmet))
				if other.Listed == 0 {
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

func (e *explainer) leastWords(m *books.Member) string {
	if m.Framework.Minimum != nil {
		return m.Framework.Spec.MinOffer.String()
	}
	var words []string
	for _, l := range e.least {
		words = append(words, l.words)
	}
	return strings.Join(words, " or ")
}

func (e *explainer) whyNothingFits(m *books.Member, a *books.Agent, _ api.Resources) string {
	offer, _ := e.usable(m, a)
	text := fmt.Sprintf("%s has %s free%s; %s wants %s", a.Spec.ID, offer, keptOf(a), m.Framework.Spec.ID, m.Wishes())
	if !m.Framework.Spec.Revocable && slices.ContainsFunc(m.Demand.Shapes, func(s *books.Shape) bool { return s.Revocable }) {
		text += "; it has not said that it takes revocable resources"
	}
	return text + whyUsed(m, a) + e.whyRest(m, a)
}

// whyUsed names a wanted volume that the agent has and that is in use, as an addition; "": there is none.
func whyUsed(m *books.Member, a *books.Agent) string {
	for _, s := range m.Demand.Shapes {
		if used := s.Spec.Resources.LackingVolume(a.Open); used != "" && s.LacksVolume(m, a) == "" {
			return fmt.Sprintf("; volume %s is in use", used)
		}
	}
	return ""
}

func (e *explainer) whyVolume(m *books.Member, a *books.Agent, _ api.Resources) string {
	for _, s := range m.Demand.Shapes {
		if id := s.LacksVolume(m, a); id != "" && s.Left() > 0 {
			return fmt.Sprintf("%s has no volume %s that role %s may use", a.Spec.ID, id, m.Role.Name)
		}
	}
	return ""
}

// milli returns an amount in words.
func milli(x int64) string { return api.Milli(x).String() }
