package engine

import (
	"cmp"
	"fmt"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// refusal is why a member is not offered an agent. The zero value means that there is no refusal. The table refusals
// says what is known of each.
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
	lacksVolume
	placeFull
	notNear
	isFiltered
	isPutBy

	refusalsMax // the number of refusals
)

// The ranks of refusals: the lower the rank, the nearer the agent is to being offered.
const (
	rankFree   = iota // there is room, but a filter, a limit, a guarantee or a preemption for others is in the way
	rankFull          // others hold what is wanted
	rankAway          // it would fit, but the agent is not offered
	rankBarred        // a constraint excludes it
	rankSmall         // it could not hold what is wanted even if it were empty
)

// refusals says for each refusal how near an agent is to which it applies, what is said of several such agents, and how
// one of them is explained. left is what was left of the agent, if that was too little.
var refusals = [refusalsMax]struct {
	rank   int
	plural string
	say    func(e *explainer, m *books.Member, a *books.Agent, left api.Resources) string
}{
	granted: {rankFree, "are offered next", (*explainer).whyOffered},
	// The agent is not in a state to be offered, or has been drained.
	isAway: {rankAway, "are not offered", (*explainer).whyAway},
	// The role has a limit and gets nothing until the agents are back (R20).
	isHeld: {rankAway, "are not offered", (*explainer).whyHeld},
	// The agent fails the constraint of the framework, or of all wanted shapes.
	failsConstraint: {rankBarred, "fail a constraint", (*explainer).whyConstraint},
	nothingLeft:     {rankFull, "have nothing free", (*explainer).whyTaken},
	// Tasks were asked back for the member itself.
	isFreed: {rankFree, "are being freed for it", (*explainer).whyFreed},
	// What is free is kept for the demand of a preemption.
	isKept: {rankFree, "are kept for somebody else", (*explainer).whyKept},
	// The limit of the role, or of one above it, leaves too little.
	overLimit: {rankFree, "would bring the role above its limit", (*explainer).whyLimit},
	// What is free is held back for guarantees.
	isPromised: {rankFree, "are held back for guarantees", (*explainer).whyPromised},
	// The framework has an offer of this agent up to its MaxOffer, or its MaxOffer is too small.
	overMost: {rankFree, "are offered as far as a capped offer goes", (*explainer).whyMost},
	// The agent has less than what is worth offering.
	tooLittle: {rankFull, "have less than is worth offering", (*explainer).whyTooLittle},
	// The agent holds none of the wanted shapes.
	nothingFits: {rankFull, "have too little free", (*explainer).whyNothingFits},
	// The agent has not the volume that is wanted.
	lacksVolume: {rankSmall, "lack the volume", (*explainer).whyVolume},
	// A shape fits, but the agent's place has as many as are wanted in one place.
	placeFull: {rankFree, "are where as many are as it wants in one place", (*explainer).whyPlaceFull},
	// A shape fits, but it is to run only on other agents.
	notNear:    {rankFree, "are not among the preferred", (*explainer).whyNotNear},
	isFiltered: {rankFree, "are filtered", (*explainer).whyFiltered},
	// A shape fits, but it is spread: all agents are looked at first.
	isPutBy: {rankFree, "are offered next", (*explainer).whyOffered},
}

// whyAgent returns why the member is not offered the agent.
func (e *explainer) whyAgent(m *books.Member, a *books.Agent) string {
	d := e.decide(question{member: m, agent: a, careful: true})
	return refusals[d.why].say(e, m, a, d.offer)
}

func (e *explainer) whyOffered(m *books.Member, a *books.Agent, offer api.Resources) string {
	return fmt.Sprintf("nothing: the next allocation offers %s of %s to %s in role %s", offer, a.Spec.ID, m.Framework.Spec.ID, m.Role.Name)
}

func (e *explainer) whyAway(_ *books.Member, a *books.Agent, _ api.Resources) string {
	return fmt.Sprintf("%s is not offered: %s", a.Spec.ID, cmp.Or(a.Spec.Why, "it is not running"))
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
