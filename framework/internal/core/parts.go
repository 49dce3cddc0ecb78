package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

var (
	errOversized = fmt.Errorf("it takes more than the %d bytes that fit in a message; bring more by a URI", acceptBytesMax)
	errTooMuch   = errors.New("the answer is larger than a message, and with reservations or volumes it can't go in parts; launch with answers of their own")
)

// acceptInParts sends launches in as many accepts as they need, each no larger than a message. Each accept but the last
// leaves the rest of the offers to the next one. An accept is refused if the one before it was. So a task starts at
// most once, in resources that were offered (R3, R9).
func (a *answers) acceptInParts(offers []api.OfferID, parts [][]api.Operation, filter api.Filter, at spot) {
	accept := protocol.Accept{Offers: offers}
	for i, part := range parts {
		accept.Operations = part
		if accept.More = i < len(parts)-1; !accept.More {
			accept.Filter = filter
		}
		accept.After = a.sendAccept(accept, at)
		accept.Offers = offers[:1] // this offer holds what is left of all
	}
}

// acceptWhatFits sends as many of the operations as fit into one message, and tells that the others were not sent:
// after an accept that waits for the quorum no further part of the same answer can follow. What is left of the offers
// is then declined without a filter, so that it is offered again.
func (a *answers) acceptWhatFits(offers []api.OfferID, operations []api.Operation, filter api.Filter, at spot) {
	parts := split(operations)
	if len(parts) > 1 {
		filter = api.NoFilter
	}
	a.sendAccept(protocol.Accept{Offers: offers, Operations: parts[0], Filter: filter}, at)
	for _, rest := range parts[1:] {
		a.refuseHere(rest, at.agent, api.E("offer.accept", api.Limit, offers[0], errTooMuch))
	}
}

// sendAccept sends an accept, and remembers under its number what it asks for.
func (a *answers) sendAccept(accept protocol.Accept, at spot) uint64 {
	call := a.session.sendCall(accept)
	a.accepts.add(call, accepted{accept.Offers, a.demands.countLaunch(at, accept.Operations)})
	a.operations.awaitOutcomes(accept.Operations, at.agent, call)
	tasks := 0
	eachTask(accept.Operations, func(task *api.Task) {
		a.tasks.noteLaunch(task.ID, at.agent, call)
		tasks++
	})
	a.count(tasks, CountLaunches{Tasks: tasks})
	return call
}

func onlyLaunches(operations []api.Operation) bool {
	return !slices.ContainsFunc(operations, func(operation api.Operation) bool { return !operation.Kind.Launches() })
}

// split divides operations, in their order, into lists that each fit into a message. If a launch is divided, its last
// piece has its ID. No single task and no other operation is too large for a message.
func split(operations []api.Operation) [][]api.Operation {
	s := splitter{parts: [][]api.Operation{nil}}
	for _, operation := range operations {
		s.add(operation)
	}
	return s.parts
}

// splitter fills parts one after the other.
type splitter struct {
	parts [][]api.Operation
	size  int // size of the last part; never less than it will take
}

func (s *splitter) add(operation api.Operation) {
	head, from := operationSize(&operation), 0
	if s.size > 0 && s.full(head) {
		s.next()
	}
	if operation.Kind == api.OpLaunchGroup { // never divided; it fits (api.CheckTaskGroup)
		s.addGroup(operation, head)
		return
	}
	s.size += head
	for i := range operation.Tasks {
		size := operation.Tasks[i].Bytes()
		if s.size > head && s.full(size) {
			s.put(operation, from, i)
			s.next()
			s.size, from = head, i
		}
		s.size += size
	}
	s.put(operation, from, len(operation.Tasks))
}

func (s *splitter) addGroup(group api.Operation, size int) {
	for i := range group.Tasks {
		size += group.Tasks[i].Bytes()
	}
	if s.size > 0 && s.full(size) {
		s.next()
	}
	s.size += size
	s.put(group, 0, len(group.Tasks))
}

func (s *splitter) full(more int) bool { return s.size+more > acceptBytesMax }

func (s *splitter) next() { s.parts, s.size = append(s.parts, nil), 0 }

// put adds the tasks from..to of the operation to the last part.
func (s *splitter) put(operation api.Operation, from, to int) {
	piece := operation
	if to < len(operation.Tasks) {
		if from == to {
			return
		}
		piece.ID = ""
	}
	piece.Tasks = operation.Tasks[from:to:to]
	last := &s.parts[len(s.parts)-1]
	*last = append(*last, piece)
}

// acceptBytesMax is how much of a message operations may take; the rest is for what is around them.
const acceptBytesMax = api.MessageBytesMax - 64<<10

// operationHead is at least what a launch takes in a message without its ID and its tasks.
const operationHead = 128

// operationSize returns at least what the operation takes in a message without its tasks.
func operationSize(operation *api.Operation) int {
	return operationHead + len(operation.ID) + len(operation.Volume) + len(operation.Tag) + operation.Resources.Bytes()
}
