package core

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/clock"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/wallclock"
)

// TestTranscripts plays testdata. Each line of a block is one event, and below it is what the JobMaster wants done. A
// clone is told every event too, and must end in the same state.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Story {
		return &story{store: map[string][]byte{}, now: clock.At(transcript.Epoch, time.Hour)}
	})
}

// story is a JobMaster with a clock and a store, to which everything is written at once.
type story struct {
	t        *testing.T
	m        *JobMaster
	now      time.Time
	trusted  time.Time // until when the clock that was set is not trusted; zero: it is
	believed time.Time // until when times of the store are not believed
	store    map[string][]byte
	kept     string // by this line the only key that is written ("none": no key), before the manager is killed; "": all are, and it lives
	out      transcript.Out
}

func (s *story) Said() string { return s.out.Take() }

func (s *story) Play(t *testing.T, line transcript.Line) {
	s.t, s.kept = t, line.Named["kept"]
	switch line.Verb {
	case "job": // job NAME TYPE and what its fields are
		s.m = New(s.version(1, line), "r1")
		s.save(VersionKey(1), HeaderKey)
		s.step(Begun{})
	case "update":
		version := s.version(s.m.Next(), line)
		text, err := json.Marshal(version)
		if err != nil {
			t.Fatal(err)
		}
		s.store[VersionKey(version.Number)] = text
		s.step(Updated{version})
	case "rollback":
		number, _ := strconv.Atoi(line.Word(0))
		s.step(Updated{s.m.Versions[number]})
	case "gang": // gang AGENT...: room for all members, on these agents by turns
		for _, ask := range s.m.Asks() {
			event := AssignedGang{SubJob: ask.SubJob, Version: ask.Version}
			for i := range ask.Count {
				agent := line.Words[i%len(line.Words)]
				event.Members = append(event.Members, Assigned{Agent: api.AgentID(agent), Hostname: "host-" + agent,
					Ports: map[string]uint16{"mpi": uint16(31000 + i)}})
			}
			s.step(event)
			for _, task := range s.m.GangTasks(ask.SubJob) {
				s.out.Say("%s is told: %s", task.ID, strings.ReplaceAll(task.Command.Env["TENDER_JOB_MEMBERS"], "\n", ", "))
			}
		}
	case "offer": // offer AGENT [n=]: room for n of the tasks that wait
		for range max(1, line.Number(t, "n")) {
			if asks := s.m.Asks(); len(asks) > 0 {
				s.step(Assigned{SubJob: asks[0].SubJob, Version: asks[0].Version, Agent: api.AgentID(line.Word(0))})
			}
		}
	case "copy": // copy AGENT: room for a copy of a slow task, if the agent may have one
		for _, ask := range s.m.Asks() {
			if _, is := s.m.Peek(ask, api.AgentID(line.Word(0))); ask.Copy && is {
				s.step(Assigned{SubJob: ask.SubJob, Version: ask.Version, Agent: api.AgentID(line.Word(0)), Copy: true})
				return
			}
		}
		s.out.Say("no copy of %s may be on %s", s.m.Job.Name, line.Word(0))
	case "undispatched":
		s.step(Undispatched{Task: s.task(line.Word(0)), Why: line.Named["why"]})
	case "run": // run NUMBER: somebody wants it to begin now
		number, _ := strconv.Atoi(line.Word(0))
		begun, err := s.m.MayRun(number)
		s.out.Say("run %d has begun: %v; refused: %v", number, begun, err)
		s.step(RunAsked{Number: number, Why: "ann asked for it"})
	case "stop", "delete":
		s.step(Asked{Delete: line.Verb == "delete", Why: "somebody asked for it"})
	case "tick":
		transcript.Tick(&s.now, transcript.Duration(t, line.Word(0)), s.wake, func() { s.step(Woken{}) })
	case "away": // time passes without a manager
		s.now = s.now.Add(transcript.Duration(t, line.Word(0)))
	case "set": // somebody sets the wall clock by so much, and the manager notices
		by := transcript.Duration(t, line.Word(0))
		s.setClock(by)
		believed := !s.now.Before(s.believed)
		s.trusted = s.now.Add(wallclock.Doubt)
		s.believed = s.trusted
		s.step(ClockSet{By: by, Doubt: s.trusted, Believed: believed})
	case "load": // another manager takes over; with clock= its wall clock differs so much from that of the one before
		s.setClock(transcript.Duration(t, line.Named["clock"]))
		s.trusted, s.believed = time.Time{}, s.now.Add(wallclock.Doubt)
		m, left, err := Load(s.now, s.store)
		if err != nil {
			t.Fatal(err)
		}
		s.m = m
		s.out.Say("loaded; unheard %v, to be killed %v, not needed %v", m.Unheard(), m.Kills(), left)
		s.plan()
	case "show":
		s.show()
	default: // a state, as in "RUNNING 0.1"
		state, err := api.ParseTaskState(line.Verb)
		if err != nil {
			t.Fatal(err)
		}
		s.step(Heard{s.status(line, state)})
	}
}

