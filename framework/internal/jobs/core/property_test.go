package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/work"
)

// world plays everything around a JobMaster: its manager, its store, the masters and the agents. Chance decides what
// happens when.
type world struct {
	t       *rapid.T
	m       *JobMaster
	now     time.Time
	store   map[string][]byte
	keys    map[string]bool // keys that are still to be written
	waiting []Effect        // effects that wait until the keys are written
	tasks   map[api.TaskID]*played
	updates int
	steps   int
	quiet   bool // no agent has been silent, so nothing may be done twice
	endless bool // while all goes well, no task ends by itself
}

// played is a task on an agent.
type played struct {
	id     api.TaskID
	told   []api.Status // statuses that are not acknowledged, in order
	number uint64
	state  api.TaskState
	silent bool
	killed bool // it was asked to end
}

func newWorld(t *rapid.T, job jobs.Job) *world {
	w := &world{t: t, now: transcript.Epoch, store: map[string][]byte{}, keys: map[string]bool{}, tasks: map[api.TaskID]*played{}, quiet: true}
	w.m = New(jobs.Version{Number: 1, At: w.now, Why: "submitted", Job: job}, "r1")
	w.write(VersionKey(1))
	w.write(HeaderKey)
	w.step(Begun{})
	return w
}

func (w *world) write(key string) {
	value, err := w.m.Record(key)
	if err != nil {
		w.t.Fatal(err)
	}
	if value == nil {
		delete(w.store, key)
	} else {
		w.store[key] = value
	}
}

// step sends an event to the JobMaster. For one event of seven, a clone gets the event too and must do the same.
func (w *world) step(happened Event) {
	var twin *JobMaster
	if w.steps++; w.steps%7 == 1 {
		twin = w.m.Clone()
	}
	effects := w.m.Step(w.now, happened)
	if twin == nil {
	} else if again := twin.Step(w.now, happened); fmt.Sprint(effects) != fmt.Sprint(again) || twin.Dump() != w.m.Dump() {
		w.t.Fatalf("a clone did %v, the original %v", again, effects)
	}
	for _, effect := range effects {
		if save, is := effect.(Save); is {
			w.keys[save.Key] = true
		} else {
			w.waiting = append(w.waiting, effect)
		}
	}
	w.checkSurvey()
	w.plan()
}

// checkSurvey fails unless what a change remembers of the slots is what a look at all of them finds.
func (w *world) checkSurvey() {
	if w.m.Job.Rolling() == nil || !w.m.rolling.Roll.Active || w.m.rolling.Roll.first() || w.m.Phase != jobs.Running {
		return
	}
	sub := w.m.Subs[0]
	said := sub.Survey
	sub.Survey.Begin(sub.Next)
	w.m.rolling.surveySlots(sub)
	for _, stand := range []work.Stand{work.Old, work.Tried, work.Changed} {
		if said.Count(stand) != sub.Survey.Count(stand) {
			w.t.Fatalf("%d slots are remembered as %d, %d are:\n%s", said.Count(stand), stand, sub.Survey.Count(stand), w.m.Dump())
		}
	}
	sub.Survey = said
}

// plan tells the JobMaster when the next run of a cron job is due.
func (w *world) plan() {
	if planned, is := plan(w.m, w.now); is {
		w.step(planned)
	}
}

// commit writes what is to be written and then deletes what is to be deleted. After that it performs the effects that
// waited for it. If a crash comes in between, only some of it is written.
func (w *world) commit(crash bool) {
	var puts, deletes []string
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		if value, _ := w.m.Record(key); value != nil {
			puts = append(puts, key)
		} else {
			deletes = append(deletes, key)
		}
	}
	order := append(puts, deletes...)
	if crash {
		some := rapid.IntRange(0, len(order)).Draw(w.t, "written")
		if some < len(puts) { // in any order
			order = rapid.Permutation(puts).Draw(w.t, "order")
		}
		order = order[:some]
	}
	for _, key := range order {
		w.write(key)
	}
	if crash {
		return
	}
	effects := w.waiting
	w.keys, w.waiting = map[string]bool{}, nil
	for _, effect := range effects {
		w.perform(effect)
	}
}

