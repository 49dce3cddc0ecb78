package wire_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

func notLeader(address string) error { return wire.NotLeader("", address).Err }

// sameErrors compares errors by their content.
var sameErrors = cmp.Comparer(func(a, b *api.Error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && api.RetryAfter(a) == api.RetryAfter(b) && a.Op == b.Op && a.Subject == b.Subject && a.Error() == b.Error() && wire.LeaderOf(a) == wire.LeaderOf(b)
})

func same[T any](t *rapid.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameErrors, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Fatalf("came back changed (-sent +read):\n%s", diff)
	}
}

// travel encodes and decodes the message.
func travel[M proto.Message](t *rapid.T, sent M) M {
	t.Helper()
	text, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	read := sent.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	return read.(M)
}

// each makes one value of every type, so that every run has messages of all types.
func each[T any](makers []func() T) []T {
	var all []T
	for _, one := range makers {
		all = append(all, one())
	}
	return all
}

func none(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSchedulerCallsComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []protocol.NumberedCall
		for i, call := range each(gen{t}.schedulerCalls()) {
			sent = append(sent, protocol.NumberedCall{Number: uint64(i + 1), Call: call})
		}
		read, err := wire.SchedulerCallsFromProto(travel(t, wire.SchedulerCallsToProto(sent)))
		none(t, err)
		same(t, sent, read)
	})
}

func TestSchedulerEventsComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		term, sent := g.term(), each(g.schedulerEvents())
		gotTerm, read, err := wire.SchedulerEventsFromProto(travel(t, wire.SchedulerEventsToProto(term, sent)))
		none(t, err)
		same(t, term, gotTerm)
		same(t, sent, read)
	})
}

func TestAgentCallsComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := each(gen{t}.agentCalls())
		read, err := wire.AgentCallsAfter(0, travel(t, wire.AgentCallsToProto(sent)))
		none(t, err)
		same(t, sent, read)
	})
}

func TestAgentEventsComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		sent := protocol.AgentEvents{Term: g.term(), Session: g.number(), Events: each(g.agentEvents())}
		read, err := wire.AgentEventsFromProto(travel(t, wire.AgentEventsToProto(sent)))
		none(t, err)
		same(t, sent, read)
	})
}

func TestExecutorMessagesComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		calls := each(g.executorCalls())
		readCalls, err := wire.ExecutorCallsAfter(0, travel(t, wire.ExecutorCallsToProto(calls)))
		none(t, err)
		same(t, calls, readCalls)

		events := each(g.executorEvents())
		readEvents, err := wire.ExecutorEventsFromProto(travel(t, wire.ExecutorEventsToProto(events)))
		none(t, err)
		same(t, events, readEvents)
	})
}

// taskHeader is what a message takes around each of its tasks.
const taskHeader = 4

func TestNounsComeBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		task := g.task()
		none(t, task.Check())
		same(t, task, wire.TaskFromProto(travel(t, wire.TaskToProto(task))))
		if size := proto.Size(wire.TaskToProto(task)); size+taskHeader > task.Bytes() {
			t.Errorf("a task takes %d bytes in a message and is estimated at %d; its Bytes lack a field: %+v", size+taskHeader, task.Bytes(), task)
		}

		resources := g.resources()
		read, err := wire.ResourcesFromProto(wire.ResourcesToProto(resources))
		none(t, err)
		same(t, resources, read)

		shown, err := wire.ResourcesFromStruct(wire.ResourcesStruct(resources))
		none(t, err)
		same(t, resources, shown)
	})
}

// Whatever a text contains, the message can be sent.
func TestTextsThatAreNotUTF8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bad := string(rapid.SliceOfN(rapid.Byte(), 1, 10).Draw(t, "bad"))
		words := map[string]string{bad: bad}
		command := api.Command{Argv: []string{bad}, Shell: bad, User: bad, Env: words, URIs: []api.URI{{Source: bad, Name: bad, SHA256: bad}}}
		task := api.Task{ID: api.TaskID(bad), Name: bad, Command: &command, Labels: words, Ports: map[string]uint16{bad: 1},
			Resources: api.NewResources(api.Resource{Label: api.Label{Name: bad}, Set: api.NewSet(bad)}),
			Executor:  &api.Executor{ID: api.ExecutorID(bad), Command: command, Labels: words}}
		for _, m := range []proto.Message{
			wire.TaskToProto(task),
			wire.StatusToProto(api.Status{Task: api.TaskID(bad), Message: bad}),
			wire.AgentToProto(api.Agent{Hostname: bad, Attributes: words, Address: bad}),
			wire.FrameworkToProto(api.Framework{Name: bad, Roles: []api.Role{api.Role(bad)}, Labels: words, Constraint: bad}),
			wire.ErrorToProto(api.E(bad, api.Invalid, bad, notLeader(bad))),
			wire.ResourcesStruct(task.Resources),
		} {
			if _, err := proto.Marshal(m); err != nil {
				t.Fatalf("%T of %q: %v", m, bad, err)
			}
		}
	})
}

