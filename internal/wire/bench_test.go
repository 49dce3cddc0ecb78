package wire_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// The messages of a task's life: an offer, an accept, a launch and two statuses, each encoded and decoded, in batches
// of 100.

const batch = 100

func benchTask(i int) api.Task {
	return api.Task{ID: api.TaskID(fmt.Sprint("task-", i)), Resources: api.Scalars(0.1, 32),
		Command: &api.Command{Argv: []string{"/bin/true"}, Env: map[string]string{"A": "b"}}, Labels: map[string]string{"app": "web"}}
}

func through[M proto.Message](b *testing.B, sent, read M) {
	text, err := proto.Marshal(sent)
	if err != nil {
		b.Fatal(err)
	}
	if err := proto.Unmarshal(text, read); err != nil {
		b.Fatal(err)
	}
}

func perItem(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/item")
}

func BenchmarkAcceptBatch(b *testing.B) {
	var calls []protocol.NumberedCall
	for i := range batch {
		calls = append(calls, protocol.NumberedCall{Number: uint64(i + 1), Call: protocol.Accept{Offers: []api.OfferID{"offer-7-42"},
			Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{benchTask(i)}}}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches, err := wire.SchedulerCallBatches(calls)
		if err != nil {
			b.Fatal(err)
		}
		read := new(apiv1.SchedulerCalls)
		through(b, batches[0], read)
		if got, err := wire.SchedulerCallsFromProto(read); err != nil || len(got) != batch {
			b.Fatal(err)
		}
	}
	perItem(b)
}

func BenchmarkLaunchBatch(b *testing.B) {
	events := protocol.AgentEvents{Term: api.Term{Number: 7}, Session: 1}
	for i := range batch {
		events.Events = append(events.Events, protocol.LaunchTask{Task: benchTask(i), Role: "default", Resources: api.Scalars(0.1, 32),
			Framework: api.Framework{ID: "framework-1", Name: "bench", Roles: []api.Role{"default"}}, Number: uint64(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches, err := wire.AgentEventBatches(events)
		if err != nil {
			b.Fatal(err)
		}
		read := new(apiv1.AgentEvents)
		through(b, batches[0], read)
		if got, err := wire.AgentEventsFromProto(read); err != nil || len(got.Events) != batch {
			b.Fatal(err)
		}
	}
	perItem(b)
}

func BenchmarkStatusBatch(b *testing.B) {
	var calls []protocol.AgentCall
	code := 0
	for i := range batch {
		calls = append(calls, protocol.StatusUpdate{Status: api.Status{Framework: "framework-1", Task: api.TaskID(fmt.Sprint("task-", i)),
			Agent: "agent-1", Executor: "command", Number: 2, State: api.TaskFinished, Source: api.MoverExecutor, At: time.Unix(1e9, 0), ExitCode: &code}})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches, err := wire.AgentCallBatches(calls)
		if err != nil {
			b.Fatal(err)
		}
		read := new(apiv1.AgentCalls)
		through(b, batches[0], read)
		if got, err := wire.AgentCallsAfter(0, read); err != nil || len(got) != batch {
			b.Fatal(err)
		}
	}
	perItem(b)
}

func BenchmarkOfferBatch(b *testing.B) {
	var offers protocol.Offers
	ports := api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.Ranges{{Begin: 31000, End: 32000}}})
	for i := range batch {
		offers.Offers = append(offers.Offers, api.Offer{ID: api.OfferID(fmt.Sprint("offer-7-", i)), Framework: "framework-1", Agent: "agent-1",
			Role: "default", Resources: api.Scalars(4, 8192).Plus(ports), Hostname: "node-1.example", Timeout: 30 * time.Second,
			Attributes: map[string]string{"rack": "r1", "disk": "ssd"}})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches, err := wire.SchedulerEventBatches(api.Term{Number: 7}, []protocol.SchedulerEvent{offers})
		if err != nil {
			b.Fatal(err)
		}
		read := new(apiv1.SchedulerEvents)
		through(b, batches[0], read)
		if _, got, err := wire.SchedulerEventsFromProto(read); err != nil || len(got) != 1 {
			b.Fatal(err)
		}
	}
	perItem(b)
}

// BenchmarkReport measures a task in the report of an agent that returns, by how many tasks the report has.
func BenchmarkReport(b *testing.B) {
	for _, tasks := range []int{10, 2000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) {
			report := protocol.AgentReport{Last: true}
			for i := range tasks {
				report.Tasks = append(report.Tasks, protocol.ReportedTask{Task: benchTask(i), Framework: "framework-1", Role: "default",
					Resources: api.Scalars(0.1, 32),
					Status:    api.Status{Framework: "framework-1", Task: benchTask(i).ID, Agent: "agent-1", Number: 1, State: api.TaskRunning, Launch: api.LaunchID{Number: uint64(i + 1)}}})
			}
			b.ReportAllocs()
			for b.Loop() {
				batches, err := wire.AgentCallBatches([]protocol.AgentCall{report})
				if err != nil {
					b.Fatal(err)
				}
				for _, batch := range batches {
					read := new(apiv1.AgentCalls)
					through(b, batch, read)
					if _, err := wire.AgentCallsAfter(0, read); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(tasks), "units")
		})
	}
}