func (w *world) perform(effect Effect) {
	switch effect := effect.(type) {
	case Dispatch:
		if w.tasks[effect.Task] != nil {
			w.t.Fatalf("%s is started twice", effect.Task)
		}
		sub, _, _, known := w.m.parseTask(effect.Task)
		if known { // else its cron run has ended meanwhile, by a late status; the task is ended
			for _, name := range sub.After {
				if w.m.steps.findEnds()[name] == goesOn {
					w.t.Fatalf("%s is started before %s has ended", effect.Task, name)
				}
			}
		}
		task := &played{id: effect.Task}
		w.tasks[effect.Task] = task
		if rapid.IntRange(0, 9).Draw(w.t, "dropped") == 0 {
			task.become(api.TaskDropped)
			return
		}
		task.become(api.TaskRunning)
		if known {
			w.onlyOne(effect.Task)
		}
	case Kill:
		w.kill(effect.Task)
	case Acknowledge:
		task := w.tasks[effect.Status.Task]
		if task != nil && len(task.told) > 0 && task.told[0].Number == effect.Status.Number {
			task.told = task.told[1:]
		}
	case Tell, Ended, Forgotten:
	}
}

// onlyOne fails if two tasks of one index run that were not asked to end. Tasks whose agent is taken for dead do not
// count.
func (w *world) onlyOne(id api.TaskID) {
	sub, index, _, _ := w.m.parseTask(id)
	for _, other := range w.tasks {
		of, same, _, _ := w.m.parseTask(other.id)
		if other.id != id && same == index && of == sub && sub.Speculate == 0 && other.state == api.TaskRunning && !other.silent && !other.killed && w.quiet {
			w.t.Fatalf("%s and %s run at a time", id, other.id)
		}
	}
}

func (w *world) kill(id api.TaskID) {
	task := w.tasks[id]
	if task == nil || task.state.Terminal() {
		return
	}
	task.killed = true
	if !task.silent {
		task.become(api.TaskKilled)
	}
}

func (p *played) become(state api.TaskState) {
	p.state = state
	p.number++
	p.told = append(p.told, api.Status{Task: p.id, Number: p.number, State: state, Agent: "a1"})
}

// open lists the tasks that have not ended.
func (w *world) open() (ids []api.TaskID) {
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		if !w.tasks[id].state.Terminal() {
			ids = append(ids, id)
		}
	}
	return ids
}

// deliver tells the JobMaster the oldest status of a task.
func (w *world) deliver(id api.TaskID) bool {
	task := w.tasks[id]
	if task.silent || len(task.told) == 0 {
		return false
	}
	w.step(Heard{task.told[0]})
	return true
}

// offer assigns waiting tasks to agents, at most this many for each ask and agent. It returns how many.
func (w *world) offer(most int) (n int) {
	agents := []api.AgentID{"a1"}
	if w.m.Job.System != nil {
		agents = append(agents, "a2", "a3")
	}
	for _, ask := range w.m.Asks() {
		if ask.Copy {
			w.step(Assigned{SubJob: ask.SubJob, Version: ask.Version, Agent: "a2", Copy: true})
			n++
			continue
		}
		if ask.Gang {
			w.step(AssignedGang{SubJob: ask.SubJob, Version: ask.Version, Members: make([]Assigned, ask.Count)})
			n++
			continue
		}
		for _, agent := range agents {
			for range min(ask.Count, most) {
				if !w.m.MayGoTo(ask, agent) {
					break
				}
				w.step(Assigned{SubJob: ask.SubJob, Version: ask.Version, Agent: agent})
				n++
			}
		}
	}
	return n
}

// wake moves the clock to the next time at which the JobMaster wants to be woken, and wakes it.
func (w *world) wake() bool {
	next := w.m.Wake()
	if next.IsZero() {
		return false
	}
	if next.After(w.now) {
		w.now = next
	}
	w.step(Woken{})
	return true
}

// silence makes a task's agent be taken for dead, or come back.
func (w *world) silence(id api.TaskID) {
	w.quiet = false
	task := w.tasks[id]
	task.silent = !task.silent
	if !task.silent && task.killed {
		task.become(api.TaskKilled)
		return
	}
	w.tell(id)
}

