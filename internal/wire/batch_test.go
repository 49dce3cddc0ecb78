package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func belowLimit[M proto.Message](t require, batches []M) {
	t.Helper()
	for i, batch := range batches {
		if size := proto.Size(batch); size > api.MessageBytesMax {
			t.Fatalf("batch %d of %d has %d bytes", i, len(batches), size)
		}
	}
}

type require interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Batches contain the same calls in the same order, and keep below the limit.
func TestBatchesOfCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 10, 100_000, 500_000, api.MessageBytesMax - 120}), 0, 12).Draw(t, "sizes")
		var sent []protocol.NumberedCall
		for i, size := range sizes {
			sent = append(sent, protocol.NumberedCall{Number: uint64(i + 1),
				Call: protocol.MessageExecutor{Agent: "a", Executor: "x", Data: make([]byte, size)}})
		}
		batches, err := wire.SchedulerCallBatches(sent)
		none(t, err)
		belowLimit(t, batches)
		var numbers []uint64
		for i, batch := range batches {
			for _, call := range batch.Calls {
				numbers = append(numbers, call.Number)
			}
			// There are no more batches than the order requires.
			if i > 0 && proto.Size(batches[i-1])+proto.Size(batch.Calls[0])+100 < api.MessageBytesMax {
				t.Fatalf("batch %d would have gone into the one before", i)
			}
		}
		for i, number := range numbers {
			if number != uint64(i+1) {
				t.Fatalf("call %d stands at place %d", number, i)
			}
		}
		if len(numbers) != len(sent) {
			t.Fatalf("%d of %d calls", len(numbers), len(sent))
		}
	})
}

func TestWhatFitsInNoMessageIsNamed(t *testing.T) {
	huge := protocol.MessageExecutor{Agent: "a", Executor: "x", Data: make([]byte, api.MessageBytesMax)}
	batches, err := wire.SchedulerCallBatches([]protocol.NumberedCall{
		{Number: 1, Call: protocol.SchedulerHeartbeat{}}, {Number: 2, Call: huge}, {Number: 3, Call: protocol.SchedulerHeartbeat{}}})
	if len(batches) != 1 || len(batches[0].Calls) != 2 || !api.Is(err, api.Limit) {
		t.Fatalf("%v %v", batches, err)
	}
	if _, err := wire.ExecutorEventBatches([]protocol.ExecutorEvent{protocol.ExecutorMessage{Data: huge.Data}}); !api.Is(err, api.Limit) {
		t.Fatal(err)
	}
	if _, err := wire.AgentEventBatches(protocol.AgentEvents{Events: []protocol.AgentEvent{protocol.MessageToExecutor{Data: huge.Data}}}); !api.Is(err, api.Limit) {
		t.Fatal(err)
	}
	_, err = wire.SchedulerEventBatches(api.Term{Number: 1}, []protocol.SchedulerEvent{protocol.Offers{Offers: []api.Offer{{
		Attributes: map[string]string{"x": string(bytes.Repeat([]byte("x"), api.MessageBytesMax))}}}}})
	if !api.Is(err, api.Limit) {
		t.Fatal(err)
	}
}

// A page of as many identifiers as a list may hold always fits, even if they are as long as possible.
func TestAPageOfTheLongestIdentifiersFits(t *testing.T) {
	id := string(bytes.Repeat([]byte("x"), api.IDBytesMax))
	var acknowledge protocol.Acknowledge
	var unsettled protocol.Unsettled
	for range api.PageItemsMax {
		acknowledge.Items = append(acknowledge.Items, protocol.Acknowledgement{Framework: api.FrameworkID(id), Task: api.TaskID(id),
			Agent: api.AgentID(id), Number: 1 << 62})
		unsettled.Tasks = append(unsettled.Tasks, protocol.UnsettledTask{Task: api.TaskID(id), Agent: api.AgentID(id), Number: 1 << 62})
	}
	batches, err := wire.SchedulerCallBatches([]protocol.NumberedCall{{Number: 1, Call: acknowledge}, {Number: 2, Call: unsettled}})
	if err != nil || len(batches) != 2 {
		t.Fatal(len(batches), err)
	}
	belowLimit(t, batches)
}

func TestOffersAreSplit(t *testing.T) {
	var sent protocol.Offers
	for i := range 100 {
		sent.Offers = append(sent.Offers, api.Offer{ID: api.OfferID(fmt.Sprint(i)), Resources: api.Scalars(1, 1),
			Attributes: map[string]string{"x": string(make([]byte, 50_000))}})
	}
	events := []protocol.SchedulerEvent{protocol.Settled{}, sent, protocol.MasterHeartbeat{}}
	batches, err := wire.SchedulerEventBatches(api.Term{Number: 3}, events)
	if err != nil {
		t.Fatal(err)
	}
	belowLimit(t, batches)
	count := 0
	for _, batch := range batches {
		term, read, err := wire.SchedulerEventsFromProto(batch)
		if err != nil || term.Number != 3 {
			t.Fatal(term, err)
		}
		for _, event := range read {
			if offers, ok := event.(protocol.Offers); ok {
				for _, offer := range offers.Offers {
					if offer.ID != api.OfferID(fmt.Sprint(count)) {
						t.Fatalf("offer %s at place %d", offer.ID, count)
					}
					count++
				}
			}
		}
	}
	if count != 100 {
		t.Fatalf("%d offers", count)
	}
}

