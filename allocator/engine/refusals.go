package engine

import (
	"fmt"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// refusal is why a member is not offered an agent. The zero value is no refusal. What is known of each
// stands in the table of refusals.
type refusal uint8

const (
	granted refusal = iota
	isAway
	isHeld
	failsConstraint
	nothingLeft
	isFreed
	isKept
	overLimit
	isPromised
	overMost
	tooLittle
	nothingFits
	placeFull
	notNear
	isFiltered
	isPutBy

	refusalsMax // how many there are
)

// The ranks of refusals: the lower, the nearer is the agent.
const (
	rankFree   = iota // there is room; a filter, a limit, a guarantee or another's preemption is in the way
	rankFull          // others hold what is wanted
	rankAway          // it would fit, and is not offered
	rankBarred        // a constraint excludes it
	rankSmall         // it could not hold what is wanted if it were empty
)

// refusals say what is known of each refusal: how near an agent is that is ruled out by it, what one says of
// several such agents, and the sentence for one of them. left is what was left of it when that was too little.
var refusals = [refusalsMax]struct {
	rank   int
	plural string
	say    func(e *explainer, m *books.Member, a *books.Agent, left api.Resources) string
}{
	granted: {rankFree, "are offered next", (*explainer).whyOffered},
	// It is not in the state to be offered, or is drained.
	isAway: {rankAway, "are not offered", (*explainer).whyAway},
	// The role is under a limit until the agents are back (R20).
	isHeld: {rankAway, "are not offered", (*explainer).whyHeld},
	// It fails the constraint of the framework, or of all shapes that are wanted.
	failsConstraint: {rankBarred, "fail a constraint", (*explainer).whyConstraint},
	nothingLeft:     {rankFull, "have nothing free", (*explainer).whyTaken},
	// Tasks were asked back for the member itself.
	isFreed: {rankFree, "are being freed for it", (*explainer).whyFreed},
	// What is free is kept for a preemption's demand.
	isKept: {rankFree, "are kept for somebody else", (*explainer).whyKept},
	// The limit of the role or one above leaves too little.
	overLimit: {rankFree, "would bring the role above its limit", (*explainer).whyLimit},
	// What is free is held back for guarantees.
	isPromised: {rankFree, "are held back for guarantees", (*explainer).whyPromised},
	// The framework has its capped offer of this agent, or its cap is too small.
	overMost: {rankFree, "are offered as far as a capped offer goes", (*explainer).whyMost},
	// It is less than the least worth offering.
	tooLittle: {rankFull, "have less than is worth offering", (*explainer).whyTooLittle},
	// It holds none of the shapes that are wanted.
	nothingFits: {rankFull, "have too little free", (*explainer).whyNothingFits},
	// A shape fits, but its place holds as many as are wanted in one.
	placeFull: {rankFree, "are where as many are as it wants in one place", (*explainer).whyPlaceFull},
	// A shape fits, but waits for other agents.
	notNear:    {rankFree, "are not among the preferred", (*explainer).whyNotNear},
	isFiltered: {rankFree, "are filtered", (*explainer).whyFiltered},
	// A shape fits that is spread: first all agents are looked at.
	isPutBy: {rankFree, "are offered next", (*explainer).whyOffered},
}

// whyAgent is why the member is not offered the agent.
func (e *explainer) whyAgent(m *books.Member, a *books.Agent) string {
	d := e.decide(question{member: m, agent: a, careful: true})
	return refusals[d.why].say(e, m, a, d.offer)
}

func (e *explainer) whyOffered(m *books.Member, a *books.Agent, offer api.Resources) string {
	return fmt.Sprintf("nothing: the next allocation offers %s of %s to %s in role %s", offer, a.Spec.ID, m.Framework.Spec.ID, m.Role.Name)
}

func (e *explainer) whyAway(_ *books.Member, a *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("%s is not offered: %s", a.Spec.ID, orElse(a.Spec.Why, "it is not running"))
}

func (e *explainer) whyHeld(m *books.Member, _ *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("role %s is under a limit and waits for the agents to come back", m.Role.Name)
}

func (e *explainer) whyFreed(m *books.Member, a *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("tasks on %s were asked back for %s: it is offered what they hold when they have ended", a.Spec.ID, m.Framework.Spec.ID)
}

func (e *explainer) whyKept(_ *books.Member, a *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("what is free of %s is kept for %s, for which tasks were preempted", a.Spec.ID, a.Keeps[0].Of.Framework.Spec.ID)
}

func (e *explainer) whyPromised(m *books.Member, a *books.Agent, left api.Resources) string {
	return fmt.Sprintf("what is free of %s is held back for guarantees%s: %s", a.Spec.ID, butFor(left), e.whyPromises(m.Role))
}

func (e *explainer) whyTooLittle(m *books.Member, a *books.Agent, left api.Resources) string {
	return fmt.Sprintf("%s has %s free%s, less than is worth offering to %s: %s", a.Spec.ID, left, keptOf(a), m.Framework.Spec.ID, e.leastWords(m)) +
		e.whyRest(m, a)
}

func (e *explainer) whyNotNear(m *books.Member, a *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("%s is waiting for locality: %s is none of the agents that it prefers", m.Framework.Spec.ID, a.Spec.ID)
}
