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

// offersReturned sends the answers that Offers returned; offers that it did not mention are declined. After that it
// sends the demands that were stated meanwhile. If the call was skipped, the scheduler has not seen the offers.
func (c *Core) offersReturned(call CallOffers, result Called) {
	switch {
	case result.Outcome != Skipped:
		c.answerAll(call.Offers, result.Answers)
	case call.Number == 0: // the call was not even handed out
		c.calls.offering = false
	}
	c.calls.answeredOffers = max(c.calls.answeredOffers, call.Number)
	c.tellDemands()
}

func (c *Core) answerAll(shown []api.Offer, answers []api.Answer) {
	left := make(map[api.OfferID]bool, len(shown))
	for i := range shown {
		left[shown[i].ID] = true
	}
	for _, answer := range answers {
		for _, id := range answer.Offers {
			delete(left, id)
		}
		c.sendAnswer(answer)
	}
	var unanswered []api.OfferID
	for i := range shown {
		if left[shown[i].ID] {
			unanswered = append(unanswered, shown[i].ID)
		}
	}
	open, _ := c.offers.answer(unanswered)
	c.countAnswers(OfferDeclined, len(open))
	c.decline(open, api.Filter{})
}

// sendAnswer sends one answer. If it is certain that a master would refuse the answer, sendAnswer tells the refusal at
// once instead.
func (c *Core) sendAnswer(answer api.Answer) {
	if answer.Keep {
		c.calls.tellRescinded(c.offers.keep(answer.Offers), errOfferGone.Error())
		return
	}
	at := c.offers.spotOf(answer.Offers)
	open, gone := c.offers.answer(answer.Offers)
	if len(answer.Operations) == 0 {
		c.countAnswers(OfferDeclined, len(open))
		c.decline(open, answer.Filter)
		return
	}
	operations := c.withoutImpossible(answer.Operations, at.agent)
	if refused := answerFault(answer, operations, open, gone); refused != nil {
		c.countAnswers(OfferDeclined, len(open))
		c.refuseHere(operations, at.agent, refused)
		c.decline(open, api.NoFilter)
		return
	}
	c.countAnswers(OfferAccepted, len(open))
	if onlyLaunches(operations) {
		c.acceptInParts(open, split(operations), answer.Filter, at)
		return
	}
	c.acceptWhatFits(open, operations, answer.Filter, at)
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
func (c *Core) withoutImpossible(operations []api.Operation, agent api.AgentID) []api.Operation {
	named := make(map[api.TaskID]bool)
	all := true
	kept := slices.Clone(operations)
	for i, operation := range operations {
		var possible []api.Task
		for j := range operation.Tasks {
			if c.isPossible(&operation.Tasks[j], agent, named) {
				possible = append(possible, operation.Tasks[j])
			}
		}
		if operation.Kind == api.OpLaunchGroup && !c.isPossibleGroup(operation.Tasks, possible, agent) {
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
func (c *Core) isPossible(task *api.Task, agent api.AgentID, named map[api.TaskID]bool) bool {
	again := named[task.ID]
	named[task.ID] = true
	if again || c.tasks.isUsed(task.ID) {
		c.resumeTask(c.tasks.stray(c.refusalOf(task.ID, "", api.E("task.launch", api.Exists, task.ID, errUsedID))))
		return false
	}
	fault := taskFault(task)
	if fault != nil {
		c.refuseTaskHere(task.ID, agent, api.E("task.launch", api.Invalid, task.ID, fault))
	}
	return fault == nil
}

// isPossibleGroup reports whether an accept can launch the tasks as one group. If not, it tells the end of each task
// that would be possible by itself.
func (c *Core) isPossibleGroup(tasks, possible []api.Task, agent api.AgentID) bool {
	fault := api.CheckTaskGroup(tasks)
	if fault == nil && len(possible) == len(tasks) {
		return true
	}
	for i := range possible {
		id := possible[i].ID
		if fault != nil {
			c.refuseTaskHere(id, agent, api.E("task.launch", api.Invalid, id, fault))
			continue
		}
		c.tasks.launch(id, agent, 0)
		status := c.refusalOf(id, agent, api.E("task.launch", api.Stale, id, errGroupRefused))
		status.Reason = api.ReasonTaskGroupFailed
		c.hearStatus(status)
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
func (c *Core) refuseHere(operations []api.Operation, agent api.AgentID, err *api.Error) {
	c.refuseOperationsHere(operations, agent, err)
	eachTask(operations, func(task *api.Task) {
		c.refuseTaskHere(task.ID, agent, err)
	})
}

func (c *Core) refuseTaskHere(id api.TaskID, agent api.AgentID, err *api.Error) {
	c.tasks.launch(id, agent, 0)
	c.hearStatus(c.refusalOf(id, agent, err))
}

func eachTask(operations []api.Operation, do func(task *api.Task)) {
	for i := range operations {
		for j := range operations[i].Tasks {
			do(&operations[i].Tasks[j])
		}
	}
}

// decline declines offers.
func (c *Core) decline(offers []api.OfferID, filter api.Filter) {
	for page := range pages(offers, api.OffersPerAnswerMax) {
		if len(page.items) > 0 {
			c.sendCall(protocol.Decline{Offers: page.items, Filter: filter})
		}
	}
}

// returnKept declines kept offers before they expire.
func (c *Core) returnKept() {
	ids := c.offers.overdue(c.now)
	c.countAnswers(OfferReturned, len(ids))
	c.decline(ids, api.Filter{})
	c.calls.tellRescinded(ids, "kept until it was about to expire")
}