func TestStatusMessagesAreCutBetweenCharacters(t *testing.T) {
	long := string(bytes.Repeat([]byte("€"), api.StatusMessageBytesMax)) // three bytes each
	code := math.MaxInt
	m := wire.StatusToProto(api.Status{Message: long, ExitCode: &code})
	if len(m.Message) != api.StatusMessageBytesMax/3*3 || m.GetExitCode() != math.MaxInt32 {
		t.Fatalf("%d bytes, exit %d", len(m.Message), m.GetExitCode())
	}
	if _, err := proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
}

func TestEnumsHaveTheNumbersOfTheProtos(t *testing.T) {
	equal := func(noun string, number int, have, want string) {
		if have != want {
			t.Errorf("%s %d is %q in api and %q in api/v1", noun, number, have, want)
		}
	}
	for number, name := range apiv1.TaskState_name {
		if number > 0 {
			equal("task state", int(number), api.TaskState(number).String(), name)
		}
	}
	for number, name := range apiv1.Reason_name {
		if number > 0 {
			equal("reason", int(number), api.Reason(number).String(), name)
		}
		ended := &apiv1.Status{FrameworkId: "f", TaskId: "t", State: apiv1.TaskState_FAILED, Reason: apiv1.Reason(number)}
		if _, err := wire.StatusFromProto(ended); err != nil {
			t.Errorf("a status with the reason %s is refused: %v", name, err)
		}
	}
	movers := map[int32]api.Mover{1: api.MoverMaster, 2: api.MoverAgent, 4: api.MoverExecutor}
	for number, name := range apiv1.Source_name {
		if number > 0 {
			equal("source", int(number), string(bytes.ToUpper([]byte(movers[number].String()))), name)
		}
	}
	kinds := map[api.OperationKind]apiv1.OperationKind{
		api.OpLaunch: apiv1.OperationKind_LAUNCH, api.OpReserve: apiv1.OperationKind_RESERVE,
		api.OpUnreserve: apiv1.OperationKind_UNRESERVE, api.OpCreate: apiv1.OperationKind_CREATE_VOLUME,
		api.OpDestroy: apiv1.OperationKind_DESTROY_VOLUME, api.OpLaunchGroup: apiv1.OperationKind_LAUNCH_GROUP,
	}
	if len(kinds) != len(apiv1.OperationKind_name)-1 {
		t.Error("kinds of operations differ in number")
	}
	for kind, m := range kinds {
		if int32(kind) != int32(m) {
			t.Errorf("%v is %d in api and %d in api/v1", kind, kind, m)
		}
	}
	if next := api.TaskState(len(apiv1.TaskState_name)).String(); !strings.HasPrefix(next, "STATE_") {
		t.Errorf("the task state %s is in api alone", next)
	}
	if next := api.Reason(len(apiv1.Reason_name)).String(); !strings.HasPrefix(next, "REASON_") {
		t.Errorf("the reason %s is in api alone", next)
	}
	if got, want := len(apiv1.ErrorKind_name), int(api.Unsupported)+1; got != want {
		t.Errorf("%d kinds of errors in api/v1, %d in api", got, want)
	}
	for number, name := range apiv1.ErrorKind_name {
		want := string(bytes.ToUpper(bytes.ReplaceAll([]byte(api.Kind(number).String()), []byte(" "), []byte("_"))))
		equal("kind of error", int(number), want, name)
	}
}

// A status names no more GPUs than any agent has, whatever a peer sends.
func TestStatusOfManyGPUs(t *testing.T) {
	m := wire.StatusToProto(api.Status{Framework: "f1", Task: "t1", Number: 1, State: api.TaskRunning, Source: api.MoverAgent, Given: api.Given{GPUs: make([]uint32, 5000)}})
	if status, err := wire.StatusFromProto(m); err != nil || len(status.GPUs) != 1024 {
		t.Errorf("%d, %v", len(status.GPUs), err)
	}
}
