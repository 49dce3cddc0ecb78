package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// batchBytes is what a message needs besides its items (term, session). itemBytes is what each item needs besides its
// own bytes (tag, length).
const (
	batchBytes = 64
	itemBytes  = 8
)

// packer turns values into messages, packs these into batches, and splits values that are too large.
type packer[V any, M proto.Message] struct {
	op    string
	toMsg func(V) M
	// items counts a message with what it lists; nil: its receivers do not count.
	items func(M) int
	// split halves a value that holds a list. It returns nil if that is not possible.
	split func(V) []V
}

// pack makes batches of messages, in order. None is larger than api.MessageBytesMax or contains more items than a
// receiver accepts. A value that fits in no message is left out, and the error names the first of these: the caller
// refuses it, or closes its stream.
func (p packer[V, M]) pack(values []V) (batches [][]M, err error) {
	var batch []M
	size, items := batchBytes, 0
	var add func(value V, left int)
	add = func(value V, left int) {
		m := p.toMsg(value)
		bytes := proto.Size(m) + itemBytes
		if bytes+batchBytes > api.MessageBytesMax {
			parts := p.halve(value)
			for _, part := range parts {
				add(part, left)
			}
			if parts == nil && err == nil {
				err = api.E(p.op, api.Limit, fmt.Sprintf("%T", value),
					fmt.Errorf("%d bytes, at most %d fit in a message", bytes, api.MessageBytesMax-batchBytes))
			}
			return
		}
		count := p.count(m)
		if size+bytes > api.MessageBytesMax || items+count > api.ItemsPerMessageMax || count > 0 && len(batch) == api.CallsPerMessageMax {
			batches, batch, size, items = append(batches, batch), nil, batchBytes, 0
		}
		if batch == nil {
			batch = make([]M, 0, left)
		}
		batch, size, items = append(batch, m), size+bytes, items+count
	}
	for i, value := range values {
		add(value, len(values)-i)
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches, err
}

// batches packs values, and makes a message of the wire of each batch.
func batches[V any, M proto.Message, Whole any](p packer[V, M], values []V, whole func([]M) Whole) ([]Whole, error) {
	packed, err := p.pack(values)
	return Each(packed, whole), err
}

func (p packer[V, M]) count(m M) int {
	if p.items == nil {
		return 0
	}
	return p.items(m)
}

func (p packer[V, M]) halve(value V) []V {
	if p.split == nil {
		return nil
	}
	return p.split(value)
}

// SchedulerCallBatches makes messages that keep below the limit. Calls are numbered, so none is split. Their maker
// keeps each below the limit, as a page of api.PageItemsMax identifiers always is. A call that is too large is left
// out, with an error of kind Limit.
func SchedulerCallBatches(calls []protocol.NumberedCall) ([]*apiv1.SchedulerCalls, error) {
	p := packer[protocol.NumberedCall, *apiv1.SchedulerCall]{"wire.scheduler", schedulerCallToProto, schedulerCallItems, nil}
	return batches(p, calls, func(calls []*apiv1.SchedulerCall) *apiv1.SchedulerCalls { return &apiv1.SchedulerCalls{Calls: calls} })
}

// SchedulerEventBatches makes messages that keep below the limit. Events with lists are split if necessary.
func SchedulerEventBatches(term api.Term, events []protocol.SchedulerEvent) ([]*apiv1.SchedulerEvents, error) {
	p := packer[protocol.SchedulerEvent, *apiv1.SchedulerEvent]{"wire.scheduler", schedulerEventToProto, nil, splitSchedulerEvent}
	return batches(p, events, func(events []*apiv1.SchedulerEvent) *apiv1.SchedulerEvents {
		return &apiv1.SchedulerEvents{Term: TermToProto(term), Events: events}
	})
}

func splitSchedulerEvent(event protocol.SchedulerEvent) []protocol.SchedulerEvent {
	type some = protocol.SchedulerEvent
	switch event := event.(type) {
	case protocol.Offers:
		return halved(event.Offers, func(half []api.Offer) some { return protocol.Offers{Offers: half} })
	case protocol.Rescind:
		return halved(event.Offers, func(half []api.OfferID) some { return protocol.Rescind{Offers: half, Why: event.Why} })
	case protocol.InverseOffers:
		return halved(event.Offers, func(half []api.InverseOffer) some { return protocol.InverseOffers{Offers: half} })
	case protocol.RescindInverse:
		return halved(event.Offers, func(half []api.OfferID) some { return protocol.RescindInverse{Offers: half, Why: event.Why} })
	default: // the others mean nothing here
		return nil
	}
}

// halved makes an event of each half of a list; nil: one element can't be halved.
func halved[T, Event any](list []T, event func(half []T) Event) []Event {
	if len(list) < 2 {
		return nil
	}
	return []Event{event(list[:len(list)/2]), event(list[len(list)/2:])}
}

// AgentCallBatches makes messages that keep below the limit. A report that is too large is split into pages, of which
// only the last one is marked as the last.
func AgentCallBatches(calls []protocol.AgentCall) ([]*apiv1.AgentCalls, error) {
	p := packer[protocol.AgentCall, *apiv1.AgentCall]{"wire.agent", agentCallToProto, agentCallItems, splitAgentCall}
	return batches(p, calls, func(calls []*apiv1.AgentCall) *apiv1.AgentCalls { return &apiv1.AgentCalls{Calls: calls} })
}

// splitAgentCall moves the first list of a report into a page before it, or half of the only one. What a report has only
// once (usage, the mark of the last page) stays in the second page.
func splitAgentCall(call protocol.AgentCall) []protocol.AgentCall {
	report, ok := call.(protocol.AgentReport)
	if !ok {
		return nil
	}
	first, second := protocol.AgentReport{Session: report.Session, Rebooted: report.Rebooted}, report
	type list struct {
		length int
		move   func(n int)
	}
	lists := slices.DeleteFunc([]list{
		{len(report.Frameworks), func(n int) { first.Frameworks, second.Frameworks = report.Frameworks[:n], report.Frameworks[n:] }},
		{len(report.Executors), func(n int) { first.Executors, second.Executors = report.Executors[:n], report.Executors[n:] }},
		{len(report.Tasks), func(n int) { first.Tasks, second.Tasks = report.Tasks[:n], report.Tasks[n:] }},
		{len(report.Stubs), func(n int) { first.Stubs, second.Stubs = report.Stubs[:n], report.Stubs[n:] }},
		{len(report.Volumes), func(n int) { first.Volumes, second.Volumes = report.Volumes[:n], report.Volumes[n:] }},
	}, func(l list) bool { return l.length == 0 })
	if len(lists) == 0 {
		return nil
	}
	n := lists[0].length
	if len(lists) == 1 && (n > 1 || report.Usage == nil) {
		n /= 2
	}
	if n == 0 {
		return nil
	}
	lists[0].move(n)
	return []protocol.AgentCall{first, second}
}

// AgentEventBatches makes messages that keep below the limit.
func AgentEventBatches(batch protocol.AgentEvents) ([]*apiv1.AgentEvents, error) {
	p := packer[protocol.AgentEvent, *apiv1.AgentEvent]{"wire.agent", agentEventToProto, nil, nil}
	return batches(p, batch.Events, func(events []*apiv1.AgentEvent) *apiv1.AgentEvents {
		return &apiv1.AgentEvents{Term: TermToProto(batch.Term), Session: batch.Session, Events: events}
	})
}

// ExecutorCallBatches makes messages that keep below the limit. If a Subscribe has too many unacknowledged statuses,
// the rest of them follow as calls of their own.
func ExecutorCallBatches(calls []protocol.ExecutorCall) ([]*apiv1.ExecutorCalls, error) {
	p := packer[protocol.ExecutorCall, *apiv1.ExecutorCall]{"wire.executor", executorCallToProto, one[*apiv1.ExecutorCall], splitExecutorCall}
	return batches(p, calls, func(calls []*apiv1.ExecutorCall) *apiv1.ExecutorCalls { return &apiv1.ExecutorCalls{Calls: calls} })
}

func splitExecutorCall(call protocol.ExecutorCall) []protocol.ExecutorCall {
	subscribe, ok := call.(protocol.SubscribeExecutor)
	if !ok || len(subscribe.Unacknowledged) == 0 {
		return nil
	}
	statuses := subscribe.Unacknowledged
	subscribe.Unacknowledged = nil
	calls := []protocol.ExecutorCall{subscribe}
	for _, status := range statuses {
		calls = append(calls, status)
	}
	return calls
}

// ExecutorEventBatches makes messages that keep below the limit.
func ExecutorEventBatches(events []protocol.ExecutorEvent) ([]*apiv1.ExecutorEvents, error) {
	p := packer[protocol.ExecutorEvent, *apiv1.ExecutorEvent]{"wire.executor", executorEventToProto, nil, nil}
	return batches(p, events, func(events []*apiv1.ExecutorEvent) *apiv1.ExecutorEvents {
		return &apiv1.ExecutorEvents{Events: events}
	})
}
