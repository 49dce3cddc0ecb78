package wire_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func cpus(milli int64) []*apiv1.Resource { return []*apiv1.Resource{{Name: "cpus", Milli: milli}} }

func many[T any](n int, one T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}

var long = strings.Repeat("x", 256)

// A wrong call of a scheduler is refused with a sentence, and the other calls are carried out.
func TestWrongCallsOfSchedulers(t *testing.T) {
	framework := func(change func(*apiv1.Framework)) *apiv1.SchedulerCall {
		f := &apiv1.Framework{Id: "f1", Name: "web", Roles: []string{"eng"}}
		change(f)
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Update{Update: &apiv1.UpdateFramework{Framework: f}}}
	}
	accept := func(m *apiv1.Accept) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Accept{Accept: m}}
	}
	operation := func(m *apiv1.Operation) *apiv1.SchedulerCall {
		return accept(&apiv1.Accept{OfferIds: []string{"o"}, Operations: []*apiv1.Operation{m}})
	}
	reserve := func(items ...*apiv1.Resource) *apiv1.SchedulerCall {
		return operation(&apiv1.Operation{Kind: apiv1.OperationKind_RESERVE, Resources: items})
	}
	decline := func(ids []string, refuse *durationpb.Duration) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Decline{Decline: &apiv1.Decline{OfferIds: ids, Refuse: refuse}}}
	}
	kill := func(m *apiv1.Kill) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Kill{Kill: m}}
	}
	demand := func(shapes ...*apiv1.Shape) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Demand{Demand: &apiv1.SetDemand{Role: "eng", Shapes: shapes}}}
	}
	unsettled := func(m *apiv1.UnsettledTask) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Tasks: []*apiv1.UnsettledTask{m}}}}
	}
	for _, test := range []struct {
		call *apiv1.SchedulerCall
		kind api.Kind
		want string
	}{
		{&apiv1.SchedulerCall{}, api.Unsupported, "a call of a kind that is unknown here; is the master older than the scheduler?"},
		{accept(&apiv1.Accept{}), api.Invalid, "no offer is named"},
		{decline(many(1025, "o"), nil), api.Invalid, "1025 offers are named, at most 1024 are allowed"},
		{decline([]string{"a b"}, nil), api.Invalid, `offer ID "a b" holds ' '; letters, digits, '-', '_' and '.' are safe`},
		{decline([]string{"o"}, &durationpb.Duration{Seconds: math.MaxInt64}), api.Invalid,
			"refuse is 2562047h47m16.854775807s; at most 876000h0m0s is allowed"},
		{accept(&apiv1.Accept{OfferIds: []string{"o"}, Operations: many(1025, &apiv1.Operation{Kind: apiv1.OperationKind_LAUNCH})}), api.Invalid,
			"1025 operations in one accept, at most 1024 are allowed"},
		{operation(&apiv1.Operation{Kind: apiv1.OperationKind_LAUNCH, Tasks: many(4097, &apiv1.Task{})}), api.Invalid,
			"4097 tasks in one accept, at most 4096 are allowed"},
		{&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Reconcile{Reconcile: &apiv1.Reconcile{Tasks: many(4097, &apiv1.UnsettledTask{TaskId: "t"})}}},
			api.Invalid, "4097 tasks in one call, at most 4096 are allowed"},
		{&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Acknowledge{Acknowledge: &apiv1.Acknowledge{Items: many(4097, &apiv1.Acknowledgement{TaskId: "t"})}}},
			api.Invalid, "4097 acknowledgements in one call, at most 4096 are allowed"},
		{kill(nil), api.Invalid, "task ID is empty"},
		{kill(&apiv1.Kill{TaskId: "t", AgentId: "../a"}), api.Invalid, `agent ID "../a" holds '/'; letters, digits, '-', '_' and '.' are safe`},
		{kill(&apiv1.Kill{TaskId: "t", Grace: durationpb.New(-time.Second)}), api.Invalid, "grace is -1s; it must not be negative"},
		{kill(&apiv1.Kill{TaskId: long}), api.Invalid, "task ID has 256 bytes, at most 255 are allowed"},
		{operation(&apiv1.Operation{Kind: 77}), api.Unsupported, "operation of kind 77 is unknown here"},
		{operation(&apiv1.Operation{Kind: apiv1.OperationKind_CREATE_VOLUME, Volume: "v"}), api.Invalid,
			"creating a volume needs its ID and its size"},
		{operation(&apiv1.Operation{Kind: apiv1.OperationKind_DESTROY_VOLUME}), api.Invalid, "destroying a volume needs its ID"},
		{operation(&apiv1.Operation{Kind: apiv1.OperationKind_CREATE_VOLUME, Volume: "v", SizeMilli: -5}), api.Invalid,
			"size of a volume is -0.005; it must not be negative"},
		{reserve(cpus(-1)...), api.Invalid, "resources of an operation: cpus is -0.001; it must not be negative"},
		{reserve(cpus(math.MaxInt64)...), api.Invalid,
			"resources of an operation: cpus is 9223372036854775.807; at most 1000000000 is allowed"},
		{reserve(append(cpus(-1), cpus(5)...)...), api.Invalid, "resources of an operation: cpus is -0.001; it must not be negative"},
		{reserve(&apiv1.Resource{Name: "ports", Milli: 1, Ranges: []*apiv1.Range{{Begin: 1, End: 2}}}), api.Invalid,
			"resources of an operation: ports is of two kinds; it is a number, ranges or a set"},
		{reserve(&apiv1.Resource{Name: "ports", Ranges: []*apiv1.Range{{Begin: 5, End: 3}}}), api.Invalid,
			"resources of an operation: ports: range 5-3 ends before it begins"},
		{reserve(&apiv1.Resource{Name: "a:b", Milli: 1}), api.Invalid,
			`resources of an operation: resource "a:b": a name may not hold brackets, ':', ';', ',' or '='`},
		{reserve(&apiv1.Resource{Name: "cpus", Milli: 1, Reserved: "-x"}), api.Invalid,
			`resources of an operation: cpus: role "-x": a part may not be "*" or start with "-"`},
		{reserve(&apiv1.Resource{Name: "disk", Milli: 1, Volume: "v"}), api.Invalid,
			"resources of an operation: disk(volume=v): only reserved disk can be a volume"},
		{reserve(&apiv1.Resource{Name: "cpus", Milli: 1, Reserved: "eng", Revocable: true}), api.Invalid,
			"resources of an operation: cpus(eng,revocable): revocable resources can't be reserved"},
		{framework(func(f *apiv1.Framework) { f.Roles = many(65, "r") }), api.Limit, "65 roles, at most 64 are allowed in one message"},
		{framework(func(f *apiv1.Framework) { f.Roles = []string{"a", "b", "a"} }), api.Invalid, `role "a" is named twice`},
		{framework(func(f *apiv1.Framework) { f.Roles = []string{"a//b"} }), api.Invalid, `role "a//b": a part is empty`},
		{framework(func(f *apiv1.Framework) { f.Roles = []string{strings.Repeat("a/", 16) + "a"} }), api.Invalid,
			`role "` + strings.Repeat("a/", 16) + `a" is 17 levels deep, at most 16 are allowed`},
		{framework(func(f *apiv1.Framework) { f.Name, f.Standby = "", true }), api.Invalid,
			"a framework with standby needs a name; it is its identity"},
		{framework(func(f *apiv1.Framework) { f.Name = "a\nb" }), api.Invalid,
			`name "a\nb" holds a control character; write one line of text`},
		{framework(func(f *apiv1.Framework) { f.FailoverTimeout = durationpb.New(-1) }), api.Invalid,
			"failover timeout is -1ns; it must not be negative"},
		{framework(func(f *apiv1.Framework) { f.Labels = map[string]string{"": "x"} }), api.Invalid, "labels: a name is empty"},
		{&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Update{}}, api.Invalid, "no framework is described"},
		{demand(&apiv1.Shape{}), api.Invalid, "count of a shape is 0; it must be from 1 to 2147483647"},
		{demand(many(257, &apiv1.Shape{Count: 1})...), api.Limit, "257 shapes of a demand, at most 256 are allowed in one message"},
		{demand(many(17, &apiv1.Shape{Count: 1, Constraint: strings.Repeat("x", 4096)})...), api.Limit,
			"the constraints of a demand have 69632 bytes together, at most 65536 are allowed"},
		{unsettled(&apiv1.UnsettledTask{TaskId: "t", State: 14}), api.Invalid, "task state 14 is unknown"},
		{unsettled(&apiv1.UnsettledTask{TaskId: "t", State: -1}), api.Invalid, "task state -1 is unknown"},
	} {
		test.call.Number = 7
		next := &apiv1.SchedulerCall{Number: 8, Call: &apiv1.SchedulerCall_Heartbeat{}}
		calls, err := wire.SchedulerCallsFromProto(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{test.call, next}})
		if err != nil || len(calls) != 2 || calls[1].Call != (protocol.SchedulerHeartbeat{}) {
			t.Errorf("%s: it stopped the others: %v %v", test.want, calls, err)
			continue
		}
		malformed, ok := calls[0].Call.(protocol.Malformed)
		if !ok {
			t.Errorf("want %q, passed as %T", test.want, calls[0].Call)
			continue
		}
		checkError(t, malformed.Err, test.kind, "wire.scheduler", "call 7", test.want)
	}
}

