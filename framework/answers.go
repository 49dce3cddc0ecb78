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

// accepts remembers which offers each accept of the session named, for the case that
// it is refused.
type accepts struct {
	offers map[uint64][]api.OfferID
	order  []uint64
}

func (a *accepts) add(call uint64, offers []api.OfferID) {
	if a.offers == nil {
		a.offers = make(map[uint64][]api.OfferID)
	}
	if len(a.order) == acceptsMax {
		delete(a.offers, a.order[0])
		a.order = a.order[1:]
	}
	a.offers[call] = offers
	a.order = append(a.order, call)
}

func (a *accepts) take(call uint64) ([]api.OfferID, bool) {
	offers, ok := a.offers[call]
	delete(a.offers, call)
	return offers, ok
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
	agent := l.agentOf(answer.Offers)
	open, gone := l.offers.answered(answer.Offers)
	if len(answer.Operations) == 0 {
		l.config.Metrics.answers(OfferDeclined, len(open))
		l.decline(open, answer.Filter)
		return
	}
	operations := l.withoutUsed(answer.Operations)
	var refused *api.Error
	switch size := operationsSize(operations); {
	case len(answer.Offers) == 0:
		refused = api.E("offer.accept", api.Invalid, "", errors.New("the answer names no offer"))
	case len(gone) > 0:
		refused = api.E("offer.accept", api.Stale, gone[0], errOfferGone)
	case len(answer.Offers) > api.OffersPerAnswerMax:
		refused = api.E("offer.accept", api.Invalid, open[0], fmt.Errorf("the answer names %d offers, at most %d are allowed", len(answer.Offers), api.OffersPerAnswerMax))
	case size > acceptBytesMax:
		refused = api.E("offer.accept", api.Limit, open[0], fmt.Errorf("the answer has about %d bytes, at most %d are allowed; launch fewer tasks at once", size, acceptBytesMax))
	}
	if refused != nil {
		l.config.Metrics.answers(OfferDeclined, len(open))
		l.refuseHere(operations, agent, refused)
		l.decline(open, api.NoFilter)
		return
	}
	call := l.send(protocol.Accept{Offers: open, Operations: operations, Filter: answer.Filter})
	l.accepts.add(call, open)
	l.await(operations, agent, call)
	tasks := 0
	eachTask(operations, func(task *api.Task) {
		l.book.launch(task.ID, agent, call)
		tasks++
	})
	l.config.Metrics.answers(OfferAccepted, len(open))
	l.config.Metrics.launches(tasks)
}

func (l *loop) agentOf(ids []api.OfferID) api.AgentID {
	for _, id := range ids {
		if offer, ok := l.offers.open[id]; ok {
			return offer.agent
		}
	}
	return ""
}

// withoutUsed takes out tasks whose ID is taken and tells that they are in ERROR, beside
// what is remembered of the task that has the ID.
func (l *loop) withoutUsed(operations []api.Operation) []api.Operation {
	used := false
	named := make(map[api.TaskID]bool)
	fresh := func(task api.Task) bool {
		ok := !named[task.ID] && !l.book.used(task.ID)
		named[task.ID] = true
		return ok
	}
	kept := slices.Clone(operations)
	for i, operation := range operations {
		kept[i].Tasks = nil
		for _, task := range operation.Tasks {
			if fresh(task) {
				kept[i].Tasks = append(kept[i].Tasks, task)
				continue
			}
			used = true
			l.strayStatus(l.refusal(task.ID, "", api.E("task.launch", api.Exists, task.ID, errUsedID)))
		}
	}
	if !used {
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
		l.book.launch(task.ID, agent, 0)
		l.heardStatus(l.refusal(task.ID, agent, err))
	})
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

// acceptBytesMax leaves room in a message for what is around an accept.
const acceptBytesMax = api.MessageBytesMax - 64<<10

// operationsSize is not less than what the operations take in a message.
func operationsSize(operations []api.Operation) int {
	size := 0
	for i := range operations {
		operation := &operations[i]
		size += 128 + len(operation.ID) + len(operation.Volume) + resourcesSize(operation.Resources)
		for j := range operation.Tasks {
			size += taskSize(&operation.Tasks[j])
		}
	}
	return size
}

// A field of a message takes at most entrySize bytes beside its text.
const entrySize = 12

func taskSize(task *api.Task) int {
	size := 8*entrySize + len(task.ID) + len(task.Name) + len(task.Data) + resourcesSize(task.Resources) + wordsSize(task.Labels)
	for name := range task.Ports {
		size += 2*entrySize + len(name)
	}
	if task.Command != nil {
		size += commandSize(task.Command)
	}
	if e := task.Executor; e != nil {
		size += 8*entrySize + len(e.ID) + commandSize(&e.Command) + resourcesSize(e.Resources) + len(e.Data) + wordsSize(e.Labels)
	}
	return size
}

func commandSize(command *api.Command) int {
	size := 2*entrySize + len(command.Shell) + wordsSize(command.Env)
	for _, word := range command.Argv {
		size += entrySize + len(word)
	}
	for _, uri := range command.URIs {
		size += 6*entrySize + len(uri.Source) + len(uri.Name) + len(uri.SHA256)
	}
	return size
}

func wordsSize(words map[string]string) int {
	size := 0
	for key, value := range words {
		size += 3*entrySize + len(key) + len(value)
	}
	return size
}

func resourcesSize(resources api.Resources) int {
	size := 0
	for _, item := range resources.Items() {
		size += 8*entrySize + len(item.Name) + len(item.Reserved) + len(item.Volume) + 3*entrySize*len(item.Ranges)
		for _, word := range item.Set {
			size += entrySize + len(word)
		}
	}
	return size
}
