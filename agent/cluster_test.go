package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	launcher "github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/fake"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/wire"
)

// memory is the world of an agent without a real disk, processes or clock.
type memory struct {
	t      *testing.T
	net    *memnet.Net
	master *script
	store  *checkpoint.Memory
	fakes  *fake.Launcher
	log    zerolog.Logger // of agents
	// work is what tasks do.
	work func(ctx context.Context, task *executor.Task) error
}

func newMemory(t *testing.T) *memory {
	m := &memory{t: t, net: memnet.New(), store: checkpoint.NewMemory()}
	listener, err := m.net.Listen("master:5060")
	if err != nil {
		t.Fatal(err)
	}
	m.master = serveScript(t, listener, 5*time.Second)
	m.fakes = &fake.Launcher{Run: m.execute}
	t.Cleanup(func() {
		if err := m.fakes.KillEverything(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// execute is the program of an executor, made with the executor SDK.
func (m *memory) execute(ctx context.Context, start launcher.Start) error {
	return executor.Serve(ctx, executor.Config{
		Socket: start.Socket, Framework: start.Run.Framework, ID: start.Run.Executor, Token: start.Token, Sandbox: start.Sandbox,
		RecoveryTimeout: start.RecoveryTimeout,
		Dialer:          func(ctx context.Context) (net.Conn, error) { return m.net.From("executor").Dial(ctx, start.Socket) },
	}, executor.Functions(m.work))
}

// run runs an agent on this network, store and processes.
func (m *memory) run() *running {
	sockets, err := m.net.Listen("agent:1")
	if err != nil {
		m.t.Fatal(err)
	}
	config := Config{
		Masters: []string{"master:5060"}, Hostname: "h1", Port: -1, Resources: api.Scalars(4, 4096), Programs: Programs{CommandExecutor: []string{"x"}},
		Logger: m.log,
		World:  World{Dial: m.net.From("agent").Dial, ExecutorListener: sockets, Launcher: m.fakes, Store: m.store, BootID: "b1"},
	}
	return run(m.t, config)
}

func own(id api.TaskID) api.Task {
	return api.Task{ID: id, Resources: api.Scalars(0.1, 32), Executor: &api.Executor{ID: "x", Command: api.Command{Argv: []string{"x"}}}}
}

// A whole agent in a synctest bubble: tasks run, fail and are killed. The agent goes and comes back, and they run on.
// Only virtual time passes.
func TestAgentInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.work = func(ctx context.Context, task *executor.Task) error {
			switch task.ID {
			case "fails":
				return errors.New("no luck")
			case "waits":
				select {
				case <-time.After(2 * time.Minute):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		first := m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		m.master.launch(own("fine"))
		m.master.launch(own("fails"))
		m.master.launch(own("waits"))
		m.master.status("fine", api.TaskFinished)
		if status := m.master.status("fails", api.TaskFailed); status.Message != "no luck" {
			t.Errorf("%+v", status)
		}
		m.master.status("waits", api.TaskRunning)
		synctest.Wait() // until all that was told is acknowledged
		first.end()
		m.master.forget()
		<-time.After(time.Minute)

		m.run()
		report := await(m.master, "report", func(c protocol.AgentReport) bool { return c.Last })
		if len(report.Tasks) != 1 || report.Tasks[0].Ended || len(report.Stubs) != 2 {
			t.Errorf("the report is %+v", report)
		}
		m.master.status("waits", api.TaskFinished)

		m.master.launch(own("waits"))
		await(m.master, "refusal", func(c protocol.StatusUpdate) bool { return c.Status.Reason == api.ReasonTaskDuplicate })
	})
}

// A machine that is back before its leader has noticed its absence is refused as a clone of itself. It tries again for
// one session timeout. A real clone ends after that with an error that says so (R7).
func TestBackBeforeItWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.master.refuse = api.E("agent.register", api.Exists, "agent-1", errors.New("the agent with this ID is alive on h1: a cloned data folder?"))
		m.master.until = time.Now().Add(4 * time.Second)
		m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
	})
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.master.refuse = api.E("agent.register", api.Exists, "agent-1", errors.New("a cloned data folder?"))
		began := time.Now()
		a := m.run()
		var err error
		a.once.Do(func() { err = <-a.done })
		if took := time.Since(began); !api.Is(err, api.Exists) || took < 5*time.Second || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestAnotherClusterTakesThePlace: an agent that had a session goes on for a while where a master of another cluster has the
// place of its own, as where nobody is. Where that stays so it ends, and says of both clusters and of what to do.
func TestAnotherClusterTakesThePlace(t *testing.T) {
	refused := api.E("agent.register", api.Denied, "agent-1", protocol.BelongsElsewhere("c2", "agent", "c1", "a wrong master address or data folder"))
	joined := func(t *testing.T) (*memory, *running) {
		m := newMemory(t)
		a := m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		m.master.refuse = refused
		return m, a
	}
	synctest.Test(t, func(t *testing.T) {
		m, _ := joined(t)
		m.master.until = time.Now().Add(8 * time.Second)
		m.master.drop()
		await(m.master, "reregistration", func(protocol.ReregisterAgent) bool { return true })
	})
	synctest.Test(t, func(t *testing.T) {
		m, a := joined(t)
		began := time.Now()
		m.master.drop()
		var err error
		a.once.Do(func() { err = <-a.done })
		says := "this is cluster c2, the agent belongs to c1: a wrong master address or data folder; if its own cluster has ended: "
		if took := time.Since(began); !api.Is(err, api.Denied) || took < 10*time.Second || took > 15*time.Second ||
			!strings.Contains(err.Error(), says) || !strings.HasSuffix(err.Error(), "start it with another --data-dir, or remove that folder first") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The network is silent: the agent leaves the session, and registers again when the network works.
func TestSilenceEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		m.net.Cut("agent", "master")
		<-time.After(time.Minute)
		m.master.forget()
		m.net.Heal("agent", "master")
		await(m.master, "reregistration", func(protocol.ReregisterAgent) bool { return true })
	})
}

// An agent that was marked gone kills everything and begins anew with another nonce (R16).
func TestGoneAgentBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		killed := make(chan struct{})
		m.work = func(ctx context.Context, _ *executor.Task) error {
			<-ctx.Done()
			close(killed)
			return ctx.Err()
		}
		m.run()
		first := await(m.master, "registration", func(protocol.RegisterAgent) bool { return true })
		m.master.launch(own("t1"))
		m.master.status("t1", api.TaskRunning)
		m.master.forget()
		m.master.say(protocol.AgentGone{Why: "test"})
		<-killed
		second := await(m.master, "registration", func(protocol.RegisterAgent) bool { return true })
		if second.Nonce == first.Nonce || second.Agent.ID != "" {
			t.Errorf("the new agent said %+v", second)
		}
	})
}

