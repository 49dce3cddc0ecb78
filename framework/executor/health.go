package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/health"
	"github.com/tenderhq/tender/internal/pause"
)

// ProbeChecks makes a check over HTTP, TCP or gRPC at the task's own port, over loopback. It is the default of
// [Config].Probe.
func ProbeChecks(ctx context.Context, task *Task, check api.Check) error {
	return health.Probe(ctx, task.Ports, check)
}

// watchHealth makes the checks of a task that runs, one at a time, until it has ended or is to end. A change is told by
// a RUNNING status, so most checks cost nobody else anything.
func (s *server) watchHealth(ctx context.Context, task *Task) {
	w := health.New(task.Checks, time.Now())
	var told *bool
	for {
		number, check, due := w.Next()
		if !pause.For(ctx, time.Until(due)) {
			return
		}
		result := s.probe(ctx, task, check)
		if ctx.Err() != nil {
			return
		}
		w.Take(number, time.Now(), result)
		if why := w.Failed(); why != "" {
			s.endIll(task, why)
			return
		}
		healthy, why := w.Healthy()
		if healthy == nil || told != nil && *told == *healthy {
			continue
		}
		if task.Report(Report{State: api.TaskRunning, Healthy: healthy, Message: why}) == nil {
			told = healthy // else it is told with the next check
		}
	}
}

// probe makes one check within its timeout.
func (s *server) probe(ctx context.Context, task *Task, check api.Check) error {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout)
	defer cancel()
	return health.Explain(ctx, s.config.Probe(ctx, task, check))
}

// endIll ends a task that has failed its checks, unless it has ended or is being killed.
func (s *server) endIll(task *Task, why string) {
	if !s.ledger.fallIll(task.ID, why) {
		return
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	s.handler.Kill(task, cmp.Or(task.KillGrace, DefaultGrace))
}

// watch begins to check tasks that run; the function that is returned ends that.
func (s *server) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.ledger.setWatch(func(task *Task) context.CancelFunc {
		of, end := context.WithCancel(ctx)
		s.watches.Go(func() { s.watchHealth(of, task) })
		return end
	})
	return func() {
		s.ledger.setWatch(nil)
		cancel()
		s.watches.Wait()
	}
}

// illness is what a task's checks have made of it.
type illness struct {
	healthy *bool              // as it was told last
	why     string             // it is being ended for that; "": it is not
	unwatch context.CancelFunc // ends its checks; nil: it has none, or does not run yet
}

// setWatch says how a task that has checks is watched from its first RUNNING on; nil: no more.
func (l *ledger) setWatch(watch func(*Task) context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = watch
}

// keepWatch begins the checks of a task with its first RUNNING, and ends them when it runs no more. Under mu.
func (l *ledger) keepWatch(e *entry) {
	switch {
	case e.state == api.TaskRunning && e.illness.unwatch == nil && len(e.task.Checks) > 0 && l.watch != nil:
		e.illness.unwatch = l.watch(e.task)
	case e.state != api.TaskRunning && e.illness.unwatch != nil:
		e.illness.unwatch()
	}
}

// fallIll tells that a running task is being ended because it failed its checks; false: it does not run.
func (l *ledger) fallIll(id api.TaskID, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.tasks[id]
	if e == nil || e.state != api.TaskRunning {
		return false
	}
	no := false
	e.illness.healthy, e.illness.why = &no, why
	e.state = api.TaskKilling
	if len(e.kept) < unacknowledgedPerTaskMax {
		l.keep(e, Report{State: api.TaskKilling, Reason: api.ReasonHealthCheckFailed, Message: why, Healthy: &no})
	}
	return true
}

// diagnose is a report as it is told: with what is known of the task's health, and of one that was ended for that with
// the reason. One that has a check for readiness is not well before it has passed it: nobody is to be sent there from the
// first RUNNING on.
func (i *illness) diagnose(report Report, checks []api.Check) Report {
	if report.Healthy != nil {
		i.healthy = report.Healthy
	}
	first := slices.IndexFunc(checks, func(c api.Check) bool { return c.Readiness })
	if i.healthy == nil && report.State == api.TaskRunning && first >= 0 {
		no := false
		i.healthy = &no
		report.Message = cmp.Or(report.Message, fmt.Sprintf("it has yet to pass its check (%s)", health.Describe(checks[first])))
	}
	report.Healthy = i.healthy
	if i.why == "" || !report.State.Terminal() || report.State == api.TaskFinished {
		return report
	}
	message := i.why
	if report.Message != "" {
		message += ": " + report.Message
	}
	report.State, report.Reason, report.Message = api.TaskFailed, api.ReasonHealthCheckFailed, message
	return report
}
