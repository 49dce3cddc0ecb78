package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// DefaultIdleAfter is how long an executor is without a task before [Config].Idle is called.
const DefaultIdleAfter = time.Minute

// Option sets a field of the executor's [Config]; see [Run].
type Option func(*Config)

// Init runs before the first task, to prepare what all tasks share, such as a model that takes minutes to load; see
// [Config].
func Init(init func(ctx context.Context) error) Option { return func(c *Config) { c.Init = init } }

// Idle runs when no task has run for this long, to release what tasks share, such as a cache; see [Config].
func Idle(after time.Duration, idle func()) Option {
	return func(c *Config) { c.IdleAfter, c.Idle = after, idle }
}

// runInit runs Init beside the session; tasks that are launched meanwhile wait for it.
func (s *server) runInit(ctx context.Context, broken chan<- error) {
	err := s.config.Init(ctx)
	s.calls.Lock()
	defer s.calls.Unlock()
	waiting := s.waiting
	s.waiting, s.ready = nil, true
	if err != nil {
		s.broken = api.E("executor.init", api.KindOf(err), s.config.ID, err)
		broken <- s.broken
	}
	for _, task := range waiting {
		s.beginTask(task)
	}
}

// beginTask hands a task to the handler, unless Init has not ended, has failed, or the executor is closing. The caller
// holds calls.
func (s *server) beginTask(task *Task) {
	switch {
	case s.broken != nil:
		_ = task.Report(Report{State: api.TaskFailed, Reason: api.ReasonLaunchFailed, Message: fmt.Sprintf("its executor could not begin: %v", s.broken)})
	case s.closing:
		_ = task.Report(Report{State: api.TaskKilled, Reason: api.ReasonExecutorTerminated, Message: "its executor was shutting down"})
	case !s.ready:
		s.waiting = append(s.waiting, task)
	default:
		s.handler.Launch(task)
	}
}

// dropWaiting ends a task that still waits for Init; false: the task does not wait. The caller holds calls.
func (s *server) dropWaiting(task *Task) bool {
	at := slices.Index(s.waiting, task)
	if at < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	_ = task.Report(Report{State: api.TaskKilled, Message: "killed before its executor was ready"})
	return true
}

// watchIdle calls Idle each time that no task has run for IdleAfter.
func (s *server) watchIdle(ctx context.Context) {
	busy := func() bool { return s.ledger.living > 0 }
	for s.ledger.awaitCondition(ctx, s.ledger.allEnded) && ctx.Err() == nil {
		quiet, done := context.WithTimeout(ctx, s.config.IdleAfter)
		again := s.ledger.awaitCondition(quiet, busy)
		done()
		if again || ctx.Err() != nil {
			continue
		}
		s.calls.Lock()
		if !s.closing && s.ready {
			s.config.Idle()
		}
		s.calls.Unlock()
		s.ledger.awaitCondition(ctx, busy)
	}
}
