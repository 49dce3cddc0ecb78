package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
)

// asked notes what the job asks of the SDK.
type asked struct {
	demands []string
	wanted  api.Shape // the shape of the last demand
	kills   []api.TaskID
}

func (a *asked) FrameworkID() api.FrameworkID { return "framework-1" }

func (a *asked) Demand(d api.Demand) error {
	text := "nothing"
	for _, shape := range d.Shapes {
		text, a.wanted = fmt.Sprintf("%d x %v", shape.Count, shape.Resources), shape
	}
	a.demands = append(a.demands, text)
	return nil
}

func (a *asked) Teardown() error { return nil }

func (a *asked) Kill(task api.TaskID, _ ...framework.KillOption) error {
	a.kills = append(a.kills, task)
	return nil
}

// story is a job with its surroundings.
type story struct {
	*job
	asked
	followed []string
	said     []string
}

func tell(instances int, change func(*Config)) *story {
	s := &story{}
	config := Config{Name: "hello", Role: api.DefaultRole, Instances: instances, Task: api.Task{Resources: api.Scalars(1, 100)}}
	config.Say = func(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) }
	config.Warn = config.Say
	if change != nil {
		change(&config)
	}
	s.job = newJob(context.Background(), config, func(a *attempt) { s.followed = append(s.followed, string(a.Task)+"@"+string(a.Agent)) })
	s.begin(&s.asked)
	return s
}

// offer makes an offer and returns the IDs of the tasks that were launched on it.
func (s *story) offer(cpus float64) []string { return s.offerOf("agent-1", cpus) }

func (s *story) offerOf(agent api.AgentID, cpus float64) (ids []string) {
	offer := api.Offer{ID: "offer-1-1", Agent: agent, Role: api.DefaultRole, Resources: api.Scalars(cpus, 1_000_000)}
	for _, answer := range s.Offers(context.Background(), []api.Offer{offer}) {
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				ids = append(ids, string(task.ID))
			}
		}
	}
	return ids
}

func (s *story) update(t *testing.T, task string, state api.TaskState, code ...int) {
	t.Helper()
	status := api.Status{Task: api.TaskID(task), Agent: "agent-1", State: state}
	if len(code) > 0 {
		status.ExitCode = &code[0]
	}
	if err := s.Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOffersAreFilledAndDemandShrinks(t *testing.T) {
	s := tell(3, nil)
	same(t, s.offer(0.5))
	same(t, s.offer(2), "hello.0", "hello.1")
	same(t, s.offer(2), "hello.2")
	same(t, s.offer(2))
	same(t, slices.Compact(s.demands), "3 x cpus:1;mem:100", "1 x cpus:1;mem:100", "nothing")
}

func TestOutputIsFollowedOnceFromTheAgentThatHasTheTask(t *testing.T) {
	s := tell(1, nil)
	s.offer(1)
	s.update(t, "hello.0", api.TaskStaging)
	same(t, s.followed)
	s.update(t, "hello.0", api.TaskStarting)
	s.update(t, "hello.0", api.TaskRunning)
	s.update(t, "hello.0", api.TaskFinished, 0)
	same(t, s.followed, "hello.0@agent-1")
	if !s.allOver() || s.code() != 0 {
		t.Errorf("over %v, code %d", s.allOver(), s.code())
	}
	same(t, s.said)
}

func TestTheExitCodeIsTheFirstThatIsNotZero(t *testing.T) {
	s := tell(4, nil)
	s.offer(4)
	s.update(t, "hello.3", api.TaskFailed, 9)
	s.update(t, "hello.0", api.TaskFinished, 0)
	s.update(t, "hello.2", api.TaskFailed, 137)
	if s.allOver() {
		t.Error("over too early")
	}
	s.update(t, "hello.1", api.TaskFinished, 0)
	if !s.allOver() || s.code() != 137 {
		t.Errorf("over %v, code %d", s.allOver(), s.code())
	}
	same(t, s.said, "hello.3 ended FAILED: exit code 9", "hello.2 ended FAILED: exit code 137")
}

func TestADroppedTaskIsTriedAgainUnderANewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, nil)
		same(t, s.offer(1), "hello.0")
		s.update(t, "hello.0", api.TaskDropped)
		same(t, s.offer(1)) // it rests first
		<-time.After(restMin + 1)
		same(t, s.offer(1), "hello.0.again1")
		s.update(t, "hello.0", api.TaskGone) // late news about the earlier attempt
		s.update(t, "hello.0.again1", api.TaskFinished, 0)
		if !s.allOver() || s.code() != 0 {
			t.Errorf("over %v, code %d", s.allOver(), s.code())
		}
	})
}

