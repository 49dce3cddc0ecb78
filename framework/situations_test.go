package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// The tests in this file are the bad hours of a framework's author, one each, with what the SDK says then. Each of them
// runs a whole cluster in virtual time.

// actor is a scheduler that launches one task, and whose callbacks do what the test says.
type actor struct {
	task   string // the command of the one task; "" = it launches nothing
	offers func(ctx context.Context)
	update func(ctx context.Context, status api.Status) error

	mu     sync.Mutex
	tries  int
	client *framework.Client
	told   []api.Status
}

func (a *actor) Subscribed(_ context.Context, client *framework.Client) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = client
	return nil
}

func (a *actor) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	if a.offers != nil {
		a.offers(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.task == "" || a.tries > 0 {
		return nil
	}
	a.tries++
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "task", Resources: api.Scalars(1, 128), Command: &api.Command{Shell: a.task},
	})}
}

func (a *actor) Update(ctx context.Context, status api.Status) error {
	a.mu.Lock()
	a.told = append(a.told, status)
	a.mu.Unlock()
	if a.update != nil {
		return a.update(ctx, status)
	}
	return nil
}

// log keeps the lines that the SDK logs.
type log struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// says checks that a sentence contains all the words.
func says(t *testing.T, sentence string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(sentence, word) {
			t.Errorf("it does not say %q: %s", word, sentence)
		}
	}
}

// logs checks that a line of the log contains all the words.
func (l *log) says(t *testing.T, words ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.out.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		return
	}
	t.Errorf("no line says %q:\n%s", words, l.out.String())
}

// TestSchedulerKilledBeforeItsAcceptIsSent: nobody else knows the task. A successor that remembers it, for example from
// its store, asks for it and is told that it never existed.
func TestSchedulerKilledBeforeItsAcceptIsSent(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		thinking := make(chan struct{})
		first := c.Start(framework.Config{Name: "killed"}, &actor{task: "sleep 60", offers: func(ctx context.Context) {
			close(thinking)
			<-ctx.Done()
		}})
		<-thinking
		first.Kill()
		next := &actor{}
		second := first.Again(next)
		c.Await("the successor's session", func() bool { return second.ID() != "" && client(next) != nil })
		if err := client(next).Reconcile("task"); err != nil {
			t.Fatal(err)
		}
		status := second.AwaitState("task", api.TaskUnknown)
		says(t, status.Message, "nobody knows this task", "never launched")
		t.Log(status.State, status.Reason, status.Message)
	})
}

func client(a *actor) *framework.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// TestSchedulerKilledAfterItsAcceptIsSent: the task runs once. A successor without any
// memory is told of it without asking.
func TestSchedulerKilledAfterItsAcceptIsSent(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		launched := make(chan struct{}, 64)
		first := c.Start(framework.Config{Name: "killed"}, &actor{task: "sleep 60", update: func(ctx context.Context, _ api.Status) error {
			launched <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}})
		<-launched
		first.Kill()
		second := first.Again(&actor{})
		second.AwaitState("task", api.TaskRunning)
		second.AwaitState("task", api.TaskFinished)
	})
}

// TestTwoInstancesOfOneFramework: the newer instance takes the framework over. Run of the older one returns ErrFenced
// and says why; it must not come back.
func TestTwoInstancesOfOneFramework(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		first := c.Start(framework.Config{Name: "twice"}, &actor{task: "sleep 60"})
		first.AwaitState("task", api.TaskRunning)
		second := c.Start(framework.Config{Name: "twice", ID: first.ID()}, &actor{})
		err := first.Await()
		if !errors.Is(err, framework.ErrFenced) || !api.Is(err, api.Fenced) {
			t.Errorf("the older one ended with %v", err)
		}
		says(t, err.Error(), "a newer instance of this framework has taken over", "Standby", string(first.ID()))
		t.Log(err)
		second.AwaitState("task", api.TaskFinished)
	})
}

// TestTwoInstancesWithStandby: the second instance waits, says for which one, and continues when the first is gone.
func TestTwoInstancesWithStandby(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var said log
		first := c.Start(framework.Config{Name: "twice", Standby: true}, &actor{task: "sleep 60"})
		first.AwaitState("task", api.TaskRunning)
		second := c.Start(framework.Config{Name: "twice", Standby: true, Logger: said.logger()}, &actor{})
		c.Advance(10 * time.Second)
		said.says(t, "standing by", "active=")
		if second.ID() != "" {
			t.Error("both are active")
		}
		first.Kill()
		second.AwaitState("task", api.TaskFinished)
		if second.ID() != first.ID() {
			t.Errorf("the standby is %s, the first was %s", second.ID(), first.ID())
		}
	})
}

