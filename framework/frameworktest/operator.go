package frameworktest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
)

// operatorHost is the host of the story itself.
const operatorHost = "operator"

// operator asks masters as people do.
type operator struct {
	handle *Handle
	conns  map[string]*grpc.ClientConn
}

func newOperator(h *Handle) *operator { return &operator{h, make(map[string]*grpc.ClientConn)} }

// askTimeout bounds one question, because a master that was cut off does not answer.
const askTimeout = 2 * time.Second

func (o *operator) conn(address string) *grpc.ClientConn {
	if c := o.conns[address]; c != nil {
		return c
	}
	c, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return o.handle.network.dial(ctx, operatorHost, to)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			// Without a pause, attempts to reach a dead master would never let the clock go on.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
			MinConnectTimeout: askTimeout,
		}))
	if err != nil {
		o.handle.t.Fatal(err)
	}
	o.conns[address] = c
	return c
}

// renew closes a connection, so that the next question does not wait for a master that was restarted.
func (o *operator) renew(address string) {
	if c := o.conns[address]; c != nil {
		_ = c.Close()
		delete(o.conns, address)
	}
}

func (o *operator) close() {
	for address := range o.conns { // order: irrelevant because each is closed by itself
		o.renew(address)
	}
}

// cluster asks one master who leads, as far as it knows.
func (o *operator) cluster(address string) (*apiv1.ClusterView, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return apiv1.NewOperatorServiceClient(o.conn(address)).GetCluster(ctx, &apiv1.GetClusterRequest{})
}

// leader returns the leader's service, if there is a leader that answers.
func (o *operator) leader() (apiv1.OperatorServiceClient, bool) {
	if m := o.handle.findLeader(); m != nil {
		return apiv1.NewOperatorServiceClient(o.conn(m.grpcAddress())), true
	}
	return nil, false
}

// Operator returns the operator's service at the present leader; nil if nobody leads.
func (h *Handle) Operator() apiv1.OperatorServiceClient {
	c, _ := h.operator.leader()
	return c
}

// Dial connects to a master, at [Master.HTTPAddress] or one of [Handle.MasterAddresses], from the host of the story
// itself. It is for tools that people run beside a framework.
func (h *Handle) Dial(ctx context.Context, address string) (net.Conn, error) {
	return h.network.dial(ctx, operatorHost, address)
}

func (o *operator) agents() ([]*apiv1.AgentView, error) {
	return ask(o, apiv1.OperatorServiceClient.ListAgents, &apiv1.ListRequest{})
}

func (o *operator) tasks() ([]*apiv1.TaskView, error) {
	return ask(o, apiv1.OperatorServiceClient.ListTasks, &apiv1.ListTasksRequest{})
}

func (o *operator) frameworks() ([]*apiv1.FrameworkView, error) {
	return ask(o, apiv1.OperatorServiceClient.ListFrameworks, &apiv1.ListRequest{})
}

// call is a call of the operator's service.
type call[Request, Response any] = func(apiv1.OperatorServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)

// act does something at the leader, once. If there is no leader, it waits for one.
func act[Request, Response any](o *operator, what string, do call[Request, Response], request Request) Response {
	o.handle.t.Helper()
	response, err := try(o, do, request)
	if err != nil {
		o.handle.t.Fatalf("%s: %v", what, err)
	}
	return response
}

// try is act that may be refused.
func try[Request, Response any](o *operator, do call[Request, Response], request Request) (Response, error) {
	leader := o.handle.Leader()
	ctx, cancel := context.WithTimeout(context.Background(), awaitMax)
	defer cancel()
	return do(apiv1.NewOperatorServiceClient(o.conn(leader.grpcAddress())), ctx, request)
}