func TestALostTaskIsAFailureUnlessRetryIsWanted(t *testing.T) {
	s := tell(1, nil)
	s.offer(1)
	s.update(t, "hello.0", api.TaskRunning)
	s.update(t, "hello.0", api.TaskGone)
	if !s.allOver() || s.code() != 1 || !strings.Contains(s.said[0], "GONE") {
		t.Errorf("over %v, code %d, said %q", s.allOver(), s.code(), s.said)
	}
	s = tell(1, func(c *Config) { c.Retry = true })
	s.offer(1)
	s.update(t, "hello.0", api.TaskRunning)
	s.update(t, "hello.0", api.TaskGone)
	if s.allOver() {
		t.Error("over instead of tried again")
	}
}

// Without --retry a task that others have ended has failed. A task that has failed by itself always has.
func TestRetryIsForWhatTheTaskIsNotToBlameFor(t *testing.T) {
	code := 143
	for _, end := range []struct {
		status    api.Status
		blameless bool
	}{
		{api.Status{State: api.TaskGone, Reason: api.ReasonAgentRebooted}, true},
		{api.Status{State: api.TaskGoneByOperator, Reason: api.ReasonAgentGone}, true},
		{api.Status{State: api.TaskUnknown, Reason: api.ReasonReconciliation}, true}, // its agent was never admitted, as a restored registry says
		{api.Status{State: api.TaskKilled, Reason: api.ReasonRevoked, ExitCode: &code}, true},
		{api.Status{State: api.TaskKilled, Reason: api.ReasonPreempted, ExitCode: &code}, true},
		{api.Status{State: api.TaskKilled, Reason: api.ReasonAgentDraining, ExitCode: &code}, true},
		{api.Status{State: api.TaskKilled, Reason: api.ReasonKilledByOperator, ExitCode: &code}, false},
		{api.Status{State: api.TaskFailed, ExitCode: &code}, false},
		{api.Status{State: api.TaskError, Reason: api.ReasonTaskInvalid}, false},
	} {
		for _, retry := range []bool{false, true} {
			s := tell(1, func(c *Config) { c.Retry = retry })
			s.offer(1)
			s.update(t, "hello.0", api.TaskRunning)
			end.status.Task = "hello.0"
			if err := s.Update(t.Context(), end.status); err != nil {
				t.Fatal(err)
			}
			again := retry && end.blameless
			if s.allOver() == again {
				t.Errorf("%v, retry %v: over %v, said %q", why(end.status), retry, s.allOver(), s.said)
			}
			if !again && (s.code() == 0 || !end.blameless && end.status.State == api.TaskFailed && s.code() != 143) {
				t.Errorf("%v, retry %v: code %d", why(end.status), retry, s.code())
			}
		}
	}
}

// silent returns a run with one task, whose agent has been silent for longer than the task waits.
func silent(t *testing.T) *story {
	t.Helper()
	s := tell(1, func(c *Config) { c.Retry, c.Unreachable = true, time.Minute })
	s.offer(1)
	s.update(t, "hello.0", api.TaskRunning)
	s.update(t, "hello.0", api.TaskUnreachable)
	s.restartSilent(time.Now())
	same(t, s.offer(1))
	<-time.After(time.Minute)
	s.restartSilent(time.Now())
	s.restartSilent(time.Now())
	return s
}

func TestATaskOfASilentAgentIsStartedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent(t)
		same(t, s.offer(1)) // an offer of the silent agent itself
		same(t, s.offerOf("agent-2", 1), "hello.0.again1")
		s.update(t, "hello.0.again1", api.TaskFinished, 0)
		if !s.allOver() || s.code() != 0 || !slices.Equal(s.kills, []api.TaskID{"hello.0"}) {
			t.Errorf("over %v, code %d, killed %v", s.allOver(), s.code(), s.kills)
		}
		same(t, s.said, "hello.0: agent agent-1 is silent; waiting for it to come back",
			"hello.0 has been UNREACHABLE for 1m0s; starting it elsewhere")
	})
}

