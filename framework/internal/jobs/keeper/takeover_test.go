package keeper

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// life is that of one job whose manager is killed once. It is also the masters, where each task that is launched runs until
// somebody ends it.
type life struct {
	*Keeper
	t     *testing.T
	store map[string][]byte
	left  int                          // writes that the manager makes before it is killed; negative: nobody kills it
	tasks map[api.TaskID]api.TaskState // of which an end is not acknowledged
	told  []api.Status                 // what the keeper has yet to hear
}

func (*life) Roles() []api.Role                    { return []api.Role{"r"} }
func (*life) Demand(api.Demand) error              { return nil }
func (*life) TellJob(api.JobEvent) error           { return nil }
func (*life) TellJobDemand(map[string]int64) error { return nil }

func (l *life) Answer(answers ...api.Answer) error {
	for _, answer := range answers {
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				l.become(task.ID, api.TaskRunning)
			}
		}
	}
	return nil
}

func (l *life) Kill(task api.TaskID) error {
	if l.tasks[task] == api.TaskRunning {
		l.become(task, api.TaskKilled)
	}
	return nil
}

func (l *life) Reconcile(tasks ...api.TaskID) error {
	for _, task := range tasks {
		if l.tasks[task] == api.TaskUnspecified {
			l.become(task, api.TaskUnknown)
		}
	}
	return nil
}

func (l *life) Acknowledge(status api.Status) error {
	if status.State.Settled() {
		delete(l.tasks, status.Task)
	}
	return nil
}

func (l *life) become(task api.TaskID, state api.TaskState) {
	l.tasks[task] = state
	l.told = append(l.told, api.Status{Task: task, State: state, Agent: "a", Number: 1})
}

// takeOver has a manager begin with what is stored. It is told of all tasks that the
// masters know.
func (l *life) takeOver() {
	now := transcript.Epoch
	l.Keeper = New(Config{JobsMax: 10, HistoryMost: 10, HistoryAge: time.Hour, Log: slog.New(slog.DiscardHandler), Changed: func(string, Step) {},
		Calendar: func(_, _ string, after time.Time) (time.Time, error) { return after.Add(time.Hour), nil }}, now)
	records := map[string]map[string][]byte{}
	for key, value := range l.store {
		name, record := SplitKey(key)
		if records[name] == nil {
			records[name] = map[string][]byte{}
		}
		records[name][record] = value
	}
	for name := range records {
		m, left, err := core.Load(now, records[name])
		if err != nil {
			l.t.Fatalf("%s can't be read from %v: %v", name, slices.Sorted(maps.Keys(l.store)), err)
		}
		l.Load(name, m, left, now)
	}
	l.told = nil
	l.Begin(l)
	for _, task := range slices.Sorted(maps.Keys(l.tasks)) {
		l.become(task, l.tasks[task])
	}
	l.act(func(time.Time) { l.Settle() })
}

// write makes a write, or kills the manager before it.
func (l *life) write(one Write) (made bool) {
	if l.left == 0 {
		l.left = -1
		l.takeOver()
		return false
	}
	l.left--
	if l.store[one.Key] = one.Value; one.Delete {
		delete(l.store, one.Key)
	}
	return true
}

// act does something with the jobs, and goes on until nothing more follows.
func (l *life) act(work func(now time.Time)) {
	for l.Do(transcript.Epoch, work); l.Any() || len(l.told) > 0; {
		b := l.TakeBatch()
		for _, stage := range b.Stages() {
			for _, one := range stage {
				if !l.write(one) {
					return
				}
			}
		}
		l.Do(transcript.Epoch, func(now time.Time) {
			l.Written(b, now)
			told := l.told
			l.told = nil
			for _, status := range told {
				if !l.Hear(status, now) {
					_ = l.Acknowledge(status)
				}
			}
		})
	}
}