// The pages of a report contain the same as the report. Only the last one is marked as the last.
func TestReportsArePaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		var sent protocol.AgentReport
		sent.Session, sent.Rebooted, sent.Last = 7, g.bool(), g.bool()
		sent.Volumes = some(g, 3, g.volume, nil)
		if g.bool() {
			sent.Usage = &protocol.UsageReport{}
		}
		data := make([]byte, 200<<10)
		status := api.Status{Framework: "f", Task: "t", State: api.TaskRunning, Data: data[:64<<10]}
		for range g.n(9) {
			sent.Tasks = append(sent.Tasks, protocol.ReportedTask{Framework: "f", Role: "r", Status: status,
				Task: api.Task{ID: api.TaskID(g.id()), Data: data, Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "x"}}})
		}
		for range g.n(9) {
			sent.Executors = append(sent.Executors, protocol.ReportedExecutor{Framework: "f", Role: "r", Executor: api.Executor{ID: "x", Data: data}})
		}
		for range g.n(9) {
			sent.Stubs = append(sent.Stubs, protocol.TaskStub{TaskRef: g.taskRef(), Role: "r", Status: status})
		}
		sent.Frameworks = some(g, 3, g.framework, nil)

		batches, err := wire.AgentCallBatches([]protocol.AgentCall{sent})
		none(t, err)
		belowLimit(t, batches)
		got := protocol.AgentReport{Session: 7, Rebooted: sent.Rebooted}
		for _, batch := range batches {
			calls, err := wire.AgentCallsAfter(0, batch)
			none(t, err)
			for _, call := range calls {
				page := call.(protocol.AgentReport)
				if got.Last || page.Session != 7 || page.Rebooted != sent.Rebooted {
					t.Fatalf("a page after the last, or of another session: %v %v", got.Last, page.Session)
				}
				got.Last = page.Last
				got.Volumes = append(got.Volumes, page.Volumes...)
				got.Tasks = append(got.Tasks, page.Tasks...)
				got.Executors = append(got.Executors, page.Executors...)
				got.Frameworks = append(got.Frameworks, page.Frameworks...)
				got.Stubs = append(got.Stubs, page.Stubs...)
				if page.Usage != nil {
					got.Usage = page.Usage
				}
			}
		}
		same(t, sent, got)
	})
}

func TestManyUnacknowledgedStatusesFollowTheSubscribe(t *testing.T) {
	var sent protocol.SubscribeExecutor
	sent.Framework, sent.Executor = "f", "x"
	for i := range 40 {
		sent.Unacknowledged = append(sent.Unacknowledged, protocol.ExecutorStatus{Task: "t", Number: uint64(i + 1), State: api.TaskRunning,
			Data: make([]byte, api.StatusDataBytesMax)})
	}
	batches, err := wire.ExecutorCallBatches([]protocol.ExecutorCall{sent})
	if err != nil {
		t.Fatal(err)
	}
	belowLimit(t, batches)
	var numbers []uint64
	for _, batch := range batches {
		calls, err := wire.ExecutorCallsAfter(0, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if status, ok := call.(protocol.ExecutorStatus); ok {
				numbers = append(numbers, status.Number)
			}
		}
	}
	if batches[0].Calls[0].GetSubscribe() == nil || len(numbers) != 40 || numbers[0] != 1 || numbers[39] != 40 {
		t.Fatal(numbers)
	}
	if batches, err := wire.ExecutorCallBatches(nil); len(batches) != 0 || err != nil {
		t.Fatal(batches, err)
	}
}

func one[T any](t *testing.T, batches []T, err error) T {
	t.Helper()
	if err != nil || len(batches) != 1 {
		t.Fatal(len(batches), err)
	}
	return batches[0]
}

// Batches that fit into one message are the same message that the plain functions make.
func TestSmallBatchesAreOneMessage(t *testing.T) {
	term := api.Term{Number: 1, Epoch: 2}
	equal := func(a, b proto.Message) {
		t.Helper()
		if !proto.Equal(a, b) {
			t.Errorf("%v\nis not\n%v", a, b)
		}
	}
	events := protocol.AgentEvents{Term: term, Session: 9, Events: []protocol.AgentEvent{protocol.AgentPong{}, protocol.Drain{On: true}}}
	batches, err := wire.AgentEventBatches(events)
	equal(one(t, batches, err), wire.AgentEventsToProto(events))
	toExecutor := []protocol.ExecutorEvent{protocol.ExecutorKill{Task: "t"}}
	executor, err := wire.ExecutorEventBatches(toExecutor)
	equal(one(t, executor, err), wire.ExecutorEventsToProto(toExecutor))
	toScheduler := []protocol.SchedulerEvent{protocol.Settled{}}
	scheduler, err := wire.SchedulerEventBatches(term, toScheduler)
	equal(one[*apiv1.SchedulerEvents](t, scheduler, err), wire.SchedulerEventsToProto(term, toScheduler))
}