func checkError(t *testing.T, err error, kind api.Kind, op, subject, want string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Errorf("want %q, passed", want)
		return
	}
	if e.Kind != kind || e.Op != op || e.Subject != subject || e.Err.Error() != want {
		t.Errorf("\n got %v %s %s: %s\nwant %v %s %s: %s", e.Kind, e.Op, e.Subject, e.Err, kind, op, subject, want)
	}
}

// After a wrong Subscribe, or a call without a number, nothing could be answered.
func TestCallsThatEndTheStreamOfAScheduler(t *testing.T) {
	heartbeat := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Heartbeat{}}
	for _, test := range []struct {
		call          *apiv1.SchedulerCall
		subject, want string
	}{
		{&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Teardown{}}, "call 0", "calls are numbered from 1"},
		{nil, "call 0", "calls are numbered from 1"},
		{&apiv1.SchedulerCall{Number: 2, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
			Framework: &apiv1.Framework{Roles: []string{"*"}}, Instance: "i"}}}, "call 2", `role "*": a part may not be "*" or start with "-"`},
		{&apiv1.SchedulerCall{Number: 2, Call: &apiv1.SchedulerCall_Subscribe{}}, "call 2", "no framework is described"},
		{&apiv1.SchedulerCall{Number: 2, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
			Framework: &apiv1.Framework{}}}}, "call 2", "instance is empty"},
	} {
		calls, err := wire.SchedulerCallsFromProto(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{heartbeat, test.call, heartbeat}})
		if len(calls) != 1 {
			t.Errorf("%s: %d calls before it", test.want, len(calls))
		}
		checkError(t, err, api.Invalid, "wire.scheduler", test.subject, test.want)
	}
}

