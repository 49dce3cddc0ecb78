package executor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// patient is a task whose health the test sets: nil, or what is wrong with it.
type patient struct {
	result atomic.Pointer[error]
	probes atomic.Int64
}

func (p *patient) set(err error) { p.result.Store(&err) }

func (p *patient) probe(_ context.Context, _ *Task, check api.Check) (api.CheckResult, error) {
	p.probes.Add(1)
	found := api.CheckResult{Kind: check.Kind(), Known: true, Passed: true}
	if err := p.result.Load(); err != nil && *err != nil {
		found.Passed = false
		return found, *err
	}
	return found, nil
}

// checked launches a task with checks every 2 s, of which two in a row may fail.
func checked(id api.TaskID, checks ...api.Check) protocol.ExecutorLaunch {
	for i := range checks {
		checks[i].TCP = &api.TCPCheck{Port: "p"}
		checks[i].Interval, checks[i].Grace, checks[i].Failures = 2*time.Second, 5*time.Second, 3
	}
	return protocol.ExecutorLaunch{Task: api.Task{ID: id, Ports: map[string]uint16{"p": 1}, Checks: checks, KillGrace: time.Minute}}
}

func probedBy(probe func(context.Context, *Task, api.Check) (api.CheckResult, error)) Option {
	return func(c *Config) { c.Probe = probe }
}

// untilKilled runs until it is killed.
func untilKilled(ctx context.Context, _ *Task) error {
	<-ctx.Done()
	return ctx.Err()
}

// A task that is not ready keeps running, and each change of its readiness is one status. (R44.)
func TestReadiness(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		var p patient
		p.set(errors.New("warming up"))
		r := m.run(Functions(func(ctx context.Context, task *Task) error {
			<-time.After(time.Hour - time.Nanosecond) // beside a check
			task.Progress([]byte("data"), "")
			return untilKilled(ctx, task)
		}), probedBy(p.probe))
		s := m.start().accept()
		s.send(checked("t", api.Check{Readiness: true}))
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || *got.Healthy || got.Message != "it has yet to pass its check (TCP at port p)" {
			t.Errorf("before its first check it is %+v", got)
		}
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || *got.Healthy || !strings.Contains(got.Message, "TCP at port p): warming up") {
			t.Errorf("while it warms up it is %+v", got)
		}
		p.set(nil)
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || !*got.Healthy || got.Message != "" {
			t.Errorf("when it is ready it is %+v", got)
		}
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || !*got.Healthy || string(got.Data) != "data" {
			t.Errorf("an hour later its progress is %+v", got)
		}
		if n := p.probes.Load(); n < 1700 || n > 1900 {
			t.Errorf("in an hour it was checked %d times, every 2s", n)
		}
		p.set(errors.New("overloaded"))
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || *got.Healthy {
			t.Errorf("when it is not ready any more it is %+v", got)
		}
		s.send(protocol.ExecutorKill{Task: "t"})
		if got := s.want("t", api.TaskKilled); got.Reason != api.ReasonNone || got.Healthy == nil || *got.Healthy {
			t.Errorf("killed it is %+v", got)
		}
		n := p.probes.Load()
		<-time.After(time.Minute)
		if p.probes.Load() != n {
			t.Error("it is checked after its end")
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A task that fails its checks is killed with its own grace, and FAILED for that. (R44.)
func TestLiveness(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		var p patient
		r := m.run(Functions(untilKilled), probedBy(p.probe))
		s := m.start().accept()
		s.send(checked("t", api.Check{}))
		s.want("t", api.TaskRunning)
		if got := s.want("t", api.TaskRunning); got.Healthy == nil || !*got.Healthy {
			t.Errorf("it is %+v", got)
		}
		began := time.Now()
		p.set(errors.New("stuck"))
		const why = "its check (TCP at port p) failed 3 times in a row: stuck"
		if got := s.want("t", api.TaskKilling); got.Reason != api.ReasonHealthCheckFailed || got.Message != why || *got.Healthy {
			t.Errorf("it is to end with %+v", got)
		}
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("three failures took %v", took)
		}
		if got := s.want("t", api.TaskFailed); got.Reason != api.ReasonHealthCheckFailed || !strings.HasPrefix(got.Message, why) || *got.Healthy {
			t.Errorf("it ended with %+v", got)
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// An observing check begins when its grace is over, changes nothing of the task, and is told of when its result changes;
// each status has the latest result. (R90.)
func TestObserving(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		var p patient
		p.set(errors.New("refused"))
		r := m.run(Functions(untilKilled), probedBy(p.probe))
		s := m.start().accept()
		s.send(checked("t", api.Check{Observing: true}))
		want := func(state api.TaskState, data string) {
			t.Helper()
			if got := s.want("t", state); string(got.Data) != data || got.Healthy != nil {
				t.Errorf("it is told %s of %+v, want %s", got.Data, got, data)
			}
		}
		want(api.TaskRunning, `{"kind":"tcp"}`)
		began := time.Now()
		want(api.TaskRunning, `{"kind":"tcp","known":true,"changed":true}`)
		if took := time.Since(began); took != 5*time.Second || p.probes.Load() != 1 {
			t.Errorf("the %dth check was made after %v", p.probes.Load(), took)
		}
		<-time.After(time.Minute)
		p.set(nil)
		want(api.TaskRunning, `{"kind":"tcp","known":true,"passed":true,"changed":true}`)
		s.send(protocol.ExecutorKill{Task: "t"})
		want(api.TaskKilled, `{"kind":"tcp","known":true,"passed":true}`)
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A check that takes too long has failed. It is told to end, and no other check is made beside it. If the task itself
// ends as FINISHED meanwhile, that stands.
func TestHungChecks(t *testing.T) {
	story(t, func(t *testing.T, m *machine) {
		var running, most atomic.Int64
		hung := func(ctx context.Context, _ *Task, check api.Check) (api.CheckResult, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-ctx.Done()
			return api.CheckResult{}, ctx.Err()
		}
		r := m.run(Functions(func(ctx context.Context, task *Task) error {
			<-ctx.Done()
			return task.Report(Report{State: api.TaskFinished})
		}), probedBy(hung))
		s := m.start().accept()
		s.send(checked("t", api.Check{}, api.Check{Readiness: true}))
		s.want("t", api.TaskRunning)
		if got := s.want("t", api.TaskRunning); *got.Healthy || !strings.Contains(got.Message, "it took longer than its timeout") {
			t.Errorf("it is %+v", got)
		}
		s.want("t", api.TaskKilling)
		if got := s.want("t", api.TaskFinished); got.Reason != api.ReasonNone {
			t.Errorf("it ended with %+v", got)
		}
		synctest.Wait()
		if most.Load() != 1 || running.Load() != 0 {
			t.Errorf("%d checks at once, %d are left", most.Load(), running.Load())
		}
		s.send(protocol.ExecutorShutdown{})
		if err := r.wait(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}
