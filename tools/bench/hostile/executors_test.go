package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	daemon "github.com/tenderhq/tender/agent"
	launcher "github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/fake"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
)

const (
	// tasksWanted is how many tasks of the honest framework must run beside the hostile executor.
	tasksWanted = 20
	// executorSentWanted is how many messages the hostile executor must have sent by then.
	executorSentWanted = 300
	ruleless           = "ruleless"
)

// TestHostileExecutorsEndNothing (R34): on the same agent an honest executor runs one task after the other. The agent
// keeps its session, and stays within its limits.
func TestHostileExecutorsEndNothing(t *testing.T) {
	m, ended := lead(t)
	ctx, cancel := context.WithCancel(t.Context())
	var sent atomic.Int64
	fakes := &fake.Launcher{Run: func(ctx context.Context, start launcher.Start) error {
		dial := func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", start.Socket)
		}
		if start.Run.Executor == ruleless {
			runExecutor(ctx, Socket{Dial: dial, Framework: string(start.Run.Framework), Executor: ruleless, Token: start.Token, sent: &sent})
			return nil
		}
		return executor.Serve(ctx, executor.Config{
			Socket: start.Socket, Framework: start.Run.Framework, ID: start.Run.Executor, Token: start.Token, Sandbox: start.Sandbox,
			RecoveryTimeout: start.RecoveryTimeout, Dialer: dial,
		}, executor.Functions(func(context.Context, *executor.Task) error { return nil }))
	}}
	a, err := daemon.New(daemon.Config{
		Masters: []string{m.GRPCAddr()}, DataDir: t.TempDir(), Hostname: "h1", Port: -1, Resources: api.Scalars(4, 4096),
		Programs: daemon.Programs{CommandExecutor: []string{"x"}}, RecoveryTimeout: -1, World: daemon.World{Launcher: fakes, BootID: "b1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	working, done := context.WithCancel(ctx)
	agentEnded := make(chan error, 1)
	go func() {
		defer done() // without an agent there are no tasks to wait for
		agentEnded <- a.Run(ctx)
	}()

	before := heap()
	storm, calm := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		over <- framework.Run(storm, framework.Config{Name: "owner", Masters: []string{m.GRPCAddr()}, TeardownAtEnd: true}, &owner{})
	}()
	honest := &worker{sent: &sent, done: done}
	if err := framework.Run(working, framework.Config{Name: "honest", Masters: []string{m.GRPCAddr()}}, honest); err != nil {
		t.Errorf("the honest framework ended with %v", err)
	}
	after := heap()
	t.Logf("%d tasks beside %d messages of a hostile executor; heap %d MB before and %d MB after them", honest.ran, sent.Load(), before>>20, after>>20)
	if after > before+heapGrowthMax {
		t.Errorf("the heap grew from %d MB to %d MB", before>>20, after>>20)
	}
	if len(honest.lost) > 0 {
		t.Errorf("tasks of the honest framework ended as %v", honest.lost)
	}
	calm()
	if err := <-over; err != nil {
		t.Errorf("the framework of the hostile executor ended with %v", err)
	}
	if err := fakes.KillEverything(context.Background()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := errors.Join(<-agentEnded, ended()); err != nil {
		t.Errorf("the agent or the master ended with %v", err)
	}
}

// owner starts the hostile executor and sends it messages that it does not read.
type owner struct{ client *framework.Client }

func (o *owner) Subscribed(_ context.Context, client *framework.Client) error {
	o.client = client
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(0.1, 32), Count: 1}}})
}

func (o *owner) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	self := &api.Executor{ID: ruleless, Command: api.Command{Argv: []string{"x"}}}
	return []api.Answer{api.Launch(offers[0], api.Task{ID: "flood", Resources: api.Scalars(0.1, 32), Executor: self})}
}

func (o *owner) Update(context.Context, api.Status) error { return nil }

func (o *owner) Message(_ context.Context, agent api.AgentID, _ api.ExecutorID, _ []byte) {
	_ = o.client.Message(agent, ruleless, make([]byte, 32<<10)) // it may be dropped
}

// worker runs one task after the other.
type worker struct {
	client *framework.Client
	sent   *atomic.Int64
	ran    int
	lost   []string
	done   context.CancelFunc
}

func (w *worker) Subscribed(_ context.Context, client *framework.Client) error {
	w.client = client
	return w.ask()
}

func (w *worker) ask() error {
	return w.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(1, 64), Count: 1}}})
}

func (w *worker) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	self := &api.Executor{ID: "good", Command: api.Command{Argv: []string{"x"}}}
	return []api.Answer{api.Launch(offers[0], api.Task{ID: api.TaskID(fmt.Sprint("t", w.ran)), Resources: api.Scalars(1, 64), Executor: self})}
}

func (w *worker) Update(_ context.Context, status api.Status) error {
	if !status.State.Terminal() {
		return nil
	}
	if w.ran++; status.State != api.TaskFinished {
		w.lost = append(w.lost, fmt.Sprint(status.State, " ", status.Reason, " ", status.Message))
	}
	if w.ran >= tasksWanted && w.sent.Load() >= executorSentWanted {
		w.done()
		return nil
	}
	return w.ask()
}