// A run checks by itself whether an agent has been silent for too long.
func TestARunStartsElsewhereByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, func(c *Config) { c.Retry, c.Unreachable = true, time.Minute })
		s.offer(1)
		config := s.config
		config.Operator = &desk{trouble: func() error { return nil }}
		r, done := &runner{config: config, job: s.job}, make(chan error, 1)
		go func() { done <- r.watch(t.Context(), make(chan error)) }()
		s.update(t, "hello.0", api.TaskRunning)
		s.update(t, "hello.0", api.TaskUnreachable)
		<-time.After(time.Minute - 2*lookEvery)
		synctest.Wait()
		same(t, s.offerOf("agent-2", 1))
		<-time.After(3 * lookEvery)
		synctest.Wait()
		same(t, s.offerOf("agent-2", 1), "hello.0.again1")
		s.update(t, "hello.0.again1", api.TaskFinished, 0)
		if err := <-done; err != nil || s.code() != 0 {
			t.Errorf("it ended with %v, code %d", err, s.code())
		}
	})
}

// An instance that has to be started again has not waited yet, however long ago the last launch was, so the reason is
// not asked for at once.
func TestAWaitBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, func(c *Config) { c.Retry = true })
		s.offer(1)
		s.update(t, "hello.0", api.TaskRunning)
		<-time.After(time.Hour)
		s.update(t, "hello.0", api.TaskGone)
		if idle := s.idle(time.Now()); idle != 0 {
			t.Errorf("it has waited for %v", idle)
		}
		<-time.After(time.Minute)
		if idle := s.idle(time.Now()); idle > time.Minute || idle < time.Minute-restMin {
			t.Errorf("it has waited for %v, not for a minute without its rest", idle)
		}
	})
}

func TestTheOneThatHasRunForLongerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent(t)
		same(t, s.offerOf("agent-2", 1), "hello.0.again1")
		s.update(t, "hello.0.again1", api.TaskRunning)
		s.update(t, "hello.0", api.TaskRunning)
		same(t, s.said[2:], "hello.0: agent agent-1 is back", "hello.0.again1 is ended: hello.0 goes on")
		s.update(t, "hello.0.again1", api.TaskKilled, 143)
		if s.allOver() || !slices.Equal(s.kills, []api.TaskID{"hello.0.again1"}) {
			t.Errorf("over %v, killed %v", s.allOver(), s.kills)
		}
		s.update(t, "hello.0", api.TaskFinished, 0)
		if !s.allOver() || s.code() != 0 {
			t.Errorf("over %v, code %d", s.allOver(), s.code())
		}
	})
}

func TestWhatIsBackBeforeItWasStartedElsewhereStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent(t)
		s.update(t, "hello.0", api.TaskRunning)
		same(t, s.offerOf("agent-2", 1))
		same(t, s.demands[len(s.demands)-1:], "nothing")
		// If the agent is lost after all, the other attempt is the only one.
		s.update(t, "hello.0", api.TaskGone)
		<-time.After(backoff.Max)
		same(t, s.offerOf("agent-2", 1), "hello.0.again1")
	})
}

// TestARunLeavesAnAgentWhereItFails: after three bad ends in a row the next attempt goes to another agent, for ten seconds
// or the longest pause (R62).
func TestARunLeavesAnAgentWhereItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(1, func(c *Config) { c.Restart = 10 })
		for _, task := range []string{"hello.0", "hello.0.again1", "hello.0.again2"} {
			same(t, s.offer(1), task)
			s.update(t, task, api.TaskFailed, 1)
			<-time.After(2 * time.Second)
		}
		same(t, s.offer(1))
		same(t, s.offerOf("agent-2", 1), "hello.0.again3")
		s.update(t, "hello.0.again3", api.TaskFailed, 1)
		<-time.After(3 * time.Second)
		same(t, s.offer(1))
		<-time.After(backoff.Max + backoff.AvoidFor())
		same(t, s.offer(1), "hello.0.again4")
	})
}

func TestWhenBothEndTheFirstGoodEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent(t)
		same(t, s.offerOf("agent-2", 1), "hello.0.again1")
		s.update(t, "hello.0.again1", api.TaskRunning)
		s.update(t, "hello.0", api.TaskGone) // the end of what is left of it
		if s.allOver() {
			t.Error("the other one still runs")
		}
		s.update(t, "hello.0.again1", api.TaskFailed, 3)
		if !s.allOver() || s.code() != 3 {
			t.Errorf("over %v, code %d", s.allOver(), s.code())
		}
	})
}

func TestASilentAgentIsAwaited(t *testing.T) {
	s := tell(1, nil)
	s.offer(1)
	s.update(t, "hello.0", api.TaskRunning)
	s.update(t, "hello.0", api.TaskUnreachable)
	s.update(t, "hello.0", api.TaskUnreachable)
	s.update(t, "hello.0", api.TaskRunning)
	same(t, s.said, "hello.0: agent agent-1 is silent; waiting for it to come back", "hello.0: agent agent-1 is back")
}