// submit has somebody submit the job, until it is there.
func (l *life) submit(job jobs.Job) {
	for l.Job(job.Name) == nil {
		_, fresh, err := l.Submit("job.submit", jobs.Version{At: transcript.Epoch, Job: job}, "r1")
		if err != nil {
			l.t.Fatal(err)
		}
		list, err := fresh.Writes()
		if err != nil {
			l.t.Fatal(err)
		}
		if !slices.ContainsFunc(list, func(one Write) bool { return !l.write(one) }) {
			l.act(func(now time.Time) { _ = fresh.Stored(now) })
		}
	}
}

// TestKilledBetweenTwoWrites (R53): a job that is stopped or deleted ends with all its tasks, whichever of its writes was
// the last of the manager that was killed.
func TestKilledBetweenTwoWrites(t *testing.T) {
	task := jobs.Task{Command: "serve", Attempts: 3}
	for _, job := range []jobs.Job{
		{Type: jobs.BatchType, Task: task, Batch: &jobs.Batch{Completions: 300, Parallelism: 300}}, // of two parts
		{Type: jobs.ServiceType, Task: task, Service: &jobs.Service{Count: new(3)}},
		{Type: jobs.DAGType, Steps: []jobs.Step{{Name: "a", Task: task}, {Name: "b", After: []string{"a"}, Completions: 2, Task: task}}},
		{Type: jobs.CronType, Task: task, Cron: &jobs.Cron{Schedule: "1h", Completions: 3, Parallelism: 3}},
		{Type: jobs.SystemType, Task: task},
		{Type: jobs.GangType, Task: task, Gang: &jobs.Gang{Members: 3}},
	} {
		for _, end := range []core.Asked{{Why: "enough"}, {Why: "enough", Delete: true}} {
			for _, cpus := range []float64{0, 0.2, 100} { // for none of its tasks, for two, for all
				for _, early := range []bool{false, true} { // somebody asks for the end before the store has who runs where
					t.Run(fmt.Sprintf("%s deleted=%v cpus=%v early=%v", job.Type, end.Delete, cpus, early), func(t *testing.T) {
						for kill := 0; killedBehind(t, job, end, cpus, early, kill); kill++ {
						}
					})
				}
			}
		}
	}
}

// killedBehind is the life of a job whose manager is killed behind that many writes; false: it makes fewer.
func killedBehind(t *testing.T, job jobs.Job, end core.Asked, cpus float64, early bool, writes int) bool {
	job.Name, job.Role = "web", "r"
	l := &life{t: t, store: map[string][]byte{}, left: -1, tasks: map[api.TaskID]api.TaskState{}}
	l.takeOver()
	l.left = writes
	l.submit(job)
	if job.Cron != nil && l.Job("web").Phase == jobs.Running {
		l.act(func(now time.Time) { l.Tell("web", now, core.RunAsked{Number: 1}) })
	}
	l.act(func(now time.Time) {
		_ = l.Answer(l.Offers([]api.Offer{{ID: "o", Agent: "a", Role: "r", Resources: api.Scalars(cpus, 100_000)}}, now)...)
		if early {
			l.Tell("web", now, end)
		}
	})
	for m := l.Job("web"); m != nil && m.Phase == jobs.Running; m = l.Job("web") { // nobody has answered, and who asked asks again
		l.act(func(now time.Time) { l.Tell("web", now, end) })
	}
	m, keys := l.Job("web"), slices.Sorted(maps.Keys(l.store))
	switch {
	case end.Delete && (m != nil || len(keys) > 0), !end.Delete && (m == nil || m.Phase != jobs.Stopped || len(keys) != 2):
		t.Errorf("killed behind %d writes: the manager has %v, and the store has %q", writes, l.Names(), keys)
	case len(l.tasks) > 0:
		t.Errorf("killed behind %d writes: there still are %v", writes, l.tasks)
	}
	return l.left < 0 && !t.Failed()
}

// TestTasksWithoutAJobEnd: a task that runs, and whose job is not in the store any more, is killed by whoever takes over.
func TestTasksWithoutAJobEnd(t *testing.T) {
	l := &life{t: t, left: -1, tasks: map[api.TaskID]api.TaskState{"gone.r1.main.0.1": api.TaskRunning}}
	l.takeOver()
	if len(l.tasks) > 0 {
		t.Errorf("there still are %v", l.tasks)
	}
}
