package wire

import (
	"fmt"

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
	switch event := event.(type) {
	case protocol.Offers:
		if a, b, ok := halves(event.Offers); ok {
			return []protocol.SchedulerEvent{protocol.Offers{Offers: a}, protocol.Offers{Offers: b}}
		}
	case protocol.Rescind:
		if a, b, ok := halves(event.Offers); ok {
			return []protocol.SchedulerEvent{protocol.Rescind{Offers: a, Why: event.Why}, protocol.Rescind{Offers: b, Why: event.Why}}
		}
	case protocol.InverseOffers:
		if a, b, ok := halves(event.Offers); ok {
			return []protocol.SchedulerEvent{protocol.InverseOffers{Offers: a}, protocol.InverseOffers{Offers: b}}
		}
	case protocol.RescindInverse:
		if a, b, ok := halves(event.Offers); ok {
			return []protocol.SchedulerEvent{
				protocol.RescindInverse{Offers: a, Why: event.Why}, protocol.RescindInverse{Offers: b, Why: event.Why}}
		}
	default: // the others mean nothing here
	}
	return nil
}

func halves[T any](list []T) (first, second []T, ok bool) {
	return list[:len(list)/2], list[len(list)/2:], len(list) > 1
}

// AgentCallBatches makes messages that keep below the limit. A report that is too large is split into pages, of which
// only the last one is marked as the last.
func AgentCallBatches(calls []protocol.AgentCall) ([]*apiv1.AgentCalls, error) {
	p := packer[protocol.AgentCall, *apiv1.AgentCall]{"wire.agent", agentCallToProto, agentCallItems, splitAgentCall}
	return batches(p, calls, func(calls []*apiv1.AgentCall) *apiv1.AgentCalls { return &apiv1.AgentCalls{Calls: calls} })
}

// splitAgentCall halves the longest list of a report. What a report has only once (usage, the mark of the last page)
// goes into the second page.
func splitAgentCall(call protocol.AgentCall) []protocol.AgentCall {
	report, ok := call.(protocol.AgentReport)
	if !ok {
		return nil
	}
	first := protocol.AgentReport{Session: report.Session, Rebooted: report.Rebooted}
	second := report
	switch most := max(len(report.Tasks), len(report.Executors), len(report.Frameworks), len(report.Stubs), len(report.Volumes)); {
	case lists(report) > 1: // first one list for each page, then halves
		first.Frameworks, second.Frameworks = report.Frameworks, nil
		if len(first.Frameworks) == 0 {
			first.Executors, second.Executors = report.Executors, nil
		}
		if len(first.Frameworks) == 0 && len(first.Executors) == 0 {
			first.Tasks, second.Tasks = report.Tasks, nil
		}
		if len(first.Frameworks) == 0 && len(first.Executors) == 0 && len(first.Tasks) == 0 {
			first.Stubs, second.Stubs = report.Stubs, nil
		}
	case most > 1:
		first.Tasks, second.Tasks, _ = halves(report.Tasks)
		first.Executors, second.Executors, _ = halves(report.Executors)
		first.Frameworks, second.Frameworks, _ = halves(report.Frameworks)
		first.Stubs, second.Stubs, _ = halves(report.Stubs)
		first.Volumes, second.Volumes, _ = halves(report.Volumes)
	case most == 1 && report.Usage != nil:
		first.Tasks, first.Executors, first.Frameworks, first.Stubs = report.Tasks, report.Executors, report.Frameworks, report.Stubs
		first.Volumes = report.Volumes
		second.Tasks, second.Executors, second.Frameworks, second.Stubs, second.Volumes = nil, nil, nil, nil, nil
	default:
		return nil
	}
	return []protocol.AgentCall{first, second}
}

// lists counts the lists of the report that are not empty.
func lists(report protocol.AgentReport) int {
	count := 0
	for _, n := range []int{len(report.Tasks), len(report.Executors), len(report.Frameworks), len(report.Stubs), len(report.Volumes)} {
		count += min(n, 1)
	}
	return count
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
