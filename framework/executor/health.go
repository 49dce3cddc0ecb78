package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/health"
	"github.com/tenderhq/tender/internal/pause"
)

// ProbeChecks makes a check over HTTP, TCP or gRPC at the task's own port, over loopback. It is the default of
// [Config].Probe.
func ProbeChecks(ctx context.Context, task *Task, check api.Check) (api.CheckResult, error) {
	return health.Probe(ctx, task.Ports, check)
}

// watchHealth makes the checks of a running task, one at a time, until the task has ended or has to end. Only a change
// of the task's health is told, by a RUNNING status, so most checks cost nobody else anything.
func (s *server) watchHealth(ctx context.Context, task *Task) {
	w := health.New(task.Checks, time.Now())
	var told *bool
	observed := unobserved(task.Checks)
	for {
		number, check, due := w.Next()
		if !pause.For(ctx, time.Until(due)) {
			return
		}
		found, failed := s.probeTask(ctx, task, check)
		if ctx.Err() != nil {
			return
		}
		w.Take(number, time.Now(), failed)
		if check.Observing {
			if changed := found; found != *observed {
				changed.Changed = true
				if task.Report(Report{State: api.TaskRunning, Data: dataOf(&changed)}) == nil {
					observed = &found // as below
				}
			}
			continue
		}
		if why := w.Failed(); why != "" {
			s.endIll(task, why)
			return
		}
		healthy, why := w.Healthy()
		if healthy == nil || told != nil && *told == *healthy {
			continue
		}
		if task.Report(Report{State: api.TaskRunning, Healthy: healthy, Message: why}) == nil {
			told = healthy // if it could not be told now, the next check tries again
		}
	}
}

// probeTask makes one check within its timeout, and returns what it has found, and why it has failed.
func (s *server) probeTask(ctx context.Context, task *Task, check api.Check) (api.CheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout)
	defer cancel()
	found, err := s.config.Probe(ctx, task, check)
	return found, health.Explain(ctx, err)
}

// unobserved is what is told of the observing check before it was made; nil: there is no such check.
func unobserved(checks []api.Check) *api.CheckResult {
	for i := range checks {
		if checks[i].Observing {
			return &api.CheckResult{Kind: checks[i].Kind()}
		}
	}
	return nil
}

func dataOf(result *api.CheckResult) []byte {
	data, _ := json.Marshal(result) // it never fails
	return data
}

// endIll ends a task that has failed its checks, unless it has already ended or is being killed.
func (s *server) endIll(task *Task, why string) {
	if !s.ledger.fallIll(task.ID, why) {
		return
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	s.handler.Kill(task, cmp.Or(task.KillGrace, DefaultGrace))
}

// watchChecks makes the checks of tasks as soon as they run. The returned function stops all checks.
func (s *server) watchChecks(ctx context.Context) (stop func()) {
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

// illness is what the checks of a task have found.
type illness struct {
	healthy *bool              // as it was told last
	found   *api.CheckResult   // by the observing check, as it was told last; nil: nothing
	why     string             // the task is being ended for this reason; "": it is not
	unwatch context.CancelFunc // ends the task's checks; nil: it has none, or does not run yet
}

// setWatch sets the function that begins the checks of a task at its first RUNNING; nil: no more checks are begun.
func (l *ledger) setWatch(watch func(*Task) context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = watch
}

// keepWatch begins the checks of a task at its first RUNNING, and ends them when the task no longer runs. The caller
// holds mu.
func (l *ledger) keepWatch(e *entry) {
	switch {
	case e.state == api.TaskRunning && e.illness.unwatch == nil && len(e.task.Checks) > 0 && l.watch != nil:
		e.illness.unwatch = l.watch(e.task)
	case e.state != api.TaskRunning && e.illness.unwatch != nil:
		e.illness.unwatch()
	}
}

// fallIll notes that a running task is being ended because it failed its checks; false: the task does not run.
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
		l.keepStatus(e, e.illness.addFound(Report{State: api.TaskKilling, Reason: api.ReasonHealthCheckFailed, Message: why, Healthy: &no}, e.task.Checks))
	}
	return true
}

// addFound adds what the task's observing check has found to a report, if it has such a check.
func (i *illness) addFound(report Report, checks []api.Check) Report {
	before := unobserved(checks)
	switch {
	case before == nil:
	case len(report.Data) == 0:
		report.Data = dataOf(cmp.Or(i.found, before))
	case json.Unmarshal(report.Data, before) == nil:
		before.Changed = false
		i.found = before
	}
	return report
}

// diagnose completes a report before it is told: it adds the task's health, and the reason if the task was ended for
// failed checks. A task with a readiness check counts as unhealthy until the check has passed, so that nobody sends it
// work between its first RUNNING and then.
func (i *illness) diagnose(report Report, checks []api.Check) Report {
	report = i.addFound(report, checks)
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
