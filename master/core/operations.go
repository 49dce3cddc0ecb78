package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/launching"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// operations carries out what accepts do with offers. They reserve resources and make volumes, to which the quorum must
// agree first (R26), and launch tasks.
type operations struct {
	*base
	proposals  *proposals
	standing   *standing
	offers     *offers
	kills      *kills
	frameworks *frameworks
	executors  *executors
	tasks      *tasks
	demands    *demands
	inventory  *inventory

	launched uint64 // how many tasks were launched in this term
}

// sessionAccepts holds a session's accepts that wait for the registry (R26).
type sessionAccepts struct {
	waits  map[api.TaskID]*acceptance // by the tasks that they launch
	asking int                        // how many accepts the registry was asked about
	line   []*acceptance              // accepts whose turn to ask the registry has not come
}

// waitForRegistry makes an accept with reservations or volumes wait until the quorum has agreed to them. Its tasks are
// launched only then (R26). The accepts of one agent are handled one after the other, because each change names the
// state that it has seen. What the accept takes stays booked as offered meanwhile.
func (r *operations) waitForRegistry(x *acceptance) {
	a := x.agent
	x.held, x.kills = x.left, make(map[api.TaskID]protocol.KillGraces)
	x.session.framework.results.Wait(x.operations)
	x.session.framework.unlisted++
	a.Hold(x.held)
	a.accepts = append(a.accepts, x)
	for _, operation := range x.operations {
		for _, task := range operation.Tasks {
			x.session.waits[task.ID] = x
		}
	}
	if len(a.accepts) == 1 {
		r.reserve(x)
	}
}

// acceptsAskedMax bounds, approximately, how many accepts of one session ask the registry at the same time. The others
// wait for their turn. So a scheduler that reserves on thousands of agents leaves room in the queue to the quorum for
// others.
const acceptsAskedMax = 64

// reserveLined continues with the accepts of a session that waited for their turn.
func (r *operations) reserveLined(s *session) {
	for len(s.line) > 0 && s.asking < acceptsAskedMax {
		x := s.line[0]
		s.line = s.line[1:]
		r.reserve(x)
	}
}

// reserve asks the registry for the operations of an accept, as one change of what is reserved.
func (r *operations) reserve(x *acceptance) {
	s := x.session
	if s.asking >= acceptsAskedMax {
		s.line = append(s.line, x)
		return
	}
	saw := r.registry.Agents[x.agent.id].Reserved
	after := reserving.New(x.role, x.held, saw, x.agent.orphans)
	x.faults = make([]*api.Error, len(x.operations))
	for i, operation := range x.operations {
		if operation.Kind.Launches() {
			continue
		}
		if err := after.Apply(operation); err != nil {
			x.faults[i] = api.E("offer."+operation.Kind.String(), api.Invalid, operation.ID, err)
		}
	}
	change := registry.SetReserved{
		ID: x.agent.id, Saw: saw, Reserved: after.Reserved, Framework: x.session.framework.id, Done: x.feasible(),
	}
	if after.Reserved.Equal(saw) && len(change.Done) == 0 {
		r.reserved(x, registry.Result{})
		return
	}
	x.after = after.Left
	s.asking++
	r.proposals.propose(change, reserveForAccept{x})
}

// reserveAnswered continues when the registry has answered, and lets the session's next accept ask.
func (r *operations) reserveAnswered(x *acceptance, result registry.Result) {
	x.session.asking--
	r.reserved(x, result)
	r.reserveLined(x.session)
}

// feasible returns the operations whose results the registry must keep: those that have an ID, can be done, and are no
// launches.
func (x *acceptance) feasible() []api.OperationID {
	var done []api.OperationID
	for i, operation := range x.operations {
		if operation.ID != "" && !operation.Kind.Launches() && x.faults[i] == nil {
			done = append(done, operation.ID)
		}
	}
	return done
}