// ask asks the leader for all pages of a list.
func ask[Request client.ForPage, Item any, Response client.Page[Item]](o *operator, list call[Request, Response], request Request) ([]Item, error) {
	c, ok := o.leader()
	if !ok {
		return nil, fmt.Errorf("no master leads")
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	items, _, err := client.All(ctx, func(ctx context.Context, r Request, options ...grpc.CallOption) (Response, error) {
		return list(c, ctx, r, options...)
	}, 0, request)
	return items, err
}

// describe writes what the leader sees.
func (o *operator) describe(out io.Writer) {
	agents, err := o.agents()
	if err != nil {
		_, _ = fmt.Fprintf(out, "the leader can't be asked: %v\n", err)
		return
	}
	for _, a := range agents {
		_, _ = fmt.Fprintf(out, "agent %s on %s: %s since %v, %s; total %v allocated %v offered %v; uses %v\n",
			a.GetId(), a.GetHostname(), a.GetState(), a.GetSince().AsTime().Format(clockFormat), a.GetWhy(),
			a.GetTotal().AsMap(), a.GetAllocated().AsMap(), a.GetOffered().AsMap(), a.GetUsage())
	}
	frameworks, _ := o.frameworks()
	for _, f := range frameworks {
		_, _ = fmt.Fprintf(out, "framework %s %q: %s since %v, %s; %d tasks, %d offers\n",
			f.GetId(), f.GetName(), f.GetState(), f.GetSince().AsTime().Format(clockFormat), f.GetWhy(), f.GetTasks(), f.GetOffers())
	}
	tasks, _ := o.tasks()
	const shown = 40
	for i, t := range tasks {
		if i == shown {
			_, _ = fmt.Fprintf(out, "and %d more tasks\n", len(tasks)-shown)
			break
		}
		_, _ = fmt.Fprintf(out, "task %s/%s: %s %s on %s\n", t.GetFrameworkId(), t.GetId(), t.GetState(), t.GetReason(), t.GetAgentId())
	}
}

// AwaitAgents waits until at least n agents are RUNNING or BUSY.
func (h *Handle) AwaitAgents(n int) {
	h.t.Helper()
	h.Await(words.Count(n, "agent")+" to be there", func() bool { return h.countAgents("RUNNING", "BUSY") >= n })
}

func (h *Handle) countAgents(states ...string) int {
	agents, err := h.operator.agents()
	if err != nil {
		return 0
	}
	n := 0
	for _, a := range agents {
		if slices.Contains(states, a.GetState()) {
			n++
		}
	}
	return n
}

// AwaitRunning waits until the leader knows at least n running tasks.
func (h *Handle) AwaitRunning(n int) {
	h.t.Helper()
	h.Await(words.Count(n, "task")+" to run", func() bool {
		tasks, err := h.operator.tasks()
		running := 0
		for _, t := range tasks {
			if t.GetState() == api.TaskRunning.String() {
				running++
			}
		}
		return err == nil && running >= n
	})
}

// AwaitQuiet waits until the leader knows no task that has not ended.
func (h *Handle) AwaitQuiet() {
	h.t.Helper()
	h.Await("all tasks to end", func() bool {
		tasks, err := h.operator.tasks()
		return err == nil && len(tasks) == 0
	})
}

// AwaitSettled waits until every task that was launched has ended: for its scheduler, for the leader and on the
// machines. Then it checks the promises against how they ended. Schedulers that have ended need not have been told.
func (h *Handle) AwaitSettled() {
	h.t.Helper()
	h.Await("every task to be settled", func() bool { return len(h.journal.unsettledTasks()) == 0 })
	h.AwaitQuiet()
	h.journal.settlePromises()
}

// KillTask kills a task as an operator does. task is FRAMEWORK/TASK, TASK or a unique prefix. While agents may still report
// another task that is meant, it waits for them, as people are told to.
func (h *Handle) KillTask(task string) {
	h.t.Helper()
	var killed *apiv1.KillTaskResponse
	h.Await("the leader to know which task is "+task, func() bool {
		var err error
		killed, err = try(h.operator, apiv1.OperatorServiceClient.KillTask, &apiv1.KillTaskRequest{Task: task})
		if err != nil && status.Code(err) != codes.Unavailable {
			h.t.Fatalf("killing %s: %v", task, err)
		}
		return err == nil
	})
	h.journal.excuseEnd(api.TaskRef{Framework: api.FrameworkID(killed.GetFrameworkId()), Task: api.TaskID(killed.GetTaskId())}, "an operator killed it")
}
