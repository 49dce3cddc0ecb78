package wire_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// Arbitrary bytes never cause a panic, and what is accepted can be sent on.

// seed adds messages of every type, so that mutations begin near valid messages.
func seed(f *testing.F, makeOne func(g gen) proto.Message) {
	for i := range 8 {
		m := rapid.Custom(func(t *rapid.T) proto.Message { return makeOne(gen{t}) }).Example(i)
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
}

func FuzzSchedulerCalls(f *testing.F) {
	seed(f, func(g gen) proto.Message {
		var calls []protocol.NumberedCall
		for i, call := range each(g.schedulerCalls()) {
			calls = append(calls, protocol.NumberedCall{Number: uint64(i + 1), Call: call})
		}
		return wire.SchedulerCallsToProto(calls)
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		m := new(apiv1.SchedulerCalls)
		if proto.Unmarshal(text, m) != nil {
			return
		}
		calls, _ := wire.SchedulerCallsFromProto(m)
		for _, call := range calls {
			if accept, ok := call.Call.(protocol.Accept); ok {
				for _, operation := range accept.Operations {
					for i := range operation.Tasks {
						_ = operation.Tasks[i].Check()
					}
				}
			}
		}
		sendable(t, wire.SchedulerCallsToProto(calls))
	})
}

func FuzzAgentCalls(f *testing.F) {
	seed(f, func(g gen) proto.Message { return wire.AgentCallsToProto(each(g.agentCalls())) })
	f.Fuzz(func(t *testing.T, text []byte) {
		m := new(apiv1.AgentCalls)
		if proto.Unmarshal(text, m) != nil {
			return
		}
		calls, _ := wire.AgentCallsAfter(0, m)
		sendable(t, wire.AgentCallsToProto(calls))
	})
}

func FuzzExecutorCalls(f *testing.F) {
	seed(f, func(g gen) proto.Message { return wire.ExecutorCallsToProto(each(g.executorCalls())) })
	f.Fuzz(func(t *testing.T, text []byte) {
		m := new(apiv1.ExecutorCalls)
		if proto.Unmarshal(text, m) != nil {
			return
		}
		calls, _ := wire.ExecutorCallsAfter(0, m)
		sendable(t, wire.ExecutorCallsToProto(calls))
	})
}

func FuzzEvents(f *testing.F) {
	seed(f, func(g gen) proto.Message { return wire.SchedulerEventsToProto(g.term(), each(g.schedulerEvents())) })
	seed(f, func(g gen) proto.Message {
		return wire.AgentEventsToProto(protocol.AgentEvents{Term: g.term(), Events: each(g.agentEvents())})
	})
	seed(f, func(g gen) proto.Message { return wire.ExecutorEventsToProto(each(g.executorEvents())) })
	f.Fuzz(func(t *testing.T, text []byte) {
		scheduler, agent, executor := new(apiv1.SchedulerEvents), new(apiv1.AgentEvents), new(apiv1.ExecutorEvents)
		if proto.Unmarshal(text, scheduler) == nil {
			if term, events, err := wire.SchedulerEventsFromProto(scheduler); err == nil {
				sendable(t, wire.SchedulerEventsToProto(term, events))
			}
		}
		if proto.Unmarshal(text, agent) == nil {
			if events, err := wire.AgentEventsFromProto(agent); err == nil {
				sendable(t, wire.AgentEventsToProto(events))
			}
		}
		if proto.Unmarshal(text, executor) == nil {
			if events, err := wire.ExecutorEventsFromProto(executor); err == nil {
				sendable(t, wire.ExecutorEventsToProto(events))
			}
		}
	})
}

func sendable(t *testing.T, m proto.Message) {
	t.Helper()
	if _, err := proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
}