// reservationApplied relabels the resources that the accept holds, together with those in the agent's total. The
// policy's books are inconsistent until the operations have run, which happens before the policy is asked again.
func (r *operations) reservationApplied(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil || len(a.accepts) == 0 || a.accepts[0].after.IsZero() {
		r.inventory.agentChanged(id)
		return
	}
	x := a.accepts[0]
	a.Unoffer(id, x.held)
	if !x.lost {
		r.offers.giveBack(x.claim(x.held))
	}
	x.loose = true
	r.inventory.agentChanged(id)
	x.held, x.left = x.after, x.after
	a.Hold(x.held)
	a.Recheck()
}

// reserved runs the operations of an accept when the registry has answered.
func (r *operations) reserved(x *acceptance, result registry.Result) {
	a := x.agent
	a.accepts = a.accepts[1:]
	a.Unoffer(a.id, x.held)
	x.session.framework.results.StopWait(x.operations)
	maps.DeleteFunc(x.session.waits, func(_ api.TaskID, other *acceptance) bool { return other == x })
	for i, operation := range x.operations {
		if result.Err != nil && !operation.Kind.Launches() && x.faults[i] == nil {
			x.faults[i] = api.E("offer."+operation.Kind.String(), result.Err.Kind, operation.ID, result.Err.Err)
		}
	}
	fw := x.session.framework
	if x.void = fw.session != x.session || x.lost; !x.void {
		x.aboveLimit = r.offers.limitAbove(x.role, x.left)
	}
	r.runOperations(x)
	for _, id := range sortedKeys(x.kills) {
		if t := fw.tasks[id]; t != nil && !x.void {
			for _, grace := range x.kills[id].Each() {
				r.kills.wishKill(t, grace, api.ReasonKilledByFramework)
			}
		}
	}
	fw.unlisted--
	r.frameworks.forgetRemoved(fw)
	a.Recheck() // on an agent that has less than is reserved, what was given back may not be in its total
	r.standing.restate(a)
	if len(a.accepts) > 0 {
		r.reserve(a.accepts[0])
	}
}

// volumeEvent tells the agent about a volume that the registry has added or removed.
func (r *operations) volumeEvent(x *acceptance, operation api.Operation) {
	switch operation.Kind {
	case api.OpCreate:
		r.inventory.createVolume(x.agent, operation.Volume)
	case api.OpDestroy:
		r.inventory.destroyVolume(x.agent, operation.Volume)
	}
	r.info("operation done", Field{"operation", operation.Kind.String()}, field("agent", x.agent.id), field("role", x.role),
		field("resources", operation.Resources.String()), field("volume", operation.Volume))
}

// acceptance is an accept that is being carried out. Its operations run one after the other, each on what is left of
// the offers.
type acceptance struct {
	session    *session
	agent      *agent
	role       api.Role
	offers     []*offer // the offers that it answers; closed
	operations []api.Operation
	filter     api.Filter
	left       api.Resources

	// For an answer that comes in several calls: the number of this call if another one follows, and what the earlier
	// calls have done.
	part uint64
	did  view.Decision

	refused      int // how many tasks were refused
	firstRefused api.TaskID
	firstFault   *launching.Fault

	// aboveLimit says which limit was lowered while the accept waited for the registry, so that it may launch nothing.
	aboveLimit string

	// While it waits for the registry (R26):
	held   api.Resources                      // booked as offered
	after  api.Resources                      // what is left once the registry agrees
	faults []*api.Error                       // one for each operation: why it can't be done
	kills  map[api.TaskID]protocol.KillGraces // kills of its tasks that were asked for meanwhile
	// lost is set when the agent was taken for dead meanwhile, so that the policy has forgotten it.
	lost bool
	// loose is set when the labels have changed, so that the policy holds no offer of these resources any more.
	loose bool
	// void is set when its session or its agent is gone by the time that the registry has answered.
	void bool
}

func (x *acceptance) claim(resources api.Resources) allocator.Claim {
	return allocator.Claim{Framework: x.session.framework.id, Role: x.role, Agent: x.agent.id, Resources: resources}
}

