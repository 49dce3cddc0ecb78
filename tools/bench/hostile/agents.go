package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tools/loopback"
)

// wait pauses between two tries that fail. It returns false at the end.
func wait(ctx context.Context) bool { return pause.For(ctx, time.Second) }

// agent is a handwritten session of an agent.
type agent struct {
	stream  grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents]
	target  Target
	session uint64
}

// newAgent registers an agent; it returns nil if the master refused.
func newAgent(ctx context.Context, target Target, name string, cpus int64) *agent {
	a := &agent{target: target}
	var err error
	if a.stream, err = direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, target.dial, target.GRPC, api.MessageBytesMax); err != nil {
		return nil
	}
	info := &apiv1.Agent{Hostname: name, Resources: []*apiv1.Resource{{Name: "cpus", Milli: 1000 * cpus}, {Name: "mem", Milli: 1024_000 * cpus}}, Attributes: map[string]string{"a": strings.Repeat("x", 30_000)}}
	if !a.say(&apiv1.AgentCall{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{Agent: info, Nonce: name, BootId: "boot"}}}) {
		return nil
	}
	events, err := a.stream.Recv()
	if err != nil {
		return nil
	}
	a.session = events.GetSession()
	if !a.say(&apiv1.AgentCall{Call: &apiv1.AgentCall_Report{Report: &apiv1.AgentReport{Session: a.session, Last: true}}}) {
		return nil
	}
	return a
}

func (a *agent) say(calls ...*apiv1.AgentCall) bool {
	a.target.sent.Add(1)
	return a.stream.Send(&apiv1.AgentCalls{Calls: calls}) == nil
}

func pulse() *apiv1.AgentCall {
	return &apiv1.AgentCall{Call: &apiv1.AgentCall_Heartbeat{Heartbeat: &apiv1.AgentHeartbeat{}}}
}

// deafAgent sends heartbeats, each of which is answered, and reads nothing.
func deafAgent(ctx context.Context, target Target) {
	a := newAgent(ctx, target, "deaf", 1)
	if a == nil {
		return
	}
	beats := make([]*apiv1.AgentCall, 4000)
	for i := range beats {
		beats[i] = pulse()
	}
	for a.say(beats...) {
	}
}

// liar reports the ends of tasks that nobody has launched, of frameworks that do not exist.
func liar(ctx context.Context, target Target) {
	a := newAgent(ctx, target, "liar", 1)
	if a == nil {
		return
	}
	go func() {
		for {
			if _, err := a.stream.Recv(); err != nil {
				return
			}
		}
	}()
	lies := make([]*apiv1.AgentCall, 2000)
	for i := range lies {
		lies[i] = &apiv1.AgentCall{Call: &apiv1.AgentCall_Status{Status: &apiv1.Status{
			FrameworkId: "framework-99999", TaskId: fmt.Sprint("t", i), ExecutorId: "x", Number: 1,
			State: apiv1.TaskState_RUNNING, Data: []byte(strings.Repeat("x", 200)),
		}}}
	}
	for a.say(append(lies, pulse())...) {
	}
}

// poller reads everything that can be read, again and again.
func poller(ctx context.Context, target Target) {
	conn := target.connect(ctx)
	operator, raft := apiv1.NewOperatorServiceClient(conn), apiv1.NewRaftServiceClient(conn)
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for ctx.Err() == nil {
				target.sent.Add(4)
				_, err := operator.ListTasks(ctx, &apiv1.ListTasksRequest{})
				_, _ = operator.ListFrameworks(ctx, &apiv1.ListRequest{})
				_, _ = operator.GetCluster(ctx, &apiv1.GetClusterRequest{})
				_, _ = raft.StateHash(ctx, &apiv1.StateHashRequest{})
				if err != nil && !wait(ctx) {
					return
				}
			}
		})
	}
	pages := &http.Client{Transport: &http.Transport{DialContext: loopback.Dialer(target.from).DialContext}}
	defer pages.CloseIdleConnections()
	for target.HTTP != "" && ctx.Err() == nil {
		target.sent.Add(1)
		if !get(ctx, pages, "http://"+target.HTTP+"/metrics") && !wait(ctx) {
			break
		}
	}
	readers.Wait()
}

func get(ctx context.Context, from *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := from.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}
