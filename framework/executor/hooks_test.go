package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// works is a task that ends well after as many seconds as its name has letters.
func works(ctx context.Context, task *Task) error {
	select {
	case <-time.After(time.Duration(len(task.ID)) * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestInit: while Init runs the executor already has its session, and tasks wait. One of these can be killed.
func TestInit(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		began := time.Now()
		r := m.run(Functions(works), Init(func(context.Context) error {
			<-time.After(10 * time.Minute)
			return nil
		}))
		s := m.start().accept()
		s.send(launch("a"), launch("killed"))
		s.send(protocol.ExecutorKill{Task: "killed"})
		if got := s.want("killed", api.TaskKilled); !strings.Contains(got.Message, "before its executor was ready") {
			t.Errorf("killed with %q", got.Message)
		}
		s.want("a", api.TaskRunning)
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("it runs after %v", took)
		}
		s.want("a", api.TaskFinished)
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestInitFails: the waiting tasks are told why, and the executor ends.
func TestInitFails(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(works), Init(func(context.Context) error {
			<-time.After(time.Second)
			return errors.New("no model in /models")
		}))
		s := m.start().accept()
		s.send(launch("a"))
		if got := s.want("a", api.TaskFailed); got.Reason != api.ReasonLaunchFailed || !strings.Contains(got.Message, "no model in /models") {
			t.Errorf("ended with %+v", got)
		}
		if err := r.wait(); err == nil || !strings.Contains(err.Error(), "no model in /models") {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestInitIsCalledOff: an executor that is told to end does not wait for its Init.
func TestInitIsCalledOff(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		r := m.run(Functions(works), Init(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		s := m.start().accept()
		s.send(launch("a"))
		s.send(protocol.ExecutorShutdown{Grace: time.Second})
		s.status(false)
		_ = r.wait() // its end is asked for
	})
}

// TestIdle: Idle is called once, each time that nothing has run for long enough.
func TestIdle(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		began, calls := time.Now(), make(chan time.Duration, 16)
		r := m.run(Functions(works), Idle(time.Minute, func() { calls <- time.Since(began) }))
		s := m.start().accept()
		if got := next(t, calls); got != time.Minute {
			t.Errorf("idle after %v", got)
		}
		<-time.After(9 * time.Minute)
		s.send(launch("a"))
		s.want("a", api.TaskRunning)
		s.want("a", api.TaskFinished)
		<-time.After(30 * time.Second)
		s.send(launch("bb"))
		s.want("bb", api.TaskRunning)
		s.want("bb", api.TaskFinished)
		if got := next(t, calls); got != 10*time.Minute+33*time.Second+time.Minute || len(calls) > 0 {
			t.Errorf("idle again after %v", got)
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}
