package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func TestLives(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(func(ctx context.Context, task *Task) error {
			if task.Sandbox != "/sandbox/"+string(task.ID) || task.Agent != "agent-1" || task.Framework != "framework-1" {
				t.Errorf("task %+v", task)
			}
			switch task.ID {
			case "works":
				task.Progress([]byte("50%"), "half done")
				task.SetResult([]byte("42"))
				return nil
			case "fails":
				return errors.New("no such file")
			case "panics":
				panic("oh")
			case "boasts":
				task.SetResult(make([]byte, api.StatusDataBytesMax+1))
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		s := m.start().accept()
		if s.subscribe.Token != "secret" || s.subscribe.Executor != "x" || s.subscribe.Framework != "framework-1" {
			t.Errorf("subscribed with %+v", s.subscribe)
		}
		s.send(launch("works"))
		s.want("works", api.TaskRunning)
		if got := s.want("works", api.TaskRunning); string(got.Data) != "50%" || got.Message != "half done" {
			t.Errorf("progress %+v", got)
		}
		if got := s.want("works", api.TaskFinished); string(got.Data) != "42" || got.Number != 3 {
			t.Errorf("end %+v", got)
		}
		for id, message := range map[string]string{"fails": "no such file", "panics": "panicked: oh", "boasts": "at most 65536"} {
			s.send(launch(id))
			s.want(api.TaskID(id), api.TaskRunning)
			if got := s.want(api.TaskID(id), api.TaskFailed); !strings.Contains(got.Message, message) {
				t.Errorf("%s: %q", id, got.Message)
			}
		}
		s.send(launch("waits"), launch("waits"), launch("works")) // copies, also of what has ended
		s.want("waits", api.TaskRunning)
		s.send(protocol.ExecutorKill{Task: "waits"}, protocol.ExecutorKill{Task: "waits"}, protocol.ExecutorKill{Task: "unknown"})
		s.want("waits", api.TaskKilled)
		s.send(protocol.ExecutorShutdown{Grace: time.Second})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if len(s.calls) > 0 {
			t.Errorf("left over: %+v", <-s.calls)
		}
	})
}

// weak can't begin a task at the first try.
type weak struct{ tried int }

func (w *weak) Launch(task *Task) {
	if w.tried++; w.tried == 1 {
		_ = task.Report(Report{State: api.TaskFailed, Reason: api.ReasonAgentFailed, Message: "no control group"})
		return
	}
	_ = task.Report(Report{State: api.TaskRunning})
	_ = task.Report(Report{State: api.TaskFinished})
}

func (*weak) Kill(*Task, time.Duration) {}

// TestWhatCouldNotBeginIsLaunchedAgain: a task that its executor could not begin, by no fault of its own, is DROPPED, so
// its ID may be launched again, in the same executor (R9, R59). Of a task that has run a launch is ignored.
func TestWhatCouldNotBeginIsLaunchedAgain(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(&weak{})
		s := m.start().accept()
		for range 3 {
			s.send(launch("t1"))
		}
		s.want("t1", api.TaskFailed) // and the copies are ignored while its agent has not heard of that
		s.send(launch("t1"))
		s.want("t1", api.TaskRunning)
		s.want("t1", api.TaskFinished)
		s.send(launch("t1"), protocol.ExecutorShutdown{Grace: time.Second})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if len(s.calls) > 0 {
			t.Errorf("left over: %+v", <-s.calls)
		}
	})
}

