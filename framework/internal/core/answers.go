package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

var (
	errOfferGone = errors.New("the offer was rescinded, expired, answered before or is of a session that ended; launch with a newer one")
	// errGroupRefused is told of tasks that have no fault themselves.
	errGroupRefused = errors.New("a task of its group can't be launched, so none is")
	errUsedID       = errors.New("the task's ID is in use or was used before; each attempt needs an ID of its own")
)

// acceptsMax bounds the accepts of a session that are remembered. If an older accept is refused, the refusal is still
// told, but its offers are left to expire.
const acceptsMax = 4096

// accepts remembers what each accept of the session named, in case the accept is refused.
type accepts struct {
	sent  map[uint64]accepted
	order []uint64
}

type accepted struct {
	offers   []api.OfferID
	launched launched
}

func (a *accepts) add(call uint64, accept accepted) {
	if a.sent == nil {
		a.sent = make(map[uint64]accepted)
	}
	if len(a.order) == acceptsMax {
		delete(a.sent, a.order[0])
		a.order = a.order[1:]
	}
	a.sent[call] = accept
	a.order = append(a.order, call)
}

func (a *accepts) take(call uint64) (accepted, bool) {
	accept, ok := a.sent[call]
	delete(a.sent, call)
	return accept, ok
}

// answers sends what the scheduler does with offers: in as many accepts as that takes, each no larger than a message. What
// no master would take is refused here, with the end of each task and operation that it named.
type answers struct {
	*base
	session    *session
	tasks      *tasks
	statuses   *statuses
	operations *operations
	demands    *demands
	offers     *offers
	accepts    *accepts
	calls      *calls
}

// hearAnswers sends the answers that Offers returned; offers that it did not mention are declined. After that it
// sends the demands that were stated meanwhile. If the call was skipped, the scheduler has not seen the offers.
func (a *answers) hearAnswers(call CallOffers, result Called) {
	switch {
	case result.Outcome != Skipped:
		a.answerAll(call.Offers, result.Answers)
	case call.Number == 0: // the call was not even handed out
		a.calls.withdrawOffers()
	}
	a.calls.noteAnswered(call.Number)
	a.tellDemands()
}

func (a *answers) answerAll(shown []api.Offer, answers []api.Answer) {
	left := make(map[api.OfferID]bool, len(shown))
	for i := range shown {
		left[shown[i].ID] = true
	}
	for _, answer := range answers {
		for _, id := range answer.Offers {
			delete(left, id)
		}
		a.sendAnswer(answer)
	}
	var unanswered []api.OfferID
	for i := range shown {
		if left[shown[i].ID] {
			unanswered = append(unanswered, shown[i].ID)
		}
	}
	open, _ := a.offers.answer(unanswered)
	a.countAnswers(OfferDeclined, len(open))
	a.declineOffers(open, api.Filter{})
}

// sendAnswer sends one answer. If it is certain that a master would refuse the answer, sendAnswer tells the refusal at
// once instead.
func (a *answers) sendAnswer(answer api.Answer) {
	if answer.Keep {
		a.calls.tellRescinded(a.offers.keep(answer.Offers), errOfferGone.Error())
		return
	}
	at := a.offers.spotOf(answer.Offers)
	open, gone := a.offers.answer(answer.Offers)
	if len(answer.Operations) == 0 {
		a.countAnswers(OfferDeclined, len(open))
		a.declineOffers(open, answer.Filter)
		return
	}
	operations := a.withoutImpossible(answer.Operations, at.agent)
	if refused := answerFault(answer, operations, open, gone); refused != nil {
		a.countAnswers(OfferDeclined, len(open))
		a.refuseHere(operations, at.agent, refused)
		a.declineOffers(open, api.NoFilter)
		return
	}
	a.countAnswers(OfferAccepted, len(open))
	if onlyLaunches(operations) {
		a.acceptInParts(open, split(operations), answer.Filter, at)
		return
	}
	a.acceptWhatFits(open, operations, answer.Filter, at)
}

// answerFault returns why a master would refuse an answer with these operations, or nil.
func answerFault(answer api.Answer, operations []api.Operation, open, gone []api.OfferID) *api.Error {
	const op = "offer.accept"
	large := slices.IndexFunc(operations, func(operation api.Operation) bool { return operationSize(&operation) > acceptBytesMax })
	switch {
	case len(answer.Offers) == 0:
		return api.E(op, api.Invalid, "", errors.New("the answer names no offer"))
	case len(gone) > 0:
		return api.E(op, api.Stale, gone[0], errOfferGone)
	case len(answer.Offers) > api.OffersPerAnswerMax:
		return api.E(op, api.Invalid, open[0], fmt.Errorf("the answer names %d offers, at most %d are allowed", len(answer.Offers), api.OffersPerAnswerMax))
	case large >= 0:
		return api.E(op, api.Invalid, open[0],
			fmt.Errorf("operation %d of the answer takes more than the %d bytes that fit in a message", large+1, acceptBytesMax))
	}
	return nil
}