// A wrong task in an accept reaches the core, whose check says what is wrong.
func TestBadTasksReachTheCore(t *testing.T) {
	good := func() *apiv1.Task {
		return &apiv1.Task{Id: "t", Resources: cpus(100), Command: &apiv1.Command{Shell: "true"}}
	}
	for _, test := range []struct {
		change func(*apiv1.Task)
		want   string
	}{
		{func(m *apiv1.Task) { m.Id = "a/b" }, `task ID "a/b" holds '/'; letters, digits, '-', '_' and '.' are safe`},
		{func(m *apiv1.Task) { m.Id = "" }, "task ID is empty"},
		{func(m *apiv1.Task) { m.Resources = nil }, "the task asks for no resources; it must ask for some, such as cpus:0.1"},
		{func(m *apiv1.Task) { m.Resources = cpus(-1) }, "cpus is -0.001; it must not be negative"},
		{func(m *apiv1.Task) {
			m.Resources = []*apiv1.Resource{{Name: "ports", Ranges: []*apiv1.Range{{Begin: 9, End: 8}}}}
		}, "ports: range 9-8 ends before it begins"},
		{func(m *apiv1.Task) { m.Command = nil }, "neither command nor executor nor image is set; set the one that runs the task"},
		{func(m *apiv1.Task) { m.Command = &apiv1.Command{} }, "the command is empty; set argv, or shell for a line of /bin/sh -c"},
		{func(m *apiv1.Task) { m.Command.Argv = []string{"x"} }, "the command has both argv and shell; set one of them"},
		{func(m *apiv1.Task) { m.Command.Env = map[string]string{"A=B": ""} }, `env: name "A=B" is empty or holds '='`},
		{func(m *apiv1.Task) { m.Command.Shell = "a\x00b" }, `shell is "a\x00b"; it must be UTF-8 without zero bytes`},
		{func(m *apiv1.Task) { m.Command.Uris = []*apiv1.URI{{Source: "https://x/y"}} },
			"URI https://x/y has no sha256; what comes over the network needs one"},
		{func(m *apiv1.Task) { m.Command.Uris = []*apiv1.URI{{Source: "/y", Sha256: "XYZ"}} },
			`URI /y: sha256 "XYZ" is not 64 lower-case hexadecimal digits`},
		{func(m *apiv1.Task) { m.Command.Uris = []*apiv1.URI{{Source: "/y", Name: "../z"}} },
			`a URI's name in the sandbox "../z" holds '/'; letters, digits, '-', '_' and '.' are safe`},
		{func(m *apiv1.Task) { m.KillGrace = durationpb.New(-1) }, "kill grace is -1ns; it must not be negative"},
		{func(m *apiv1.Task) { m.KillSignal = "SIGKILL" }, `kill signal "SIGKILL" is none; write one of SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH`},
		{func(m *apiv1.Task) { m.MaxCompletionTime = durationpb.New(-1) }, "max completion time is -1ns; it must not be negative"},
		{func(m *apiv1.Task) { m.Checks = []*apiv1.Check{{}} }, "check 1: 0 of command, http, tcp and grpc are set; set exactly one"},
		{func(m *apiv1.Task) { m.Checks = []*apiv1.Check{httpCheck("web", "/")} },
			`check 1: port "web" is none of the task's; name one of its Ports`},
		{func(m *apiv1.Task) { m.Checks = []*apiv1.Check{httpCheck("web", "up")} }, `check 1: path "up" does not begin with '/'`},
		{func(m *apiv1.Task) { m.Checks = []*apiv1.Check{commandCheck(m.Command, 1), commandCheck(m.Command, 0)} },
			"check 1: interval is 1ns; it must be 100ms or more"},
		{func(m *apiv1.Task) {
			m.Checks = []*apiv1.Check{commandCheck(m.Command, 0)}
			m.Executor = &apiv1.Executor{Id: "x", Command: m.Command}
		}, "check 1: commands are run by the built-in executor only; check over a port, or have your executor report Healthy itself"},
		{func(m *apiv1.Task) {
			m.Checks = []*apiv1.Check{commandCheck(&apiv1.Command{Shell: "x", Uris: []*apiv1.URI{{Source: "/y"}}}, 0)}
		}, "check 1: the command of a check fetches nothing; give the URIs to the task's own command"},
		{func(m *apiv1.Task) { m.Checks = []*apiv1.Check{commandCheck(&apiv1.Command{Shell: "x", Dir: "/y"}, 0)} },
			"check 1: the command of a check runs as its task's user and in its task's folder; give user and dir to the task's own command"},
		{func(m *apiv1.Task) { m.Command.Dir = "a/../.." }, `its folder "a/../.." leads out of the sandbox; write an absolute path, or one below the sandbox`},
		{func(m *apiv1.Task) {
			m.Checks = []*apiv1.Check{commandCheck(m.Command, 0)}
			m.Checks[0].Failures = 1001
		}, "check 1: failures is 1001; it must be from 1 to 1000, or 0 for 3"},
		{func(m *apiv1.Task) {
			for range api.ChecksMax + 1 {
				m.Checks = append(m.Checks, commandCheck(m.Command, 0))
			}
		}, "9 checks, at most 8 are allowed"},
		{func(m *apiv1.Task) { m.Limits = &apiv1.Limits{Pids: -1} }, "its limit of processes is -1; it must be 0, for what its agent allows, to 4194304"},
		{func(m *apiv1.Task) { m.Limits = &apiv1.Limits{MemMilli: -1} }, "its limit of memory is -0.001 MB; it must be 0 or not less than the 0 MB that it asks for"},
		{func(m *apiv1.Task) { m.Limits = &apiv1.Limits{CpusMilli: -1} }, "its limit of processors is -0.001; it must be 0, for none, to 1000000000"},
		{func(m *apiv1.Task) { m.Ports = map[string]uint32{"http": 70000} }, `port "http" must be a number from 1 to 65535`},
		{func(m *apiv1.Task) { m.Ports = map[string]uint32{"http": 80} },
			`port "http" is 80, which is not among the task's resources; ask for ports:[80]`},
		{func(m *apiv1.Task) { m.Executor = &apiv1.Executor{Id: "command"} },
			`executor ID "command" is the built-in one's; choose another, or leave the executor out`},
		{func(m *apiv1.Task) { m.Executor = &apiv1.Executor{Id: "x"} },
			`executor "x": the command is empty; set argv, or shell for a line of /bin/sh -c`},
		{func(m *apiv1.Task) {
			m.Executor = &apiv1.Executor{Id: "x", Command: m.Command, Resources: cpus(-1)}
		}, `executor "x": cpus is -0.001; it must not be negative`},
		{func(m *apiv1.Task) { m.Data = make([]byte, api.TaskBytesMax) },
			"the task has 262273 bytes with its command, environment and data, at most 262144 are allowed; bring more by a URI"},
	} {
		bad := good()
		test.change(bad)
		calls, err := wire.SchedulerCallsFromProto(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{{
			Number: 1, Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{OfferIds: []string{"o"}, Operations: []*apiv1.Operation{
				{Kind: apiv1.OperationKind_LAUNCH, Tasks: []*apiv1.Task{good(), bad, good()}}}}}}}})
		if err != nil || len(calls) != 1 {
			t.Fatal(calls, err)
		}
		accept, ok := calls[0].Call.(protocol.Accept)
		if !ok {
			t.Errorf("%s: it stopped the accept: %v", test.want, calls[0].Call)
			continue
		}
		tasks := accept.Operations[0].Tasks
		if err := tasks[1].Check(); err == nil || err.Error() != test.want {
			t.Errorf("\n got %v\nwant %s", err, test.want)
		}
		if tasks[0].Check() != nil || tasks[2].Check() != nil {
			t.Errorf("a good task is refused: %v %v", tasks[0].Check(), tasks[2].Check())
		}
	}
}

