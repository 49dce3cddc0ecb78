package framework

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

var (
	errOfferGone = errors.New("the offer was rescinded, expired, answered before or is of a session that ended; launch with a newer one")
	errUsedID    = errors.New("the task's ID is in use or was used before; each attempt needs an ID of its own")
)

// acceptsMax bounds the accepts of a session that are remembered; the refusal of an
// older one is told, but its offers are left to expire.
const acceptsMax = 4096

// accepts remembers what each accept of the session named, for the case that it is
// refused.
type accepts struct {
	sent  map[uint64]accepted
	order []uint64
}

type accepted struct {
	offers   []api.OfferID
	launched launched
}

func (a *accepts) add(call uint64, one accepted) {
	if a.sent == nil {
		a.sent = make(map[uint64]accepted)
	}
	if len(a.order) == acceptsMax {
		delete(a.sent, a.order[0])
		a.order = a.order[1:]
	}
	a.sent[call] = one
	a.order = append(a.order, call)
}

func (a *accepts) take(call uint64) (accepted, bool) {
	one, ok := a.sent[call]
	delete(a.sent, call)
	return one, ok
}

// answered sends what Offers returned; what it did not mention is declined.
func (l *loop) answered(shown []api.Offer, answers []api.Answer) {
	left := make(map[api.OfferID]bool, len(shown))
	for _, offer := range shown {
		left[offer.ID] = true
	}
	for _, answer := range answers {
		for _, id := range answer.Offers {
			delete(left, id)
		}
		l.answer(answer)
	}
	var unanswered []api.OfferID
	for _, offer := range shown {
		if left[offer.ID] {
			unanswered = append(unanswered, offer.ID)
		}
	}
	open, _ := l.offers.answered(unanswered)
	l.config.Metrics.answers(OfferDeclined, len(open))
	l.decline(open, api.Filter{})
}

// answer sends one answer, or tells at once what a master would say of it.
func (l *loop) answer(answer api.Answer) {
	if answer.Keep {
		l.callRescinded(l.offers.keep(answer.Offers), errOfferGone.Error())
		return
	}
	at := l.spotOf(answer.Offers)
	open, gone := l.offers.answered(answer.Offers)
	if len(answer.Operations) == 0 {
		l.config.Metrics.answers(OfferDeclined, len(open))
		l.decline(open, answer.Filter)
		return
	}
	operations := l.withoutImpossible(answer.Operations, at.agent)
	large := slices.IndexFunc(operations, func(operation api.Operation) bool { return operationSize(&operation) > acceptBytesMax })
	var refused *api.Error
	switch {
	case len(answer.Offers) == 0:
		refused = api.E("offer.accept", api.Invalid, "", errors.New("the answer names no offer"))
	case len(gone) > 0:
		refused = api.E("offer.accept", api.Stale, gone[0], errOfferGone)
	case len(answer.Offers) > api.OffersPerAnswerMax:
		refused = api.E("offer.accept", api.Invalid, open[0], fmt.Errorf("the answer names %d offers, at most %d are allowed", len(answer.Offers), api.OffersPerAnswerMax))
	case large >= 0:
		refused = api.E("offer.accept", api.Invalid, open[0],
			fmt.Errorf("operation %d of the answer takes more than the %d bytes that fit in a message", large+1, acceptBytesMax))
	}
	if refused != nil {
		l.config.Metrics.answers(OfferDeclined, len(open))
		l.refuseHere(operations, at.agent, refused)
		l.decline(open, api.NoFilter)
		return
	}
	l.config.Metrics.answers(OfferAccepted, len(open))
	if onlyLaunches(operations) {
		l.acceptInParts(open, split(operations), answer.Filter, at)
		return
	}
	l.acceptWhatFits(open, operations, answer.Filter, at)
}

// spot is where offers are of: an agent, and in which role.
type spot struct {
	agent api.AgentID
	role  api.Role
}

// spotOf is the spot of open offers; of none: nowhere.
func (l *loop) spotOf(ids []api.OfferID) spot {
	for _, id := range ids {
		if offer, ok := l.offers.open[id]; ok {
			return offer.spot
		}
	}
	return spot{}
}

// withoutImpossible takes out tasks that no accept can launch, and tells that they are in
// ERROR: those that can never run, those too large for a message, and those whose ID is taken, beside what is
// remembered of the task that has the ID.
func (l *loop) withoutImpossible(operations []api.Operation, agent api.AgentID) []api.Operation {
	named := make(map[api.TaskID]bool)
	possible := func(task *api.Task) bool {
		again := named[task.ID]
		named[task.ID] = true
		switch {
		case again || l.book.used(task.ID):
			l.strayStatus(l.refusal(task.ID, "", api.E("task.launch", api.Exists, task.ID, errUsedID)))
		case taskSize(task)+operationHead > acceptBytesMax:
			l.refuseTaskHere(task.ID, agent, api.E("task.launch", api.Invalid, task.ID, errOversized))
		default:
			err := task.Check() // as masters and agents judge it, by the same function
			if err != nil {
				l.refuseTaskHere(task.ID, agent, api.E("task.launch", api.Invalid, task.ID, err))
			}
			return err == nil
		}
		return false
	}
	all := true
	kept := slices.Clone(operations)
	for i, operation := range operations {
		kept[i].Tasks = nil
		for j := range operation.Tasks {
			if possible(&operation.Tasks[j]) {
				kept[i].Tasks = append(kept[i].Tasks, operation.Tasks[j])
			} else {
				all = false
			}
		}
	}
	if all {
		return operations
	}
	return slices.DeleteFunc(kept, func(o api.Operation) bool { return o.Kind == api.OpLaunch && len(o.Tasks) == 0 })
}

// strayStatus delivers a status beside the book.
func (l *loop) strayStatus(status api.Status) {
	t := &task{id: status.Task, stray: true}
	l.book.hold(t, status)
	l.resume(t)
}

// refuseHere ends the tasks and operations of an answer that is not even sent.
func (l *loop) refuseHere(operations []api.Operation, agent api.AgentID, err *api.Error) {
	l.refuseOperationsHere(operations, agent, err)
	eachTask(operations, func(task *api.Task) {
		l.refuseTaskHere(task.ID, agent, err)
	})
}

func (l *loop) refuseTaskHere(id api.TaskID, agent api.AgentID, err *api.Error) {
	l.book.launch(id, agent, 0)
	l.heardStatus(l.refusal(id, agent, err))
}

func eachTask(operations []api.Operation, do func(task *api.Task)) {
	for i := range operations {
		for j := range operations[i].Tasks {
			do(&operations[i].Tasks[j])
		}
	}
}

// decline gives offers back.
func (l *loop) decline(offers []api.OfferID, filter api.Filter) {
	for page := range pages(offers, api.OffersPerAnswerMax) {
		if len(page.items) > 0 {
			l.send(protocol.Decline{Offers: page.items, Filter: filter})
		}
	}
}

// returnKept gives kept offers back before they expire.
func (l *loop) returnKept(now time.Time) {
	ids := l.offers.overdue(now)
	l.config.Metrics.answers(OfferReturned, len(ids))
	l.decline(ids, api.Filter{})
	l.callRescinded(ids, "kept until it was about to expire")
}
