package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/web"
)

// large is a cluster of many agents, each with its tasks.
func large(agents, tasks int) *fake {
	f := answering("x")
	f.answers["WhoAmI"] = func() (proto.Message, error) { return &apiv1.WhoAmIResponse{Kind: "anybody"}, nil }
	f.state = nil
	add := func(change *apiv1.Change) { f.state = append(f.state, change) }
	resources := func(cpus, mem float64) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"cpus": structpb.NewNumberValue(cpus), "mem": structpb.NewNumberValue(mem)}}
	}
	for i := range agents {
		add(&apiv1.Change{View: &apiv1.Change_Agent{Agent: &apiv1.AgentView{
			Id: fmt.Sprint("agent-", i), Hostname: fmt.Sprint("node-", i), State: "RUNNING", Zone: fmt.Sprint("zone-", i%20),
			Total: resources(16, 65536), Allocated: resources(float64(tasks/agents), 10240), Usage: &apiv1.Usage{CpuMilli: 5000, MemMilli: 4000_000},
		}}})
	}
	for i := range 20 {
		add(&apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: fmt.Sprint("framework-", i), Name: fmt.Sprint("f", i), State: "active"}}})
	}
	for i := range tasks {
		add(&apiv1.Change{View: &apiv1.Change_Task{Task: someTask(i, i%agents)}})
	}
	return f
}

func someTask(i, agent int) *apiv1.TaskView {
	return &apiv1.TaskView{
		Id: fmt.Sprint("task-", i), FrameworkId: fmt.Sprint("framework-", i%20), FrameworkName: fmt.Sprint("f", i%20), Role: fmt.Sprint("role-", i%8), State: "RUNNING",
		AgentId: fmt.Sprint("agent-", agent), Hostname: fmt.Sprint("node-", agent), Since: &timestamppb.Timestamp{Seconds: 1e9}, Launched: &timestamppb.Timestamp{Seconds: 1e9},
		Resources: &structpb.Struct{Fields: map[string]*structpb.Value{"cpus": structpb.NewNumberValue(1), "mem": structpb.NewNumberValue(1024)}},
	}
}

// processorTime is how long this process has had a processor: unlike a clock it does not count what else runs here.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPatch is what a change costs until a view of 10,000 agents and 100,000 tasks is made anew.
func BenchmarkPatch(b *testing.B) {
	cluster := large(10_000, 100_000)
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	handler := page.Handler()
	for _, path := range []string{"/", "/?whole=1", "/?whole=1&fill=framework&by=state", "/tasks", "/tasks?q=task-99", "/agents", "/search?q=task-5"} {
		b.Run(path, func(b *testing.B) {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)) // the first one begins the watch
			i, bytes, before := 0, 0, processorTime()
			for b.Loop() {
				i++
				change := &apiv1.Change{View: &apiv1.Change_Task{Task: someTask(i%100_000, i*7%10_000)}}
				if i%2 == 0 {
					change.View = &apiv1.Change_Task{Task: someTask(100_000+i, i%10_000)}
				}
				cluster.changed <- change
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
				bytes = w.Body.Len()
			}
			b.ReportMetric(float64(bytes), "bytes")
			b.ReportMetric(float64(processorTime()-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
		})
	}
}