// An executor with so many tasks that their names fill more than one message survives a restart of its agent, with all
// its tasks (promise 6).
func TestManyNamesOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		over := make(chan struct{})
		m.work = func(ctx context.Context, _ *executor.Task) error {
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first := m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		const tasks = 5000 // with names of 240 letters
		id := func(i int) api.TaskID { return api.TaskID(fmt.Sprintf("task-%0235d", i)) }
		for i := range tasks {
			m.master.launch(own(id(i)))
		}
		m.master.count(tasks, api.TaskRunning)
		synctest.Wait() // until all that was told is acknowledged
		first.end()
		m.master.forget()
		<-time.After(time.Minute)

		m.run()
		await(m.master, "report", func(c protocol.AgentReport) bool { return c.Last })
		<-time.After(2 * time.Minute) // an executor that does not come back is killed after one minute
		close(over)
		m.master.count(tasks, api.TaskFinished)
	})
}

// A stream on which nobody subscribes is ended, by either side. So is a stream with wrong pages.
func TestExecutorsSubscribeFirst(t *testing.T) {
	page := func(id, token string, tasks int, more bool) *apiv1.ExecutorCalls {
		subscribe := &apiv1.SubscribeExecutor{FrameworkId: "f1", ExecutorId: id, Token: token, More: more}
		for i := range tasks {
			subscribe.Tasks = append(subscribe.Tasks, fmt.Sprint("t", i))
		}
		return &apiv1.ExecutorCalls{Calls: []*apiv1.ExecutorCall{{Call: &apiv1.ExecutorCall_Subscribe{Subscribe: subscribe}}}}
	}
	withStatus := func(calls *apiv1.ExecutorCalls) *apiv1.ExecutorCalls {
		calls.GetCalls()[0].GetSubscribe().Unacknowledged = []*apiv1.ExecutorStatus{{TaskId: "t1", Number: 1, State: apiv1.TaskState(api.TaskRunning)}}
		return calls
	}
	for name, story := range map[string]struct {
		says func(token string) []*apiv1.ExecutorCalls
		kind api.Kind
	}{
		"silence":              {func(string) []*apiv1.ExecutorCalls { return nil }, api.Unavailable},
		"a page, then silence": {func(token string) []*apiv1.ExecutorCalls { return []*apiv1.ExecutorCalls{page("x", token, 1, true)} }, api.Unavailable},
		"another executor's page": {func(token string) []*apiv1.ExecutorCalls {
			return []*apiv1.ExecutorCalls{page("x", token, 1, true), page("y", token, 1, false)}
		}, api.Invalid},
		"statuses in the middle": {func(token string) []*apiv1.ExecutorCalls {
			return []*apiv1.ExecutorCalls{withStatus(page("x", token, 1, true))}
		}, api.Invalid},
		"too many tasks": {func(token string) []*apiv1.ExecutorCalls {
			return slices.Repeat([]*apiv1.ExecutorCalls{page("x", token, 20_000, true)}, 11)
		}, api.Limit},
		"too many pages": {func(token string) []*apiv1.ExecutorCalls {
			return slices.Repeat([]*apiv1.ExecutorCalls{page("x", token, 0, true)}, 1025)
		}, api.Limit},
		"nobody's executor": {func(token string) []*apiv1.ExecutorCalls { return []*apiv1.ExecutorCalls{page("y", token, 1, true)} }, api.NotFound},
		"a guessed token":   {func(string) []*apiv1.ExecutorCalls { return []*apiv1.ExecutorCalls{page("x", "guessed", 1, true)} }, api.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, tokens := newMemory(t), make(chan string, 1)
				m.fakes.Run = func(ctx context.Context, start launcher.Start) error { // it does not subscribe
					tokens <- start.Token
					<-ctx.Done()
					return ctx.Err()
				}
				m.run()
				await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
				m.master.launch(own("t1"))
				token := <-tokens
				stream, err := client(t, m).Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, calls := range story.says(token) {
					_ = stream.Send(calls) // the end of the stream has the error
				}
				if _, err = stream.Recv(); api.KindOf(wire.Error(err)) != story.kind {
					t.Errorf("%v", wire.Error(err))
				}
			})
		})
	}
}

// Each of thousands of tasks reaches its end once, with its statuses in order.
func TestManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.work = func(context.Context, *executor.Task) error { return nil }
		m.run()
		await(m.master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		const tasks = 2000
		for i := range tasks {
			m.master.launch(own(api.TaskID(fmt.Sprint("t", i))))
		}
		for i := range tasks {
			m.master.status(api.TaskID(fmt.Sprint("t", i)), api.TaskFinished)
		}
		numbers := map[api.TaskID]uint64{}
		for _, call := range m.master.all() {
			if update, is := call.(protocol.StatusUpdate); is {
				if update.Status.Number != numbers[update.Status.Task]+1 {
					t.Fatalf("%s: number %d after %d", update.Status.Task, update.Status.Number, numbers[update.Status.Task])
				}
				numbers[update.Status.Task]++
			}
		}
	})
}