func TestAnInterruptKillsWhatRunsAndForgetsWhatWaits(t *testing.T) {
	s := tell(3, nil)
	s.offer(2)
	if n := s.killAll(); n != 2 || !slices.Equal(s.kills, []api.TaskID{"hello.0", "hello.1"}) {
		t.Errorf("awaits %d, killed %v", n, s.kills)
	}
	same(t, s.offer(2))
	s.update(t, "hello.0", api.TaskKilled, 143)
	s.update(t, "hello.1", api.TaskDropped) // it never started, so it is not tried again
	if !s.allOver() || s.code() != 143 {
		t.Errorf("over %v, code %d", s.allOver(), s.code())
	}
}

func TestAnInterruptBeforeAnythingRunsEndsAtOnce(t *testing.T) {
	s := tell(2, nil)
	if n := s.killAll(); n != 0 || !s.allOver() {
		t.Errorf("awaits %d, over %v", n, s.allOver())
	}
}

func agent(state string, total map[string]any) *apiv1.AgentView {
	fields, err := structpb.NewStruct(total)
	if err != nil {
		panic(err)
	}
	return &apiv1.AgentView{Id: "a", State: state, Total: fields}
}

func TestATaskLargerThanAnyAgentIsJudgedByWhatIsSurelyKnown(t *testing.T) {
	small := agent("RUNNING", map[string]any{"cpus": 4, "mem": 4096})
	other := agent("BUSY", map[string]any{"cpus": 16, "mem": 64, "ports": "[1-9]"})
	big := map[string]any{"cpus": 32, "mem": 65536}
	r := &runner{config: Config{Role: api.DefaultRole, Task: api.Task{Resources: api.Scalars(8, 100)}}}
	for _, test := range []struct {
		name   string
		agents []*apiv1.AgentView
		want   string
	}{
		{"nobody", nil, ""},
		{"too small", []*apiv1.AgentView{small}, "no agent is large enough: the largest has cpus 4, mem 4096; the task asks for cpus 8, mem 100"},
		{"the nearest is named", []*apiv1.AgentView{small, other}, "the largest has cpus 16, mem 64;"},
		{"one fits", []*apiv1.AgentView{small, agent("BUSY", big)}, ""},
		{"one may come back", []*apiv1.AgentView{small, agent("DISCONNECTED", big)}, ""},
		{"one is not known yet", []*apiv1.AgentView{small, agent("INITING", nil)}, ""},
		{"the large one is dead", []*apiv1.AgentView{small, agent("TOMBSTONE", big)}, "cpus 4"},
		{"the large one is another's", []*apiv1.AgentView{agent("RUNNING", map[string]any{"cpus(eng)": 32, "cpus": 2, "mem": 128})}, "cpus 2, mem 128"},
	} {
		err := r.judge(test.agents)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// What tasks leave unused may one day be everything that an agent has, and never more.
func TestARevocableTaskLargerThanAnyAgent(t *testing.T) {
	agents := []*apiv1.AgentView{agent("RUNNING", map[string]any{"cpus": 4, "mem": 4096})}
	r := &runner{config: Config{Role: api.DefaultRole, Revocable: true, Task: api.Task{Resources: api.Scalars(4, 100).AsRevocable()}}}
	if err := r.judge(agents); err != nil {
		t.Error(err)
	}
	r.config.Task.Resources = api.Scalars(8, 100).AsRevocable()
	if err := r.judge(agents); err == nil || !strings.Contains(err.Error(), "the largest has cpus 4, mem 4096;") {
		t.Error(err)
	}
}

func TestLinesOfSeveralTasksStayWhole(t *testing.T) {
	var stdout, stderr strings.Builder
	out := newOutputs(&stdout, &stderr, true)
	a, b := out.streams("t.0")[0], out.streams("t.1")[0]
	for _, step := range []struct {
		s    *stream
		text string
	}{{a, "one\ntw"}, {b, "1\n"}, {a, "o\nthr"}, {b, "2"}, {a, "ee"}} {
		if n, err := step.s.Write([]byte(step.text)); n != len(step.text) || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, s := range []*stream{a, b} {
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if want := "t.0 | one\nt.1 | 1\nt.0 | two\nt.0 | three\nt.1 | 2\n"; stdout.String() != want {
		t.Errorf("got %q, want %q", stdout.String(), want)
	}
}

func TestTheBytesOfOneTaskPassUntouched(t *testing.T) {
	var stdout, stderr strings.Builder
	streams := newOutputs(&stdout, &stderr, false).streams("t.0")
	for i, text := range []string{"out \x00\r no end", "err"} {
		if _, err := streams[i].Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if stdout.String() != "out \x00\r no end" || stderr.String() != "err" {
		t.Errorf("got %q and %q", stdout.String(), stderr.String())
	}
}

func TestAnEndInWords(t *testing.T) {
	code := 3
	for want, status := range map[string]api.Status{
		"FAILED: exit code 3":                       {State: api.TaskFailed, ExitCode: &code, Message: "exited with 3"},
		"FAILED: exit code 3: no such file":         {State: api.TaskFailed, ExitCode: &code, Message: "no such file"},
		"KILLED: AGENT_DRAINING: exit code 3":       {State: api.TaskKilled, Reason: api.ReasonAgentDraining, ExitCode: &code},
		"DROPPED: DISK_FULL: the agent has no room": {State: api.TaskDropped, Reason: api.ReasonDiskFull, Message: "the agent has no room"},
	} {
		if got := why(status); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A program that fails is started again only that often. One that somebody has killed is not started again.
func TestRestarts(t *testing.T) {
	s := tell(1, func(c *Config) { c.Restart = 1 })
	same(t, s.offer(1), "hello.0")
	s.update(t, "hello.0", api.TaskFailed, 3)
	s.again[0].rest = time.Time{}
	same(t, s.offer(1), "hello.0.again1")
	s.update(t, "hello.0.again1", api.TaskFailed, 4)
	if !s.allOver() || s.code() != 4 {
		t.Errorf("over: %v, exit code %d", s.allOver(), s.code())
	}
	if !slices.Contains(s.said, "hello.0 ended FAILED: exit code 3; starting it again") {
		t.Errorf("said: %q", s.said)
	}
	always := tell(1, func(c *Config) { c.Restart = -1 })
	same(t, always.offer(1), "hello.0")
	always.update(t, "hello.0", api.TaskFinished, 0)
	always.again[0].rest = time.Time{}
	same(t, always.offer(1), "hello.0.again1")
	if err := always.Update(t.Context(), api.Status{Task: "hello.0.again1", State: api.TaskKilled, Reason: api.ReasonKilledByOperator}); err != nil {
		t.Fatal(err)
	}
	if !always.allOver() {
		t.Error("what an operator has killed is started again")
	}
}

// Each task gets ports of its own from the offer, and tells where it can be reached once it runs. Where it should run
// is in the demand.
func TestPortsAndPlaces(t *testing.T) {
	s := tell(2, func(c *Config) {
		c.Task.Ports = map[string]uint16{"http": 0, "admin": 0}
		c.Preferred, c.Spread = []api.AgentID{"agent-7"}, api.ByZone
	})
	shape := s.wanted
	if want := "cpus:1;mem:100;ports:2"; shape.Resources.String() != want || shape.Spread[0].By != api.ByZone || shape.Preferred[0] != "agent-7" {
		t.Errorf("the demand is %+v, with %v", shape, shape.Resources)
	}
	offer := api.Offer{ID: "offer-1-1", Agent: "agent-1", Role: api.DefaultRole, Resources: api.Scalars(4, 4000).Plus(api.NewResources(
		api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 31000, End: 31002})}))}
	answers := s.Offers(t.Context(), []api.Offer{offer})
	tasks := answers[0].Operations[0].Tasks
	if len(tasks) != 1 || tasks[0].Ports["admin"] != 31001 || tasks[0].Ports["http"] != 31002 {
		t.Fatalf("launched: %+v", tasks)
	}
	for range 2 {
		status := api.Status{Task: "hello.0", Agent: "agent-1", State: api.TaskRunning,
			Whereabouts: api.Whereabouts{Hostname: "h1", Ports: tasks[0].Ports}}
		if err := s.Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
	}
	same(t, s.said, "hello.0 has admin at h1:31001, http at h1:31002")
}

// A run that detaches may leave when all tasks are on agents, and not before.
func TestDetachWaitsForTheAgents(t *testing.T) {
	s := tell(2, func(c *Config) { c.Detach = time.Hour })
	same(t, s.offer(1), "hello.0")
	s.update(t, "hello.0", api.TaskRunning)
	same(t, s.offer(1), "hello.1")
	s.update(t, "hello.1", api.TaskStaging)
	if s.detached() {
		t.Error("it leaves before an agent has the last task")
	}
	s.update(t, "hello.1", api.TaskStarting)
	if !s.detached() || s.allOver() {
		t.Errorf("it may leave: %v, all is over: %v", s.detached(), s.allOver())
	}
}