// TestWritesOfATurnThatIsOver: what an instance has asked to be written while it was cut off is not written when it is
// active again behind another one, whose writes stand.
func TestWritesOfATurnThatIsOver(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		config := framework.Config{Name: "twice", Standby: true, FailoverTimeout: time.Hour}
		first := c.Start(config, &actor{})
		c.Await("the first to be active", func() bool { return first.ID() != "" })
		store := first.Client().Store()
		first.Isolate()
		late, ctx := make(chan error, 1), c.T().Context()
		go func() {
			_, err := store.Put(ctx, "key", []byte("old"), framework.AnyVersion)
			late <- err
		}()
		second := c.Start(config, &actor{})
		c.Await("the second to be active", func() bool { return second.ID() != "" })
		if _, err := second.Client().Store().Put(c.T().Context(), "key", []byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		first.Rejoin()
		c.Advance(5 * time.Second)
		second.Kill()
		var err error
		c.Await("the first to be active again", func() bool {
			select {
			case err = <-late:
				return true
			default:
				return false
			}
		})
		if !api.Is(err, api.Fenced) || first.Client().Takeovers() != 1 {
			t.Errorf("after %d takeovers the write of the turn before ends with %v", first.Client().Takeovers(), err)
		}
		if entry, err := store.Get(c.T().Context(), "key"); err != nil || string(entry.Value) != "new" {
			t.Errorf("the store has %q, %v", entry.Value, err)
		}
	})
}

// TestUpdateThatErrors: the status is told again, with growing pauses, and the error is in the log. Everything else
// goes on.
func TestUpdateThatErrors(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var said log
		var at []time.Duration
		var mu sync.Mutex
		a := &actor{task: "sleep 10", update: func(context.Context, api.Status) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, c.Now())
			if len(at) < 5 {
				return errors.New("the database is away")
			}
			return nil
		}}
		f := c.Start(framework.Config{Name: "erring", Logger: said.logger()}, a)
		f.AwaitState("task", api.TaskFinished)
		said.says(t, "update failed, it will come again", "task=task", "the database is away")
		mu.Lock()
		defer mu.Unlock()
		for i := 2; i < 5; i++ {
			if pause, before := at[i]-at[i-1], at[i-1]-at[i-2]; pause < before*3/2 {
				t.Errorf("try %d came after %v, the one before after %v", i+1, pause, before)
			}
		}
		c.AwaitQuiet() // all is acknowledged
	})
}

// TestUpdateThatPanics: Run ends with the value of the panic and where it happened. The status was not acknowledged, so
// the next scheduler is told it. The tasks do not notice.
func TestUpdateThatPanics(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		first := c.Start(framework.Config{Name: "panicking"}, &actor{task: "sleep 60", update: func(context.Context, api.Status) error {
			panic("the state file makes no sense")
		}})
		err := first.Await()
		if !api.Is(err, api.Internal) {
			t.Errorf("Run returned %v", err)
		}
		says(t, err.Error(), "Update panicked: the state file makes no sense", "situations_test.go")
		second := first.Again(&actor{})
		second.AwaitState("task", api.TaskRunning)
		second.AwaitState("task", api.TaskFinished)
	})
}

// TestOffersThatTakesAMinute: the session goes on, and statuses wait. The offers have expired meanwhile, so tasks that
// are launched on them are DROPPED, and the status says why.
func TestOffersThatTakesAMinute(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var said log
		f := c.Start(framework.Config{Name: "slow", Logger: said.logger()}, &actor{task: "sleep 1", offers: func(ctx context.Context) {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}})
		status := f.AwaitState("task", api.TaskDropped)
		if status.Reason != api.ReasonInvalidOffers {
			t.Errorf("the reason is %v", status.Reason)
		}
		says(t, status.Message, "expired", "launch with a newer one")
		t.Log(status.Message)
		said.says(t, "level=WARN", "Offers", "takes long")
		if view := described(t, c, f.ID()); view.GetState() != "active" || view.GetSession() != 1 {
			t.Errorf("it is %s in session %d", view.GetState(), view.GetSession())
		}
	})
}

