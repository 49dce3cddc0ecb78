package hostile

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
)

// Socket describes the socket of an agent's executors, and one executor that the agent has started.
type Socket struct {
	Dial      func(ctx context.Context) (net.Conn, error)
	Framework string
	Executor  string
	Token     string
	sent      *atomic.Int64
}

// RunExecutor is the worst possible executor, until ctx ends: it reads nothing and sends as much as it can, while
// strangers open streams at its agent and guess tokens. It returns how many messages were made.
func RunExecutor(ctx context.Context, socket Socket) int64 {
	socket.sent = new(atomic.Int64)
	runExecutor(ctx, socket)
	return socket.sent.Load()
}

func runExecutor(ctx context.Context, socket Socket) {
	var all sync.WaitGroup
	for _, run := range []func(context.Context, Socket){deafExecutor, guesser, muteExecutors} {
		all.Go(func() {
			for ctx.Err() == nil {
				life, end := context.WithCancel(ctx)
				run(life, socket)
				end()
				pause.For(ctx, comeBackAfter)
			}
		})
	}
	all.Wait()
}

// session opens a stream on a connection of its own; it returns nil if that fails.
func (s Socket) session(ctx context.Context) grpc.BidiStreamingClient[apiv1.ExecutorCalls, apiv1.ExecutorEvents] {
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.Dial(ctx) }))
	if err != nil {
		panic(fmt.Sprintf("an address of our own is wrong: %v", err))
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	stream, err := apiv1.NewExecutorServiceClient(conn).Session(ctx)
	if err != nil {
		return nil
	}
	return stream
}

func (s Socket) subscribe(token string, tasks int, more bool) *apiv1.ExecutorCalls {
	page := &apiv1.SubscribeExecutor{FrameworkId: s.Framework, ExecutorId: s.Executor, Token: token, More: more}
	for i := range tasks {
		page.Tasks = append(page.Tasks, fmt.Sprint("t", i))
	}
	return &apiv1.ExecutorCalls{Calls: []*apiv1.ExecutorCall{{Call: &apiv1.ExecutorCall_Subscribe{Subscribe: page}}}}
}

// deafExecutor subscribes, reads nothing, and sends messages and statuses of tasks that it never had.
func deafExecutor(ctx context.Context, socket Socket) {
	stream := socket.session(ctx)
	if stream == nil || stream.Send(socket.subscribe(socket.Token, 0, false)) != nil {
		return
	}
	calls := new(apiv1.ExecutorCalls)
	for i := range 1000 {
		calls.Calls = append(calls.Calls,
			&apiv1.ExecutorCall{Call: &apiv1.ExecutorCall_Status{Status: &apiv1.ExecutorStatus{
				TaskId: fmt.Sprint("nobody-", i), Number: 1, State: apiv1.TaskState_RUNNING, Data: make([]byte, 100)}}},
			&apiv1.ExecutorCall{Call: &apiv1.ExecutorCall_Heartbeat{Heartbeat: &apiv1.ExecutorHeartbeat{}}})
	}
	large := &apiv1.ExecutorCalls{Calls: []*apiv1.ExecutorCall{{Call: &apiv1.ExecutorCall_Message{Message: &apiv1.ExecutorMessage{Data: make([]byte, 64<<10)}}}}}
	for stream.Send(calls) == nil && stream.Send(large) == nil {
		socket.sent.Add(2)
	}
}

// guesser has no token, and names as many tasks as it can before it is refused.
func guesser(ctx context.Context, socket Socket) {
	page := socket.subscribe("guessed", 10_000, true)
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		for stream := socket.session(life); stream != nil && stream.Send(page) == nil; {
			socket.sent.Add(1)
		}
		end()
	}
}

// muteExecutors open streams and send nothing.
func muteExecutors(ctx context.Context, socket Socket) {
	for range 400 {
		if socket.session(ctx) == nil {
			break
		}
		socket.sent.Add(1)
	}
	wait(ctx)
}