// accept answers offers with operations. If any of the offers is gone, all of it is refused. (Protocol rule R3.)
func (r *operations) accept(s *session, number uint64, call protocol.Accept) {
	offers, err := r.offersOf(s, call.Offers, call.After)
	reserves := slices.ContainsFunc(call.Operations, func(operation api.Operation) bool { return !operation.Kind.Launches() })
	if err == nil && reserves && (call.More || call.After > 0) {
		err = api.E("offer.accept", api.Invalid, call.Offers[0], errors.New("a part of an answer can only launch; reserve with an answer of its own"))
	}
	if err != nil {
		r.refuse(s, number, err)
		return
	}
	x := &acceptance{session: s, agent: offers[0].agent, role: offers[0].role, offers: offers, operations: call.Operations, filter: call.Filter}
	x.did = offers[0].did
	if call.More {
		x.part = number
	}
	for _, o := range offers {
		r.offers.closeOffer(o)
		x.left = x.left.Plus(o.resources)
	}
	if reserves {
		r.demands.countDown(x)
		r.waitForRegistry(x)
		return
	}
	r.runOperations(x)
	// Only after the launches, so that the policy never sees a moment in which more could be offered.
	r.demands.countDown(x)
	r.standing.restate(x.agent)
}

// offersOf finds the named offers. They must be open, the framework's, of one agent and one role, and last answered by
// the call with the number after, or by none if after is 0.
func (r *operations) offersOf(s *session, ids []api.OfferID, after uint64) ([]*offer, *api.Error) {
	const op = "offer.accept"
	switch {
	case len(ids) == 0:
		return nil, api.E(op, api.Invalid, "", errors.New("it names no offer"))
	case len(ids) > api.OffersPerAnswerMax:
		return nil, api.E(op, api.Invalid, "", fmt.Errorf("it names %d offers, at most %d are allowed", len(ids), api.OffersPerAnswerMax))
	}
	offers := make([]*offer, len(ids))
	named := make(map[api.OfferID]bool, len(ids))
	for i, id := range ids {
		o := r.offers.open[id]
		switch {
		case o == nil || o.framework != s.framework:
			return nil, api.E(op, api.Stale, id, errors.New("the offer is gone: answered, expired or rescinded"))
		case o.part != after:
			return nil, api.E(op, api.Stale, id, o.strangePart(after))
		case named[id]:
			return nil, api.E(op, api.Invalid, id, errors.New("it names the offer twice"))
		case o.agent != r.offers.open[ids[0]].agent:
			return nil, api.E(op, api.Invalid, id, fmt.Errorf("it is of agent %s, the first of %s; answer them one by one", o.agent.id, r.offers.open[ids[0]].agent.id))
		case o.role != r.offers.open[ids[0]].role:
			return nil, api.E(op, api.Invalid, id, fmt.Errorf("it is in role %s, the first in %s; answer them one by one", o.role, r.offers.open[ids[0]].role))
		}
		offers[i], named[id] = o, true
	}
	return offers, nil
}

// strangePart says why an answer that claims to follow the call with the number after is wrong; 0 means no call.
func (o *offer) strangePart(after uint64) error {
	if o.part == 0 {
		return fmt.Errorf("the part before this one, call %d, was refused", after)
	}
	return fmt.Errorf("it is answered in parts and waits for the one that follows call %d", o.part)
}

// runOperations carries out the operations in order, each on what the ones before it have left. Then it gives back the
// rest. Of a void accept nothing is launched; what was committed stays in force.
func (r *operations) runOperations(x *acceptance) {
	did := x.did
	if x.void {
		did.Why = "the framework or the agent was lost before the quorum agreed"
	}
	for i, operation := range x.operations {
		switch {
		case operation.Kind.Launches():
			before := r.launched
			r.launchAll(x, operation)
			started := int(r.launched - before)
			did.Launched += started
			did.Refused += len(operation.Tasks) - started
		case x.faults[i] != nil:
			did.Failed++
			r.operationDone(x, operation, x.faults[i])
		default:
			did.Done++
			r.volumeEvent(x, operation)
			r.operationDone(x, operation, nil)
		}
	}
	r.reportRefused(x)
	if x.part > 0 && r.keepOpen(x, did) {
		return
	}
	if !x.void {
		did.Left, did.Filter = x.left, x.filter.For()
	}
	did = x.summary(did)
	did.At = r.now
	r.decided(x.session.framework, did)
	if x.left.IsZero() {
		return
	}
	if !x.lost && !x.loose {
		r.offers.giveBack(x.claim(x.left))
	}
	if !x.void {
		r.offers.filter(x.claim(x.left), x.filter)
	}
}