func (s *story) status(line transcript.Line, state api.TaskState) api.Status {
	status := api.Status{Task: s.task(line.Word(0)), State: state, Message: line.Named["message"]}
	if line.Has("preempted") {
		status.Reason = api.ReasonPreempted
	}
	if healthy, is := line.Named["healthy"]; is {
		yes := healthy == "true"
		status.Healthy = &yes
	}
	return status
}

// A task is written INDEX.ATTEMPT, or STEP/INDEX.ATTEMPT if it is of a step.
func (s *story) task(word string) api.TaskID {
	if step, rest, is := strings.Cut(word, "/"); is {
		return api.TaskID(s.m.Job.Name + ".r1." + step + "." + rest)
	}
	return api.TaskID(s.m.Job.Name + ".r1.main." + word)
}

func (s *story) version(number int, line transcript.Line) jobs.Version {
	job := jobs.Job{Name: line.Word(0), Type: jobs.Type(line.Word(1)), Task: jobs.Task{Command: line.Named["command"]}}
	n := func(name string) int { return int(line.Number(s.t, name)) }
	speculate := 0.0
	if text, is := line.Named["speculate"]; is {
		var err error
		if speculate, err = strconv.ParseFloat(text, 64); err != nil {
			s.t.Fatal(err)
		}
	}
	d := func(name string) jobs.Duration { return jobs.Duration(transcript.Duration(s.t, line.Named[name])) }
	if job.Task.Command == "" {
		job.Task.Command = "true"
	}
	job.Task.Attempts, job.Task.Timeout, job.Task.LostAfter = n("attempts"), d("timeout"), d("lost")
	if line.Has("checked") {
		job.Task.Checks = []jobs.Check{{Command: "well"}}
	}
	if job.Type == jobs.DAGType {
		job.Steps, job.Task = stepsOf(line, job.Task), jobs.Task{}
		for i := range job.Steps {
			job.Steps[i].Speculate = speculate
		}
	} else if job.Type == jobs.CronType {
		job.Cron = &jobs.Cron{Schedule: line.Named["every"], Overlap: jobs.Overlap(line.Named["overlap"]), Missed: jobs.Missed(line.Named["missed"]),
			Keep: n("keep"), Completions: n("n"), Parallelism: n("parallel"), Failures: n("failures"), Deadline: d("deadline"),
			Speculate: speculate}
	} else if job.Type == jobs.GangType {
		job.Gang = &jobs.Gang{Members: n("n"), OnFailure: jobs.OnGangFailure(line.Named["onfailure"]), Deadline: d("deadline")}
	} else if job.Type == jobs.SystemType {
		job.System = &jobs.System{AtOnce: n("atonce"), Proof: d("proof")}
	} else if job.Type == jobs.BatchType {
		job.Batch = &jobs.Batch{Completions: n("n"), Parallelism: n("parallel"), Failures: n("failures"), Deadline: d("deadline"), Speculate: speculate}
	} else {
		job.Service = &jobs.Service{Count: new(n("n")), AtOnce: n("atonce"), Canary: n("canary"), Proof: d("proof"), CanaryProof: d("canaryproof"),
			KeepBad: line.Has("keepbad")}
	}
	if err := job.Check(); err != nil {
		s.t.Fatal(err)
	}
	return jobs.Version{Number: number, At: s.now, Why: "written", Job: job}
}

// Steps are written NAME[*TASKS][:AFTER,AFTER][/WHEN].
func stepsOf(line transcript.Line, task jobs.Task) (list []jobs.Step) {
	for _, word := range line.Words[2:] {
		word, when, _ := strings.Cut(word, "/")
		word, after, _ := strings.Cut(word, ":")
		name, n, _ := strings.Cut(word, "*")
		step := jobs.Step{Name: name, When: jobs.When(when), Task: task}
		step.Completions, _ = strconv.Atoi(n)
		if after != "" {
			step.After = strings.Split(after, ",")
		}
		list = append(list, step)
	}
	return list
}