func (w *world) actions(change func(n int) jobs.Job) map[string]func(*rapid.T) {
	some := func(t *rapid.T) (api.TaskID, bool) {
		ids := w.open()
		if len(ids) == 0 {
			return "", false
		}
		return rapid.SampledFrom(ids).Draw(t, "task"), true
	}
	return map[string]func(*rapid.T){
		"": func(*rapid.T) {},
		"offer": func(t *rapid.T) {
			w.offer(rapid.IntRange(1, 4).Draw(t, "room"))
		},
		"commit": func(*rapid.T) { w.commit(false) },
		"crash": func(*rapid.T) {
			w.commit(true)
			w.takeOver()
		},
		"deliver": func(t *rapid.T) {
			for _, id := range rapid.Permutation(slices.Sorted(maps.Keys(w.tasks))).Draw(t, "order") {
				if w.deliver(id) {
					return
				}
			}
		},
		"end": func(t *rapid.T) {
			if id, is := some(t); is && !w.tasks[id].silent {
				w.tasks[id].become(rapid.SampledFrom([]api.TaskState{api.TaskFinished, api.TaskFinished, api.TaskFailed, api.TaskGone}).Draw(t, "state"))
			}
		},
		"silence": func(t *rapid.T) {
			if id, is := some(t); is {
				w.silence(id)
			}
		},
		"wake":   func(*rapid.T) { w.wake() },
		"second": func(*rapid.T) { w.now = w.now.Add(time.Second) },
		"update": func(*rapid.T) {
			if w.m.Phase != jobs.Running || w.updates > 5 {
				return
			}
			w.updates++
			version := jobs.Version{Number: w.m.Next(), At: w.now, Why: "updated", Job: change(w.updates)}
			text, err := json.Marshal(version)
			if err != nil {
				w.t.Fatal(err)
			}
			w.store[VersionKey(version.Number)] = text
			w.step(Updated{version})
		},
	}
}

// calm lets everything go well until nothing happens any more.
func (w *world) calm() {
	for rounds := 0; ; rounds++ {
		if rounds > 10_000 {
			w.t.Fatalf("it does not come to rest:\n%s", w.m.Dump())
		}
		w.commit(false)
		busy := false
		for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
			task := w.tasks[id]
			switch {
			case task.silent:
				w.silence(id)
				busy = true
			case w.deliver(id):
				busy = true
			case !task.state.Terminal() && w.m.Job.Rolling() == nil && !w.endless:
				task.become(api.TaskFinished)
				busy = true
			}
		}
		w.commit(false)
		if w.offer(100) > 0 || busy {
			continue
		}
		if w.m.Phase.Ended() || !w.wake() {
			return
		}
	}
}

// TestBatchWhateverHappens: each index ends once, whatever the order of events.
func TestBatchWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "completions")
		speculate := rapid.SampledFrom([]float64{0, 1.1}).Draw(t, "speculate")
		job := func(int) jobs.Job {
			return jobs.Job{Name: "sum", Type: jobs.BatchType, Task: jobs.Task{Command: "true", Attempts: 1000,
				LostAfter: jobs.Duration(rapid.SampledFrom([]time.Duration{0, time.Minute, -1}).Draw(t, "lost after"))},
				Batch: &jobs.Batch{Completions: n, Parallelism: rapid.IntRange(1, 4).Draw(t, "parallelism"), Speculate: speculate}}
		}
		w := newWorld(t, job(0))
		t.Repeat(w.actions(job))
		w.calm()
		if w.m.Phase != jobs.Succeeded || w.m.Subs[0].Done != n {
			t.Fatalf("it is %s with %d of %d done:\n%s", w.m.Phase, w.m.Subs[0].Done, n, w.m.Dump())
		}
		if len(w.open()) > 0 {
			t.Fatalf("%v run on", w.open())
		}
		done := map[int]int{}
		for _, task := range w.tasks {
			if task.state == api.TaskFinished {
				_, index, _, _ := w.m.parseTask(task.id)
				done[index]++
			}
		}
		for index, times := range done {
			if times > 1 && w.quiet && speculate == 0 {
				t.Fatalf("index %d was done %d times", index, times)
			}
		}
		if len(done) != n {
			t.Fatalf("%d of %d indexes were done", len(done), n)
		}
		for key := range w.store {
			if key != HeaderKey && key[:len(versionPrefix)] != versionPrefix {
				t.Fatalf("the store still has %s", key)
			}
		}
	})
}

