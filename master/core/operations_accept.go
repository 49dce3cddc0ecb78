package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/launching"
	"github.com/tenderhq/tender/master/view"
)

// acceptance is an accept at work: what is left of the offers as its operations run.
type acceptance struct {
	session    *session
	agent      *agent
	role       api.Role
	offers     []*offer // that it answers; closed
	operations []api.Operation
	filter     api.Filter
	left       api.Resources

	// Of an answer that comes in several calls: the number of this call if another one follows, and what the calls
	// before have done.
	part uint64
	did  view.Decision

	refused      int // tasks
	firstRefused api.TaskID
	firstFault   *launching.Fault

	// aboveLimit: a limit has become lower while it waited for the registry, so that it launches nothing.
	aboveLimit string

	// While it waits for the registry (R26):
	held      api.Resources                      // booked as offered
	after     api.Resources                      // what is left when the registry agrees
	faults    []*api.Error                       // of operations that can't be done, by their place
	kills     map[api.TaskID]protocol.KillGraces // of its tasks, asked for meanwhile
	destroyed map[api.VolumeID]api.Resource      // volumes, when the registry agrees
	lost      bool                               // the agent was taken for dead meanwhile: the policy forgot it
	loose     bool                               // the labels have changed, so the policy has no offer of them any more
}

func (x *acceptance) claim(resources api.Resources) allocator.Claim {
	return allocator.Claim{Framework: x.session.framework.id, Role: x.role, Agent: x.agent.id, Resources: resources}
}

// accept answers offers with operations. If one of the offers is gone, all of it is refused. (Protocol rule R3.)
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
	r.demands.countDown(x) // after the launches, so that the policy never sees a moment in which more could be offered
	r.standing.restate(x.agent)
}

// offersOf finds the named offers: open, the framework's, of one agent and one role, and
// answered by the numbered part before this one, if there was one.
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

// strangePart says what is wrong with an answer that claims to follow that call; 0 is no call.
func (o *offer) strangePart(after uint64) error {
	if o.part == 0 {
		return fmt.Errorf("the part before this one, call %d, was refused", after)
	}
	return fmt.Errorf("it is answered in parts and waits for the one that follows call %d", o.part)
}

// runOperations does what is asked for, in order, each against what the ones before
// have left; then the rest goes back.
func (r *operations) runOperations(x *acceptance) {
	did := x.did
	for i, operation := range x.operations {
		switch {
		case operation.Kind.Launches():
			before := r.launched
			r.launchAll(x, operation)
			started := int(r.launched - before)
			did.Launched += started
			did.Refused += len(operation.Tasks) - started
			r.operationDone(x, operation, nil)
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
	did.Left, did.Filter = x.left, x.filter.For()
	r.answered(x, did)
	if x.left.IsZero() {
		return
	}
	if !x.loose {
		r.offers.giveBack(x.claim(x.left))
	}
	r.offers.filter(x.claim(x.left), x.filter)
}

// launchAll starts the tasks of an operation, each by itself or all as one group.
func (r *operations) launchAll(x *acceptance, operation api.Operation) {
	if operation.Kind == api.OpLaunchGroup {
		r.launchGroup(x, operation.Tasks)
		return
	}
	for _, task := range operation.Tasks {
		r.launch(x, task)
	}
}

// keepOpen leaves what a part of an answer has not used in the first of its offers, for the
// next part; false when nothing is left, or not free any more.
func (r *operations) keepOpen(x *acceptance, did view.Decision) bool {
	if x.left.IsZero() || !x.agent.Offer(x.left) {
		return false
	}
	o := x.offers[0]
	o.did = x.summary(did)
	o.part, o.resources = x.part, x.left
	r.offers.openOffer(o)
	return true
}

// book tells the policy what the accept uses.
func (r *operations) book(x *acceptance, claim allocator.Claim) {
	switch {
	case claim.Resources.IsZero():
	case x.loose:
		r.policy.Take(claim)
	default:
		r.policy.Launch(claim)
	}
}

// answered remembers how an accept ended: its offers as one.
func (r *operations) answered(x *acceptance, one view.Decision) {
	one = x.summary(one)
	one.At = r.now
	x.session.framework.decisions.Add(one)
}

// summary adds to what was done with which offers: those of the first part, of an answer in
// parts, because they hold all that it could use.
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

// operationDone tells the result of an operation to whatever session the framework has now; if it has none, the next
// one asks. An operation without an ID is answered only when it can't be done. That does not refuse the accept, whose
// tasks may have been launched.
func (r *operations) operationDone(x *acceptance, operation api.Operation, err *api.Error) {
	fw := x.session.framework
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