func (s *story) save(keys ...string) {
	for _, key := range keys {
		value, err := s.m.Record(key)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.store[key] = value; value == nil {
			delete(s.store, key)
		}
	}
}

func (s *story) step(happened Event) {
	twin := s.m.Clone()
	effects := s.m.Step(s.now, happened)
	if again := twin.Step(s.now, happened); !reflect.DeepEqual(again, effects) || !reflect.DeepEqual(twin, s.m) {
		s.t.Fatalf("a clone did %v, the original %v", again, effects)
	}
	for _, effect := range effects {
		if s.kept == "" || effect == (Save{s.kept}) {
			s.tell(effect)
		}
	}
	s.plan()
}

// setClock sets the wall clock; the monotonic time continues.
func (s *story) setClock(by time.Duration) {
	passed := s.now.Sub(clock.At(s.now.Round(0), 0))
	s.now = clock.At(s.now.Round(0).Add(by), passed)
}

// wake returns when the manager has something to do: it plans once the clock is trusted.
func (s *story) wake() time.Time {
	at := s.m.Wake()
	if s.trusted.After(s.now) && (at.IsZero() || s.trusted.Before(at)) {
		return s.trusted
	}
	return at
}

// plan tells a cron job when its next run is due, if the clock is trusted.
func (s *story) plan() {
	if s.now.Before(s.trusted) {
		return
	}
	if planned, is := plan(s.m, s.now); is {
		if !s.trusted.IsZero() {
			planned.Doubted = wallclock.Doubt
		}
		s.trusted = time.Time{}
		s.step(planned)
	}
}

// plan plays a manager's calendar, in which a schedule is the time between two runs.
func plan(m *JobMaster, now time.Time) (planned Planned, is bool) {
	from, is := m.Unplanned(now)
	if !is {
		return planned, false
	}
	planned, err := m.PlanRun(func(schedule, _ string, after time.Time) (time.Time, error) {
		every, err := time.ParseDuration(schedule)
		return after.Truncate(every).Add(every), err
	}, from, now)
	if err != nil {
		panic(err)
	}
	return planned, true
}

func (s *story) tell(effect Effect) {
	at := s.now.Round(0).Sub(transcript.Epoch)
	switch effect := effect.(type) {
	case Save:
		s.save(effect.Key)
		what := "save"
		if s.store[effect.Key] == nil {
			what = "delete"
		}
		s.out.Say("%6s  %s %s", at, what, effect.Key)
	case Dispatch:
		s.out.Say("%6s  dispatch %s to %s", at, effect.Task, effect.Agent)
	case Kill:
		s.out.Say("%6s  kill %s", at, effect.Task)
	case Acknowledge:
		s.out.Say("%6s  acknowledge %s %s", at, effect.Status.Task, effect.Status.State)
	case Tell:
		s.out.Say("%6s  tell %q: %s", at, effect.Event.What, effect.Event.Why)
	case Ended:
		s.out.Say("%6s  ended %s", at, effect.Phase)
	case Forgotten:
		s.out.Say("%6s  forgotten", at)
	}
}

func (s *story) show() {
	status := s.m.Status(true)
	s.out.Say("%s %s version %d %s", status.Name, status.Phase, status.Version, status.Why)
	for _, one := range status.SubJobs {
		s.out.Say("  %s", strings.Trim(fmt.Sprintf("%+v", one), "{}"))
	}
	if r := status.Roll; r != nil {
		s.out.Say("  change %+v", *r)
	}
	if !status.Next.IsZero() {
		s.out.Say("  the next run is due at %s", status.Next.Sub(transcript.Epoch))
	}
	for _, one := range status.Runs {
		s.out.Say("  run %d due at %s: %s after %s, version %d, %d done, %d failed", one.Number, one.Due.Sub(transcript.Epoch), one.State,
			one.Ended.Sub(one.Began), one.Version, one.Done, one.Failed)
	}
	for _, one := range status.Tasks {
		what := ""
		if one.Copy {
			what = ", a copy"
		}
		s.out.Say("  %s on %s %s version %d, try %d%s", one.Task, one.Agent, one.State, one.Version, one.Attempt, what)
	}
	for _, version := range s.m.History() {
		if version.Bad != "" {
			s.out.Say("  version %d is bad: %s", version.Number, version.Bad)
		} else if version.Proven {
			s.out.Say("  version %d is proven", version.Number)
		}
	}
	for _, note := range status.Notes {
		s.out.Say("  # %s %s", note.At.Sub(transcript.Epoch), note.Text)
	}
}