// TestDAGWhateverHappens: each step begins when the steps before it have ended, and in the end all steps have ended.
func TestDAGWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := jobs.Task{Command: "true", Attempts: rapid.SampledFrom([]int{1, 1000}).Draw(t, "attempts")}
		w := newWorld(t, jobs.Job{Name: "etl", Type: jobs.DAGType, Steps: []jobs.Step{
			{Name: "last", After: []string{"b", "c"}, When: jobs.Always, Task: task},
			{Name: "a", Completions: 2, Task: task},
			{Name: "b", After: []string{"a"}, Completions: 3, Failures: 1, Task: task, Speculate: rapid.SampledFrom([]float64{0, 1.1}).Draw(t, "speculate")},
			{Name: "c", After: []string{"a"}, When: jobs.OnFailure, Task: task},
		}})
		actions := w.actions(nil)
		delete(actions, "update")
		t.Repeat(actions)
		w.calm()
		if !w.m.Phase.Ended() || len(w.open()) > 0 {
			t.Fatalf("it is %s, and %v run:\n%s", w.m.Phase, w.open(), w.m.Dump())
		}
		ends := w.m.steps.findEnds()
		if (w.m.Phase == jobs.Succeeded) != (ends["a"] == endedWell && ends["b"] == endedWell && ends["last"] == endedWell) {
			t.Fatalf("it is %s with %v", w.m.Phase, ends)
		}
		if well := ends["a"] == endedWell; well != (ends["c"] == skipped) || well == (ends["b"] == skipped) || ends["last"] == skipped {
			t.Fatalf("the steps ended %v", ends)
		}
	})
}

// TestCronWhateverHappens: runs begin one after the other, and no number is used twice. No run begins while another one
// goes on, unless that is allowed. When the job is stopped, no run is left.
func TestCronWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlap := rapid.SampledFrom([]jobs.Overlap{jobs.Forbid, jobs.Allow, jobs.Replace}).Draw(t, "overlap")
		missed := rapid.SampledFrom([]jobs.Missed{jobs.RunOnce, jobs.Skip}).Draw(t, "missed")
		job := func(n int) jobs.Job {
			return jobs.Job{Name: "night", Type: jobs.CronType, Task: jobs.Task{Command: fmt.Sprint("true ", n), Attempts: 2},
				Cron: &jobs.Cron{Schedule: "10s", Overlap: overlap, Missed: missed, Keep: 3, Completions: rapid.IntRange(1, 3).Draw(t, "completions"),
					Failures: rapid.IntRange(0, 1).Draw(t, "failures"), Deadline: jobs.Duration(time.Minute), Speculate: rapid.SampledFrom([]float64{0, 1.1}).Draw(t, "speculate")}}
		}
		w := newWorld(t, job(0))
		actions := w.actions(job)
		actions[""] = func(*rapid.T) { w.checkRuns(overlap) }
		actions["long"] = func(*rapid.T) { w.now = w.now.Add(3 * time.Minute) }
		t.Repeat(actions)
		w.step(Asked{Why: "enough"})
		w.calm()
		if w.m.Phase != jobs.Stopped || len(w.open()) > 0 || len(w.m.Subs) > 0 {
			t.Fatalf("it is %s, and %v run:\n%s", w.m.Phase, w.open(), w.m.Dump())
		}
		for key := range w.store {
			if key != HeaderKey && key[:len(versionPrefix)] != versionPrefix {
				t.Fatalf("the store still has %s", key)
			}
		}
	})
}

func (w *world) checkRuns(overlap jobs.Overlap) {
	going := map[string]bool{}
	for _, other := range w.m.Subs {
		if other.Busy > 0 {
			going[other.Name] = true
		}
	}
	if overlap != jobs.Allow && len(going) > 1 {
		w.t.Fatalf("%v go on at a time", going)
	}
	last := 0
	for _, one := range w.m.runs.Cron.Past {
		if one.Number > w.m.runs.Cron.Number || overlap == jobs.Forbid && one.Number <= last {
			w.t.Fatalf("run %d is behind %d in %+v", one.Number, last, w.m.runs.Cron.Past)
		}
		last = one.Number
	}
	if len(w.m.runs.Cron.Past) > 3 {
		w.t.Fatalf("%d runs are kept", len(w.m.runs.Cron.Past))
	}
}