func TestStatusesComeAgainAfterTheAgentsRestart(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		finish := make(chan struct{})
		r := m.run(Functions(func(_ context.Context, task *Task) error {
			if task.ID == "t1" {
				<-finish
			}
			return nil
		}))
		a := m.start()
		s := a.accept()
		s.send(launch("t1"), launch("t2"))
		for range 3 {
			s.status(false)
		}
		a.stop()
		close(finish)
		<-time.After(30 * time.Second)
		s = m.start().accept()
		if named := slices.Sorted(slices.Values(s.subscribe.Tasks)); !slices.Equal(named, []api.TaskID{"t1", "t2"}) {
			t.Errorf("names %v, want t1 and t2, whose ends are not acknowledged", named)
		}
		var last api.TaskID
		var told []string
		for _, status := range s.subscribe.Unacknowledged {
			if status.Task != last {
				last, told = status.Task, nil
			}
			told = append(told, fmt.Sprint(status.Number, status.State))
			if len(told) == 2 && (told[0] != "1 RUNNING" || told[1] != "2 FINISHED") {
				t.Errorf("%s: %v", last, told)
			}
			s.send(protocol.ExecutorAcknowledged{Task: status.Task, Number: status.Number})
		}
		if n := len(s.subscribe.Unacknowledged); n != 4 {
			t.Errorf("%d statuses, want 4", n)
		}
		s.end <- errors.New("again")
		s = m.on.accept()
		if len(s.subscribe.Unacknowledged) != 0 {
			t.Errorf("acknowledged ones come again: %+v", s.subscribe.Unacknowledged)
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestManyUnacknowledgedStatusesFit(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(func(_ context.Context, task *Task) error {
			task.SetResult(make([]byte, 32<<10))
			return nil
		}))
		a := m.start()
		s := a.accept()
		for i := range 100 {
			s.send(launch(fmt.Sprint("t", i)))
		}
		for range 200 {
			s.status(false)
		}
		s.end <- errors.New("again")
		s = a.accept() // gRPC would refuse more than 4 MiB
		seen := len(s.subscribe.Unacknowledged)
		for ; seen < 200; seen++ {
			s.status(true)
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestTheAgentStaysAway(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		killed := make(chan time.Time, 1)
		r := m.run(Functions(func(ctx context.Context, _ *Task) error {
			<-ctx.Done()
			killed <- time.Now()
			return nil
		}))
		a := m.start()
		s := a.accept()
		s.send(launch("t1"))
		s.want("t1", api.TaskRunning)
		gone := time.Now()
		a.stop()
		if away := next(t, killed).Sub(gone); away < time.Minute || away > time.Minute+2*time.Second {
			t.Errorf("killed after %v, want the agent's minute", away)
		}
		if err := r.wait(); !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "away for 1m") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRefusedByTheAgent(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(func(context.Context, *Task) error { return nil }))
		next(t, m.start().sessions).end <- wire.Status(api.E("executor.subscribe", api.Denied, "x", errors.New("the token is wrong")))
		if err := r.wait(); !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "the token is wrong") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestContextEndsTasksAndTellsTheAgent(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(func(ctx context.Context, _ *Task) error {
			<-ctx.Done()
			<-time.After(3 * time.Second)
			return nil
		}))
		s := m.start().accept()
		s.send(launch("t1"))
		s.want("t1", api.TaskRunning)
		r.stop()
		s.want("t1", api.TaskKilled)
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestTaskThatDoesNotHeedItsContext(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		free := make(chan struct{})
		defer close(free)
		r := m.run(Functions(func(context.Context, *Task) error { <-free; return nil }))
		s := m.start().accept()
		s.send(launch("stuck"))
		s.want("stuck", api.TaskRunning)
		s.send(protocol.ExecutorShutdown{Grace: 2 * time.Second})
		if err := r.wait(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("Run returned %v", err)
		}
	})
}

// keeper keeps state between tasks and hears messages.
type keeper struct {
	tasks    map[api.TaskID]*Task
	messages chan string
}

func (k *keeper) Launch(task *Task) {
	k.tasks[task.ID] = task
	_ = task.Report(Report{State: api.TaskRunning})
}

func (k *keeper) Kill(task *Task, _ time.Duration) {
	_ = task.Report(Report{State: api.TaskKilled})
}

func (k *keeper) Message(data []byte) {
	k.messages <- string(data)
	for _, task := range k.tasks {
		_ = task.Report(Report{State: api.TaskFinished, Data: data})
		if err := task.Report(Report{State: api.TaskRunning}); err == nil {
			panic("a task ran on after its end")
		}
	}
}