func TestWrongCallsOfAgents(t *testing.T) {
	status := func(change func(*apiv1.Status)) *apiv1.AgentCall {
		m := &apiv1.Status{FrameworkId: "f", TaskId: "t", State: apiv1.TaskState_RUNNING}
		change(m)
		return &apiv1.AgentCall{Call: &apiv1.AgentCall_Status{Status: m}}
	}
	report := func(m *apiv1.AgentReport) *apiv1.AgentCall {
		return &apiv1.AgentCall{Call: &apiv1.AgentCall_Report{Report: m}}
	}
	reported := func(m *apiv1.ReportedTask) *apiv1.AgentCall {
		return report(&apiv1.AgentReport{Tasks: []*apiv1.ReportedTask{m}})
	}
	fine := &apiv1.Status{FrameworkId: "f", TaskId: "t", State: apiv1.TaskState_RUNNING}
	for _, test := range []struct {
		call *apiv1.AgentCall
		kind api.Kind
		want string
	}{
		{&apiv1.AgentCall{}, api.Unsupported, "a call of a kind that is unknown here; is the master older than the agent?"},
		{&apiv1.AgentCall{Call: &apiv1.AgentCall_Register{}}, api.Invalid, "no agent is described"},
		{&apiv1.AgentCall{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{Agent: &apiv1.Agent{}}}}, api.Invalid, "nonce is empty"},
		{&apiv1.AgentCall{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{Nonce: "n",
			Agent: &apiv1.Agent{Resources: many(2000, &apiv1.Resource{Name: "cpus", Milli: -2})}}}}, api.Invalid,
			"resources: cpus is -0.002; it must not be negative"},
		{&apiv1.AgentCall{Call: &apiv1.AgentCall_Reregister{}}, api.Invalid, "reregistering needs the agent's ID; one without registers"},
		{&apiv1.AgentCall{Call: &apiv1.AgentCall_Status{}}, api.Invalid, "no status is there"},
		{status(func(m *apiv1.Status) { m.State = 0 }), api.Invalid, "task state 0 is unknown"},
		{status(func(m *apiv1.Status) { m.Reason = 99 }), api.Invalid, "reason 99 is unknown"},
		{status(func(m *apiv1.Status) { m.Source = 257 }), api.Invalid, "source 257 of a status is unknown"},
		{status(func(m *apiv1.Status) { m.At = &timestamppb.Timestamp{Seconds: math.MaxInt64} }), api.Invalid,
			"the time of a status is no moment between the years 1 and 9999"},
		{status(func(m *apiv1.Status) { m.Data = make([]byte, api.StatusDataBytesMax+1) }), api.Limit,
			"data of a status has 65537 bytes, at most 65536 are allowed"},
		{reported(&apiv1.ReportedTask{FrameworkId: "f", Role: "r", Status: fine}), api.Invalid, "a reported task is not described"},
		{reported(&apiv1.ReportedTask{Task: &apiv1.Task{Id: "t"}, FrameworkId: "f", Role: "r"}), api.Invalid, "no status is there"},
		{reported(&apiv1.ReportedTask{Task: &apiv1.Task{Id: "t", Resources: cpus(-1)}, FrameworkId: "f", Role: "r", Status: fine}), api.Invalid,
			"resources of a task: cpus is -0.001; it must not be negative"},
		{report(&apiv1.AgentReport{Executors: []*apiv1.ReportedExecutor{{FrameworkId: "f", Role: "r"}}}), api.Invalid, "executor ID is empty"},
		{report(&apiv1.AgentReport{Frameworks: []*apiv1.ReportedFramework{{Framework: &apiv1.Framework{}}}}), api.Invalid, "framework ID is empty"},
		{report(&apiv1.AgentReport{Stubs: []*apiv1.TaskStub{{FrameworkId: "f", TaskId: "t", Role: "r"}}}), api.Invalid, "no status is there"},
		{report(&apiv1.AgentReport{Usage: &apiv1.UsageReport{Total: &apiv1.Usage{CpuMilli: -1}}}), api.Invalid,
			"cpu of a usage is -0.001; it must not be negative"},
		{report(&apiv1.AgentReport{Usage: &apiv1.UsageReport{Total: &apiv1.Usage{Processes: -1}}}), api.Invalid,
			"a usage counts -1 processes; it must not be negative"},
	} {
		pong := &apiv1.AgentCall{Call: &apiv1.AgentCall_Heartbeat{}}
		calls, err := wire.AgentCallsAfter(0, &apiv1.AgentCalls{Calls: []*apiv1.AgentCall{pong, test.call, pong}})
		if len(calls) != 1 {
			t.Errorf("%s: %d calls before it", test.want, len(calls))
		}
		checkError(t, err, test.kind, "wire.agent", "call 2", test.want)
	}
}