// TestSystemWhateverHappens: in the end each agent has one task, of the job's version. No agent ever has two tasks that
// were not asked to end.
func TestSystemWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := func(n int) jobs.Job {
			return jobs.Job{Name: "logs", Type: jobs.SystemType, Task: jobs.Task{Command: fmt.Sprint("ship ", n/2)},
				System: &jobs.System{AtOnce: rapid.IntRange(1, 2).Draw(t, "at once"), Canary: rapid.IntRange(0, 2).Draw(t, "canary"),
					KeepBad: rapid.Bool().Draw(t, "keep bad")}}
		}
		w := newWorld(t, job(0))
		actions := w.actions(job)
		actions[""] = func(t *rapid.T) {
			on := map[api.AgentID]int{}
			for _, s := range w.m.Subs[0].allSlots() {
				if s.busy() {
					on[s.live().Agent]++
				}
			}
			for agent, n := range on {
				if n > 1 {
					t.Fatalf("%s has %d tasks:\n%s", agent, n, w.m.Dump())
				}
			}
		}
		t.Repeat(actions)
		w.calm()
		sub := w.m.Subs[0]
		if len(w.open()) != 3 || sub.Running != 3 || sub.Slots != 3 || len(sub.AtAgent) != 3 || w.m.rolling.Roll.Active {
			t.Fatalf("%v run, wanted one on each of three agents:\n%s", w.open(), w.m.Dump())
		}
		for _, s := range sub.allSlots() {
			if s.Version != w.m.Version && !w.m.rolling.Roll.Stopped {
				t.Fatalf("%s has version %d, wanted %d", s.Agent, s.Version, w.m.Version)
			}
		}
	})
}

// TestGangWhateverHappens: all members begin together, and begin anew only when the former ones have ended. In the end
// all of them have ended well in one and the same beginning.
func TestGangWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "members")
		w := newWorld(t, jobs.Job{Name: "sim", Type: jobs.GangType, Task: jobs.Task{Command: "step", Attempts: 1000,
			LostAfter: jobs.Duration(rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "lost after"))}, Gang: &jobs.Gang{Members: n}})
		actions := w.actions(nil)
		delete(actions, "update")
		actions[""] = func(t *rapid.T) {
			if sub := w.m.Subs[0]; w.m.Phase == jobs.Running && !w.m.gangs.Gang.Regroup && sub.Slots > 0 && sub.Slots+sub.Done != n {
				t.Fatalf("%d members are there and %d are done, of %d:\n%s", sub.Slots, sub.Done, n, w.m.Dump())
			}
		}
		t.Repeat(actions)
		w.calm()
		if w.m.Phase != jobs.Succeeded || w.m.Subs[0].Done != n || len(w.open()) > 0 {
			t.Fatalf("it is %s with %d of %d done, and %v run:\n%s", w.m.Phase, w.m.Subs[0].Done, n, w.open(), w.m.Dump())
		}
		beginnings := map[int]int{} // members that ended well, by beginning: the attempts of one are n in a row
		best := 0
		for _, task := range w.tasks {
			if _, index, attempt, _ := w.m.parseTask(task.id); task.state == api.TaskFinished {
				beginnings[attempt-index]++
				best = max(best, beginnings[attempt-index])
			}
		}
		if best != n {
			t.Fatalf("in no beginning all %d members ended well: %v", n, beginnings)
		}
	})
}

// TestServiceWhateverHappens: in the end the service runs as many tasks as it should have, all of its version.
func TestServiceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := func(n int) jobs.Job {
			return jobs.Job{Name: "web", Type: jobs.ServiceType, Task: jobs.Task{Command: fmt.Sprint("serve ", n/2)},
				Service: &jobs.Service{Count: new(rapid.IntRange(0, 5).Draw(t, "count")), AtOnce: rapid.IntRange(1, 3).Draw(t, "at once"),
					Canary: rapid.IntRange(0, 2).Draw(t, "canary"), KeepBad: rapid.Bool().Draw(t, "keep bad")}}
		}
		w := newWorld(t, job(0))
		t.Repeat(w.actions(job))
		w.calm()
		sub := w.m.Subs[0]
		if len(w.open()) != sub.Tasks || sub.Running != sub.Tasks || w.m.Phase != jobs.Running {
			t.Fatalf("%v run, wanted %d:\n%s", w.open(), sub.Tasks, w.m.Dump())
		}
		for _, s := range sub.allSlots() {
			if s.Version != w.m.Version && !w.m.rolling.Roll.Stopped {
				t.Fatalf("index %d is of version %d, wanted %d", s.Index, s.Version, w.m.Version)
			}
		}
		if w.m.rolling.Roll.Active {
			t.Fatalf("the change is not done:\n%s", w.m.Dump())
		}
	})
}