func TestHandlerKeepsState(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		k := &keeper{tasks: map[api.TaskID]*Task{}, messages: make(chan string, 1)}
		r := m.run(k)
		s := m.start().accept()
		s.send(launch("t1"), protocol.ExecutorMessage{Data: []byte("done")})
		s.want("t1", api.TaskRunning)
		if got := next(t, k.messages); got != "done" {
			t.Errorf("heard %q", got)
		}
		s.want("t1", api.TaskFinished)
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// together is an executor whose tasks end together.
type together struct {
	keeper
	ended chan time.Duration
}

func (g *together) End(grace time.Duration) {
	g.ended <- grace
	for _, task := range g.tasks {
		_ = task.Report(Report{State: api.TaskFinished})
	}
}

// TestHandlerEndsTasksTogether: an Ender is told of the end once, in place of a kill of each task, also when it has none.
func TestHandlerEndsTasksTogether(t *testing.T) {
	for _, tasks := range []int{0, 2} {
		story(t, func(t *testing.T, m *machine) {
			g := &together{keeper{tasks: map[api.TaskID]*Task{}}, make(chan time.Duration, 8)}
			r := m.run(g)
			s := m.start().accept()
			for i := range tasks {
				s.send(launch(fmt.Sprint(i)))
				s.want(api.TaskID(fmt.Sprint(i)), api.TaskRunning)
			}
			s.send(protocol.ExecutorShutdown{Grace: 7 * time.Second})
			if grace := next(t, g.ended); grace != 7*time.Second {
				t.Errorf("grace %v", grace)
			}
			for range tasks {
				if status := s.status(true); status.State != api.TaskFinished {
					t.Errorf("%s is %v", status.Task, status.State)
				}
			}
			if err := r.wait(); err != nil {
				t.Errorf("Run returned %v", err)
			}
			if len(g.ended) > 0 {
				t.Error("it was told twice")
			}
		})
	}
}

func TestProgressIsBounded(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(func(_ context.Context, task *Task) error {
			for range 10 * unacknowledgedPerTaskMax {
				task.Progress(nil, "on my way")
			}
			return nil
		}))
		s := m.start().accept()
		s.send(launch("t1"))
		for i := 1; ; i++ {
			if got := s.status(false); got.State == api.TaskFinished {
				if i != unacknowledgedPerTaskMax+1 {
					t.Errorf("%d statuses, want %d and the end", i, unacknowledgedPerTaskMax)
				}
				break
			}
		}
		s.send(protocol.ExecutorAcknowledged{Task: "t1", Number: unacknowledgedPerTaskMax + 1})
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestReportsWaitForTheAgent: a task that flushes its reports waits while the agent takes no more, and continues when
// it does. A task that does not flush gets an error for a report that will not be sent.
func TestReportsWaitForTheAgent(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		part := make([]byte, 64<<10)
		r := m.run(Functions(func(ctx context.Context, task *Task) error {
			for range 4 {
				if err := task.Report(Report{State: api.TaskRunning, Data: part}); err != nil {
					return err
				}
			}
			if err := task.Report(Report{State: api.TaskRunning}); !api.Is(err, api.Limit) {
				return fmt.Errorf("the fifth report was taken: %w", err)
			}
			given, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			if err := task.Flush(given); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("nothing was taken, and Flush says %w", err)
			}
			if err := task.Message([]byte("it has waited")); err != nil {
				return err
			}
			if err := task.Flush(ctx); err != nil {
				return err
			}
			return task.Report(Report{State: api.TaskRunning, Message: "the fifth"})
		}))
		s := m.start().accept()
		s.send(launch("t1"))
		for range 5 {
			s.status(false) // the first tells that the task runs
		}
		if said, is := next(t, s.calls).(protocol.ExecutorMessage); !is || string(said.Data) != "it has waited" {
			t.Fatalf("heard %+v", said)
		}
		s.send(protocol.ExecutorAcknowledged{Task: "t1", Number: 5})
		if last := s.want("t1", api.TaskRunning); last.Message != "the fifth" {
			t.Errorf("heard %+v", last)
		}
		s.want("t1", api.TaskFinished)
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestEnvironment(t *testing.T) {
	if Active() {
		t.Fatal("tests are no executor")
	}
	if _, err := Environment(); err == nil || !strings.Contains(err.Error(), "not by hand") {
		t.Errorf("without an agent: %v", err)
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv(protocol.ExecutorSocketEnv, "/run/agent.sock")
	t.Setenv(protocol.ExecutorFrameworkIDEnv, "framework-1")
	t.Setenv(protocol.ExecutorIDEnv, "x")
	t.Setenv(protocol.ExecutorRecoveryTimeoutEnv, "2m0s")
	t.Setenv(protocol.ExecutorTokenFDEnv, "bad")
	if _, err := Environment(); err == nil || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("a bad descriptor: %v", err)
	}
	copied := duplicate(t, file)
	t.Setenv(protocol.ExecutorTokenFDEnv, fmt.Sprint(copied))
	config, err := Environment()
	if err != nil || config.Token != "secret" || config.RecoveryTimeout != 2*time.Minute || config.Framework != "framework-1" {
		t.Errorf("%+v, %v", config, err)
	}
	if !Active() {
		t.Error("not active")
	}
}

func TestSelf(t *testing.T) {
	self, err := Self("x", "worker")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(self.Command.Argv[0]); err != nil || info.Mode()&0o111 == 0 || self.Command.Argv[1] != "worker" {
		t.Errorf("%+v: %v", self, err)
	}
	if _, err := Self("a/b"); !api.Is(err, api.Invalid) {
		t.Errorf("a bad ID: %v", err)
	}
}

// TestMessages: messages are sent while there is a session, as many as fit.
func TestMessages(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		k := &keeper{tasks: map[api.TaskID]*Task{}, messages: make(chan string, 1)}
		r := m.run(k)
		agent := m.start()
		s := agent.accept()
		s.send(launch("t1"))
		s.want("t1", api.TaskRunning)
		task := k.tasks["t1"]
		if err := task.Message([]byte("half done")); err != nil {
			t.Fatal(err)
		}
		if got, ok := next(t, s.calls).(protocol.ExecutorMessage); !ok || string(got.Data) != "half done" {
			t.Errorf("heard %+v", got)
		}
		if err := task.Message(make([]byte, api.TaskBytesMax+1)); !api.Is(err, api.Limit) {
			t.Errorf("too long: %v", err)
		}
		agent.stop()
		synctest.Wait()
		if err := task.Message([]byte("lost")); !api.Is(err, api.Unavailable) {
			t.Errorf("without an agent: %v", err)
		}
		s = m.start().accept()
		synctest.Wait()
		if err := task.Message([]byte("again")); err != nil {
			t.Fatal(err)
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// TestSilentAgentIsLeft: the executor leaves an agent that accepts the stream and says nothing, and tries again. It
// does not leave an agent that is only slow.
func TestSilentAgentIsLeft(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		agent := m.start()
		r := m.run(Functions(func(context.Context, *Task) error { return nil }))
		next(t, agent.sessions) // which nobody answers
		second := next(t, agent.sessions)
		<-time.After(20 * time.Second)
		second.send(protocol.ExecutorSubscribed{Agent: "agent-1", RecoveryTimeout: time.Minute})
		<-time.After(time.Hour)
		second.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// TestManyTasksArePages: what the executor sends at the begin of a session is cut into pages, however much it is.
func TestManyTasksArePages(t *testing.T) {
	l := newLedger()
	const tasks = 10_000
	for i := range tasks {
		id := api.TaskID(fmt.Sprintf("%0200d", i))
		l.addTask(&Task{Task: api.Task{ID: id}})
		if err := l.addReport(id, Report{State: api.TaskFinished, Data: make([]byte, 100)}); err != nil && i%2 == 0 {
			t.Fatal(err)
		}
	}
	l.beginSession(protocol.SubscribeExecutor{ExecutorRef: api.ExecutorRef{Framework: "f", Executor: "x"}, Token: "secret"})
	named, statuses, last := 0, 0, false
	batches, err := wire.ExecutorCallBatches(l.takeCalls())
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range batches {
		calls, err := wire.ExecutorCallsAfter(0, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if page, is := call.(protocol.SubscribeExecutor); is {
				if last || page.Token != "secret" || page.More && len(page.Unacknowledged) > 0 {
					t.Fatalf("a page after the last one, or a wrong one: %d tasks, %+v", len(page.Tasks), page.More)
				}
				named, statuses, last = named+len(page.Tasks), statuses+len(page.Unacknowledged), !page.More
				continue
			}
			statuses++
		}
	}
	if !last || named != tasks || statuses != tasks {
		t.Errorf("%d tasks and %d statuses were told, last page %v", named, statuses, last)
	}
}

// TestMessagesAreBounded: for an agent that does not read, only a bounded number of messages is kept.
func TestMessagesAreBounded(t *testing.T) {
	l := newLedger()
	l.beginSession(protocol.SubscribeExecutor{})
	for sent := 0; sent < messagesBytesMax; sent += api.TaskBytesMax {
		if err := l.queueMessage(make([]byte, api.TaskBytesMax)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.queueMessage([]byte{1}); !errors.Is(err, errFull) {
		t.Errorf("one too many: %v", err)
	}
	l.takeCalls()
	if err := l.queueMessage([]byte{1}); err != nil {
		t.Errorf("when the agent has read: %v", err)
	}
}