func TestWrongCallsOfExecutors(t *testing.T) {
	status := func(m *apiv1.ExecutorStatus) *apiv1.ExecutorCall {
		return &apiv1.ExecutorCall{Call: &apiv1.ExecutorCall_Status{Status: m}}
	}
	for _, test := range []struct {
		call *apiv1.ExecutorCall
		kind api.Kind
		want string
	}{
		{nil, api.Unsupported, "a call of a kind that is unknown here; is the agent older than the executor?"},
		{&apiv1.ExecutorCall{Call: &apiv1.ExecutorCall_Subscribe{}}, api.Invalid, "framework ID is empty"},
		{status(nil), api.Invalid, "no status is there"},
		{status(&apiv1.ExecutorStatus{TaskId: "t", State: 3}), api.Invalid, "a status of an executor has no number; they count from 1"},
		{status(&apiv1.ExecutorStatus{TaskId: "t", State: 3, Number: 1, ProcessGroup: -1}), api.Invalid, "process group -1 can't be a task's"},
		{status(&apiv1.ExecutorStatus{TaskId: "t", State: 3, Number: 1, ProcessGroup: 1}), api.Invalid, "process group 1 can't be a task's"},
		{status(&apiv1.ExecutorStatus{TaskId: "t", State: 3, Number: 1, Data: make([]byte, 70000)}), api.Limit,
			"data of a status has 70000 bytes, at most 65536 are allowed"},
	} {
		_, err := wire.ExecutorCallsAfter(0, &apiv1.ExecutorCalls{Calls: []*apiv1.ExecutorCall{test.call}})
		checkError(t, err, test.kind, "wire.executor", "call 1", test.want)
	}
}

