package gateway_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// changed is an operation of the player that changes reservations or volumes.
type changed struct {
	state mesosv1.OperationState // as it was told last; OPERATION_UNSUPPORTED: nothing was told
	asked bool                   // a reconciliation is to be answered
}

// hearOther takes in the events that are about neither offers nor tasks.
func (p *player) hearOther(event *schedulerv1.Event) {
	switch event.GetType() {
	case schedulerv1.Event_INVERSE_OFFERS:
		for _, offer := range event.GetInverseOffers().GetInverseOffers() {
			id := offer.GetId().GetValue()
			if p.shown[id] {
				p.fail("%s is asked back a second time", id)
			}
			p.shown[id], p.inverse[id] = true, true
		}
	case schedulerv1.Event_RESCIND_INVERSE_OFFER:
		id := event.GetRescindInverseOffer().GetInverseOfferId().GetValue()
		if !p.inverse[id] {
			p.fail("%s is no longer asked back, and was not", id)
		}
		delete(p.inverse, id)
	case schedulerv1.Event_MESSAGE:
		task, hello := strings.CutPrefix(string(event.GetMessage().GetData()), "hello from ")
		if p.tasks[task] == nil || !hello || event.GetMessage().GetExecutorId().GetValue() != "own" {
			p.fail("an executor says %v", event.GetMessage())
		}
	case schedulerv1.Event_UPDATE_OPERATION_STATUS:
		p.heardOperation(event.GetUpdateOperationStatus().GetStatus())
	}
}

// heardOperation checks what is told of an operation: what has become of it is not told otherwise later, but that nobody
// knows any more what has.
func (p *player) heardOperation(status *mesosv1.OperationStatus) {
	id, state := status.GetOperationId().GetValue(), status.GetState()
	p.note("%s %s %q", id, state, status.GetMessage())
	of := p.changes[id]
	switch {
	case of == nil:
		p.fail("%s was never asked for", id)
	case of.state == mesosv1.OperationState_OPERATION_FINISHED && state != of.state, state == mesosv1.OperationState_OPERATION_FINISHED && unchanged(of.state):
		p.fail("%s is told %s and was %s", id, state, of.state)
	}
	of.state, of.asked = state, false
}

// unchanged says whether nothing was changed, for good.
func unchanged(state mesosv1.OperationState) bool {
	return state == mesosv1.OperationState_OPERATION_ERROR || state == mesosv1.OperationState_OPERATION_DROPPED
}

// change changes a reservation or a volume with an offer that has what it takes.
func (p *player) change() {
	id := some(p, p.offers)
	if id == "" || p.roles == nil { // nothing can be reserved for the default role
		return
	}
	offer := p.offers[id]
	role := offer.GetAllocationInfo().GetRole()
	amount := func(name string, value float64, more string) string {
		return fmt.Sprintf(`{"name":%q,"type":"SCALAR","scalar":{"value":%v},"role":%q,"reservation":{}%s}`, name, value, role, more)
	}
	var can []string // what may be done with this offer
	for _, r := range offer.GetResources() {
		switch volume := r.GetDisk().GetPersistence().GetId(); {
		case r.GetRole() == role && volume != "":
			can = append(can, `"type":"DESTROY","destroy":{"volumes":[`+amount("disk", r.GetScalar().GetValue(), fmt.Sprintf(`,"disk":{"persistence":{"id":%q}}`, volume))+`]}`)
		case r.GetRole() == role && r.GetName() == "cpus":
			can = append(can, `"type":"UNRESERVE","unreserve":{"resources":[`+amount("cpus", 0.1, "")+`]}`)
		case r.GetRole() == role && r.GetName() == "disk":
			can = append(can, `"type":"CREATE","create":{"volumes":[`+amount("disk", 1, fmt.Sprintf(`,"disk":{"persistence":{"id":"v%d"},"volume":{"container_path":"v","mode":"RW"}}`, len(p.changes)))+`]}`)
		case r.GetName() == "cpus" && r.GetScalar().GetValue() > 1:
			can = append(can, `"type":"RESERVE","reserve":{"resources":[`+amount("cpus", 0.1, "")+`,`+amount("disk", 1, "")+`]}`)
		}
	}
	if len(can) == 0 {
		return
	}
	p.take(id)
	name := fmt.Sprintf("o%d", len(p.changes)+1)
	p.changes[name] = new(changed)
	p.call(`{"type":"ACCEPT","accept":{"offer_ids":[{"value":%q}],"filters":{"refuse_seconds":0},"operations":[{"id":{"value":%q},%s}]}}`,
		id, name, can[p.chance.IntN(len(can))])
}

// talk says something to the executor of its own, or ends it.
func (p *player) talk() {
	if p.chance.IntN(4) == 0 {
		p.call(`{"type":"SHUTDOWN","shutdown":{"agent_id":{"value":"agent-1"},"executor_id":{"value":"own"}}}`)
		return
	}
	p.call(`{"type":"MESSAGE","message":{"agent_id":{"value":"agent-1"},"executor_id":{"value":"own"},"data":"aGVsbG8="}}`)
}

// maintain announces maintenance of the agent or takes that back, or answers what is asked back.
func (p *player) maintain() {
	id := some(p, p.inverse)
	switch {
	case id != "" && p.chance.IntN(2) == 0:
		p.call(`{"type":"ACCEPT_INVERSE_OFFERS","accept_inverse_offers":{"inverse_offer_ids":[{"value":%q}]}}`, id)
	case id != "" && p.chance.IntN(2) == 0:
		p.call(`{"type":"DECLINE_INVERSE_OFFERS","decline_inverse_offers":{"inverse_offer_ids":[{"value":%q}],"filters":{"refuse_seconds":1}}}`, id)
	case p.maintained:
		p.note("maintenance is taken back")
		p.h.Agent(1).CancelMaintenance()
		p.maintained = false
	default:
		p.note("maintenance is announced")
		p.h.Agent(1).Maintain(10*time.Hour, time.Hour)
		p.maintained = true
	}
}

// finishChanges asks for all operations; each has to be answered.
func (p *player) finishChanges(settle func()) {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(p.changes)) {
		p.changes[id].asked = true
		ids = append(ids, fmt.Sprintf(`{"operation_id":{"value":%q}}`, id))
	}
	if len(ids) == 0 {
		return
	}
	p.call(`{"type":"RECONCILE_OPERATIONS","reconcile_operations":{"operations":[%s]}}`, strings.Join(ids, ","))
	settle()
	for _, id := range slices.Sorted(maps.Keys(p.changes)) {
		if p.changes[id].asked {
			p.fail("the question about %s is not answered", id)
		}
	}
}