// TestAContextThatEnds: Run returns nil and says how long the tasks live on. A new Run with the same ID has them again.
func TestAContextThatEnds(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var said log
		first := c.Start(framework.Config{Name: "leaving", Logger: said.logger()}, &actor{task: "sleep 60"})
		first.AwaitState("task", api.TaskRunning)
		if err := first.Stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		said.says(t, "leaving", "tasks live on", "10m0s")
		c.Await("the masters to notice", func() bool { return described(t, c, first.ID()).GetState() == "disconnected" })
		second := c.Start(framework.Config{Name: "leaving", ID: first.ID()}, &actor{})
		second.AwaitState("task", api.TaskFinished)
	})
}

// TestAContextThatEndsWithTeardown: the framework is removed, and its task is killed.
func TestAContextThatEndsWithTeardown(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "leaving", TeardownAtEnd: true}, &actor{task: "sleep infinity"})
		f.AwaitState("task", api.TaskRunning)
		if err := f.Stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		c.AwaitQuiet()
	})
}

// TestAMasterThatIsGoneForAnHour: Run goes on, and says each minute what is wrong. When a master is back, the scheduler
// is told everything that has happened meanwhile.
func TestAMasterThatIsGoneForAnHour(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var said log
		a := &actor{task: "sleep 600"}
		f := c.Start(framework.Config{Name: "waiting", Logger: said.logger()}, a)
		f.AwaitState("task", api.TaskRunning)
		master := c.Leader()
		master.Kill()
		c.Advance(time.Hour)
		said.says(t, "session ended")
		said.says(t, "level=WARN", "no master", "for=59m")
		if err := client(a).Demand(api.Demand{}); err != nil {
			t.Errorf("what can wait is refused: %v", err)
		}
		master.Start()
		status := f.AwaitState("task", api.TaskFinished)
		if age := time.Since(status.At); age < 45*time.Minute {
			t.Errorf("it ended %v ago", age)
		}
	})
}

// TestARemovedFramework: an operator has removed the framework. Run returns who did that and why. Another Run with the
// same ID is refused as removed too.
func TestARemovedFramework(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		first := c.Start(framework.Config{Name: "removed"}, &actor{task: "sleep infinity"})
		first.AwaitState("task", api.TaskRunning)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		request := &apiv1.RemoveFrameworkRequest{FrameworkId: string(first.ID())}
		if _, err := c.Operator().RemoveFramework(ctx, request); err == nil || !strings.Contains(err.Error(), "its scheduler is connected and it has 1 task,") {
			t.Errorf("without force: %v", err)
		}
		request.Force = true
		if _, err := c.Operator().RemoveFramework(ctx, request); err != nil {
			t.Fatal(err)
		}
		err := first.Await()
		if !api.Is(err, api.Removed) {
			t.Errorf("Run returned %v", err)
		}
		says(t, err.Error(), string(first.ID()), "removed by an operator")
		t.Log(err)
		second := c.Start(framework.Config{Name: "removed", ID: first.ID()}, &actor{})
		err = second.Await()
		if !api.Is(err, api.Removed) {
			t.Errorf("Run returned %v", err)
		}
		says(t, err.Error(), string(first.ID()), "subscribe without an ID")
		t.Log(err)
		c.AwaitQuiet()
	})
}

// described is the framework as people see it.
func described(t *testing.T, c *frameworktest.Handle, id api.FrameworkID) *apiv1.FrameworkView {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := c.Operator().ListFrameworks(ctx, &apiv1.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, view := range list.GetItems() {
		if view.GetId() == string(id) {
			return view
		}
	}
	t.Fatalf("no framework %s", id)
	return nil
}

// flood launches all of its tasks with the first offer, in one answer.
type flood struct {
	actor
	tasks []api.Task
}

func (f *flood) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	tasks := f.tasks
	f.tasks = nil
	if len(tasks) == 0 {
		return nil
	}
	return []api.Answer{api.Launch(offers[0], tasks...)}
}

// TestAnswerLargerThanAMessage: an answer of two megabytes starts each of its tasks once, out of one offer.
func TestAnswerLargerThanAMessage(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := new(flood)
		for i := range 3000 {
			f.tasks = append(f.tasks, api.Task{
				ID: api.TaskID(fmt.Sprintf("task-%d", i)), Resources: api.Scalars(0.001, 1),
				Command: &api.Command{Shell: "true", Env: map[string]string{"TEXT": strings.Repeat("x", 400)}},
			})
		}
		running := c.Start(framework.Config{Name: "flood"}, f)
		running.AwaitCount(3000, api.TaskFinished)
		running.ExpectCount(0, api.TaskDropped, api.TaskError)
	})
}