// Without a term nobody can tell whether to obey a master. Events that are newer than the reader are left out.
func TestEventsOfMasters(t *testing.T) {
	_, _, err := wire.SchedulerEventsFromProto(&apiv1.SchedulerEvents{})
	checkError(t, err, api.Invalid, "wire.scheduler", "", "a master's message carries no term")
	_, err = wire.AgentEventsFromProto(nil)
	checkError(t, err, api.Invalid, "wire.agent", "", "a master's message carries no term")

	term := &apiv1.Term{Number: 1}
	_, forScheduler, err := wire.SchedulerEventsFromProto(&apiv1.SchedulerEvents{Term: term, Events: []*apiv1.SchedulerEvent{nil, {},
		{Event: &apiv1.SchedulerEvent_Settled{}}}})
	if err != nil || len(forScheduler) != 1 {
		t.Fatal(forScheduler, err)
	}
	forAgent, err := wire.AgentEventsFromProto(&apiv1.AgentEvents{Term: term, Events: []*apiv1.AgentEvent{nil, {}, {Event: &apiv1.AgentEvent_Pong{}}}})
	if err != nil || len(forAgent.Events) != 1 {
		t.Fatal(forAgent, err)
	}
	forExecutor, err := wire.ExecutorEventsFromProto(&apiv1.ExecutorEvents{Events: []*apiv1.ExecutorEvent{nil, {}, {Event: &apiv1.ExecutorEvent_Shutdown{}}}})
	if err != nil || len(forExecutor) != 1 {
		t.Fatal(forExecutor, err)
	}
}

func httpCheck(port, path string) *apiv1.Check {
	return &apiv1.Check{How: &apiv1.Check_Http{Http: &apiv1.HTTPCheck{Port: port, Path: path}}}
}

func commandCheck(command *apiv1.Command, interval time.Duration) *apiv1.Check {
	check := &apiv1.Check{How: &apiv1.Check_Command{Command: command}}
	if interval > 0 {
		check.Interval = durationpb.New(interval)
	}
	return check
}