// launchAll starts the tasks of an operation, each by itself or all as one group. Those of a void accept are dropped: if
// its session has ended, the framework learns about them when it asks (R8), and otherwise it is told now.
func (r *operations) launchAll(x *acceptance, operation api.Operation) {
	switch {
	case x.void && x.session.framework.session != x.session:
		return
	case x.void:
		why := launching.Dropped(api.ReasonAgentDisconnected, "agent "+string(x.agent.id)+" was lost while the accept waited for the quorum")
		for _, task := range operation.Tasks {
			r.refuseTask(x, task, why)
		}
	case operation.Kind == api.OpLaunchGroup:
		r.launchGroup(x, operation.Tasks)
	default:
		for _, task := range operation.Tasks {
			r.launch(x, task)
		}
	}
	r.operationDone(x, operation, nil)
}

// keepOpen leaves what a part of an answer has not used in the first of its offers, for the next part. It returns false
// when nothing is left, or when that is not free any more.
func (r *operations) keepOpen(x *acceptance, did view.Decision) bool {
	if x.left.IsZero() || !x.agent.Offer(x.left) {
		return false
	}
	o := x.offers[0]
	o.did = x.summary(did)
	o.part, o.resources = x.part, x.left
	r.offers.openOffer(o)
	r.noteOffer(o, change.Figures)
	return true
}

// book tells the policy that the accept uses these resources.
func (r *operations) book(x *acceptance, claim allocator.Claim) {
	switch {
	case claim.Resources.IsZero():
	case x.loose:
		r.policy.Take(claim)
	default:
		r.policy.Launch(claim)
	}
}

// summary adds the offers to a decision about an accept, all as one. For an answer in parts these are the offers of the
// first part, because they hold everything that the answer could use.
func (x *acceptance) summary(one view.Decision) view.Decision {
	if one.Offers > 0 {
		return one
	}
	first := x.offers[0]
	one.Made, one.Offer, one.Agent, one.Role = first.made, first.id, x.agent.id, x.role
	one.Outcome, one.Offers, one.Resources = view.Accepted, len(x.offers), first.resources
	for _, o := range x.offers[1:] {
		one.Resources = one.Resources.Plus(o.resources)
	}
	return one
}

// operationDone tells the framework the result of an operation, in whatever session it has now. If it has none, it asks
// in its next one. An operation without an ID is answered only when it can't be done. That does not refuse the accept,
// whose tasks may have been launched.
func (r *operations) operationDone(x *acceptance, operation api.Operation, err *api.Error) {
	fw := x.session.framework
	r.noteOperation(x, operation, err)
	switch {
	case operation.ID != "":
		result := protocol.OperationResult{ID: operation.ID, Agent: x.agent.id, Err: err}
		fw.results.Note(operation.Kind, result)
		r.tell(fw, result)
	case err != nil && fw.session == x.session:
		r.info("operation refused", field("framework", fw.id), field("why", err.Error()))
		r.tell(fw, protocol.OperationResult{Agent: x.agent.id, Err: err})
	}
}

// noteOperation notes what has become of an operation that is no launch, whose tasks say it themselves.
func (r *operations) noteOperation(x *acceptance, operation api.Operation, err *api.Error) {
	if operation.Kind.Launches() {
		return
	}
	done := change.Record{Kind: change.Operation, What: change.Done, Name: string(operation.ID), Agent: x.agent.id, Framework: x.session.framework.id,
		Role: x.role, Why: operationText(operation)}
	if err != nil {
		done.What, done.Why = change.Refused, err.Error()
	}
	r.note(done)
}
