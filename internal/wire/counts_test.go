package wire_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// TestMessagesWithTooMuchInThemAreRefused: a megabyte of calls, or of what calls list, would take many times as much
// memory once it is read.
func TestMessagesWithTooMuchInThemAreRefused(t *testing.T) {
	beat := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Heartbeat{}}
	page := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Tasks: many(4096, &apiv1.UnsettledTask{TaskId: "t"})}}}
	_, calls := wire.SchedulerCallsFromProto(&apiv1.SchedulerCalls{Calls: many(4097, beat)})
	_, items := wire.SchedulerCallsFromProto(&apiv1.SchedulerCalls{Calls: many(16, page)})
	_, agents := wire.AgentCallsAfter(0, &apiv1.AgentCalls{Calls: many(4097, &apiv1.AgentCall{Call: &apiv1.AgentCall_Heartbeat{}})})
	_, executors := wire.ExecutorCallsAfter(0, &apiv1.ExecutorCalls{Calls: many(4097, &apiv1.ExecutorCall{Call: &apiv1.ExecutorCall_Heartbeat{}})})
	for _, test := range []struct {
		err      error
		op, want string
	}{
		{calls, "wire.scheduler", "4097 calls in one message, at most 4096 are allowed"},
		{items, "wire.scheduler", "65552 calls, tasks and the like in one message, at most 65536 are allowed"},
		{agents, "wire.agent", "4097 calls in one message, at most 4096 are allowed"},
		{executors, "wire.executor", "4097 calls in one message, at most 4096 are allowed"},
	} {
		checkError(t, test.err, api.Limit, test.op, "", test.want)
	}
}

// TestSendersCutTheirMessagesByCount: no message that they send is refused because of its count.
func TestSendersCutTheirMessagesByCount(t *testing.T) {
	var calls []protocol.NumberedCall
	for range 10_000 {
		calls = append(calls, protocol.NumberedCall{Number: uint64(len(calls) + 1), Call: protocol.SchedulerHeartbeat{}})
	}
	for range 70 {
		calls = append(calls, protocol.NumberedCall{Number: uint64(len(calls) + 1),
			Call: protocol.Unsettled{Tasks: many(1000, protocol.UnsettledTask{Task: "t"})}})
	}
	batches, err := wire.SchedulerCallBatches(calls)
	if err != nil {
		t.Fatal(err)
	}
	belowLimit(t, batches)
	read := 0
	for _, batch := range batches {
		some, err := wire.SchedulerCallsFromProto(batch)
		if err != nil {
			t.Fatal(err)
		}
		read += len(some)
	}
	if read != len(calls) || len(batches) != 4 {
		t.Errorf("%d of %d calls in %d messages", read, len(calls), len(batches))
	}
}