// withoutImpossible removes the tasks that no accept can launch, and tells that they are in ERROR: tasks that can never
// run, tasks that are too large for a message, and tasks whose ID is taken; the last are told beside what is remembered
// of the task that has the ID. A group with such a task is removed as a whole.
func (a *answers) withoutImpossible(operations []api.Operation, agent api.AgentID) []api.Operation {
	named := make(map[api.TaskID]bool)
	all := true
	kept := slices.Clone(operations)
	for i, operation := range operations {
		var possible []api.Task
		for j := range operation.Tasks {
			if a.isPossible(&operation.Tasks[j], agent, named) {
				possible = append(possible, operation.Tasks[j])
			}
		}
		if operation.Kind == api.OpLaunchGroup && !a.isPossibleGroup(operation.Tasks, possible, agent) {
			possible = nil
		}
		kept[i].Tasks = possible
		all = all && len(possible) == len(operation.Tasks)
	}
	if all {
		return operations
	}
	return slices.DeleteFunc(kept, func(o api.Operation) bool { return o.Kind.Launches() && len(o.Tasks) == 0 })
}

// isPossible reports whether an accept can launch the task; if not, it tells the task's end. named holds the tasks of
// the answer that come before this one.
func (a *answers) isPossible(task *api.Task, agent api.AgentID, named map[api.TaskID]bool) bool {
	again := named[task.ID]
	named[task.ID] = true
	if again || a.tasks.isUsed(task.ID) {
		a.statuses.resumeTask(a.tasks.addStray(a.statuses.refusalOf(task.ID, "", api.E("task.launch", api.Exists, task.ID, errUsedID))))
		return false
	}
	fault := taskFault(task)
	if fault != nil {
		a.refuseTaskHere(task.ID, agent, api.E("task.launch", api.Invalid, task.ID, fault))
	}
	return fault == nil
}

// isPossibleGroup reports whether an accept can launch the tasks as one group. If not, it tells the end of each task
// that would be possible by itself.
func (a *answers) isPossibleGroup(tasks, possible []api.Task, agent api.AgentID) bool {
	fault := api.CheckTaskGroup(tasks)
	if fault == nil && len(possible) == len(tasks) {
		return true
	}
	for i := range possible {
		id := possible[i].ID
		if fault != nil {
			a.refuseTaskHere(id, agent, api.E("task.launch", api.Invalid, id, fault))
			continue
		}
		a.tasks.noteLaunch(id, agent, 0)
		status := a.statuses.refusalOf(id, agent, api.E("task.launch", api.Stale, id, errGroupRefused))
		status.Reason = api.ReasonTaskGroupFailed
		a.statuses.hearStatus(status)
	}
	return false
}

// taskFault returns why a task can never run, by the same function that masters and agents use.
func taskFault(task *api.Task) error {
	if task.Bytes()+operationHead > acceptBytesMax {
		return errOversized
	}
	return task.Check()
}

// refuseHere tells the end of the tasks and operations of an answer that is not even sent.
func (a *answers) refuseHere(operations []api.Operation, agent api.AgentID, err *api.Error) {
	a.operations.refuseHere(operations, agent, err)
	eachTask(operations, func(task *api.Task) {
		a.refuseTaskHere(task.ID, agent, err)
	})
}

func (a *answers) refuseTaskHere(id api.TaskID, agent api.AgentID, err *api.Error) {
	a.tasks.noteLaunch(id, agent, 0)
	a.statuses.hearStatus(a.statuses.refusalOf(id, agent, err))
}

func eachTask(operations []api.Operation, do func(task *api.Task)) {
	for i := range operations {
		for j := range operations[i].Tasks {
			do(&operations[i].Tasks[j])
		}
	}
}

// declineOffers declines offers.
func (a *answers) declineOffers(offers []api.OfferID, filter api.Filter) {
	for page := range pages(offers, api.OffersPerAnswerMax) {
		if len(page.items) > 0 {
			a.session.sendCall(protocol.Decline{Offers: page.items, Filter: filter})
		}
	}
}

// returnKept declines kept offers before they expire.
func (a *answers) returnKept() {
	ids := a.offers.overdue(a.now)
	a.countAnswers(OfferReturned, len(ids))
	a.declineOffers(ids, api.Filter{})
	a.calls.tellRescinded(ids, "kept until it was about to expire")
}
