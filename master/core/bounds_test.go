package core_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core"
)

// heard counts what a framework is told.
type heard struct {
	answers int // to reconciliations
	results int // of operations
	refused map[string]int
	logged  map[string]int
}

func listen(w *world) *heard {
	h := &heard{refused: map[string]int{}, logged: map[string]int{}}
	w.quiet = true
	w.onEffect = func(effect core.Effect) {
		if log, is := effect.(core.Log); is {
			h.logged[log.Message]++
		}
		to, is := effect.(core.ToScheduler)
		if !is {
			return
		}
		switch event := to.Event.(type) {
		case protocol.Update:
			if event.Status.Reason == api.ReasonReconciliation {
				h.answers++
			}
		case protocol.OperationResult:
			h.results++
		case protocol.Refused:
			h.refused[event.Err.Kind.String()]++
		default: // the others mean nothing here
		}
	}
	return h
}

// withTasks is a world in which a framework has so many tasks, and how they are told is heard.
func withTasks(n int) (*world, *fakeFramework, *heard) {
	w := newWorld(policyNamed("fairshare"), core.Config{})
	h := listen(w)
	w.lead()
	agent := transcript.Parse("agent a1 cpus=1000 mem=1000000")
	w.newAgent(agent)
	framework := transcript.Parse("framework f1")
	w.newFramework(framework)
	f := w.frameworks["f1"]
	operations := make([]api.Operation, 100)
	for i := range n {
		operation := &operations[i%len(operations)]
		operation.Kind, operation.ID = api.OpLaunch, api.OperationID(fmt.Sprint("op", i%len(operations)))
		operation.Tasks = append(operation.Tasks, api.Task{
			ID: api.TaskID(fmt.Sprint("t", i)), Resources: api.Scalars(0.1, 1), Command: &api.Command{Argv: []string{"true"}},
		})
	}
	w.call(f, protocol.Accept{Offers: []api.OfferID{"offer-1-1"}, Operations: operations, Filter: api.NoFilter})
	return w, f, h
}

// TestReconcileAgainAndAgainIsOne: while the answer to a Reconcile without names is under way
// the next one is the same, so that no number of them queues anything.
func TestReconcileAgainAndAgainIsOne(t *testing.T) {
	const tasks = 1000
	w, f, h := withTasks(tasks)
	before := h.answers
	var calls []protocol.SchedulerCall
	for range 4000 {
		calls = append(calls, protocol.Reconcile{}, protocol.ReconcileOperations{})
	}
	h.results = 0
	w.call(f, calls...)
	if h.answers-before > 256 {
		t.Errorf("%d answers in one turn", h.answers-before)
	}
	w.pass(100 * time.Millisecond)
	if h.answers-before != tasks || h.results != 100 {
		t.Errorf("%d tasks and %d operations are told; %d and 100 are known", h.answers-before, h.results, tasks)
	}
	w.call(f, protocol.Reconcile{})
	w.pass(100 * time.Millisecond)
	if h.answers-before != 2*tasks {
		t.Errorf("asked again after all was told: %d answers", h.answers-before-tasks)
	}
}

// TestQuestionsAreBounded (R34): a call that names unknown tasks or operations is answered as long as not too many
// answers are still to come; then it is refused.
func TestQuestionsAreBounded(t *testing.T) {
	page := make([]protocol.UnsettledTask, 1000)
	ids := make([]api.OperationID, 1000)
	for i := range page {
		page[i] = protocol.UnsettledTask{Task: api.TaskID(fmt.Sprint("nobody-", i)), Agent: "agent-1"}
		ids[i] = api.OperationID(fmt.Sprint("nothing-", i))
	}
	for name, call := range map[string]protocol.SchedulerCall{
		"reconcile":  protocol.Reconcile{Tasks: page},
		"operations": protocol.ReconcileOperations{Operations: ids},
		"kill":       protocol.Kill{Task: "nobody", Agent: "agent-1"},
	} {
		w, f, h := withTasks(1)
		h.answers, h.results = 0, 0
		sent, each := 100_000, 1
		if name != "kill" {
			sent, each = 100, 1000
		}
		calls := make([]protocol.SchedulerCall, sent)
		for i := range calls {
			calls[i] = call
		}
		w.call(f, calls...)
		w.pass(2 * time.Second)
		told, refused := h.answers+h.results, h.refused["limit"]
		if refused == 0 || told+refused*each != sent*each || told > 65_536 {
			t.Errorf("%s: of %d questions %d are answered and %d refused", name, sent*each, told, refused*each)
		}
	}
}

// TestRefusedTasksAreOneLine: however many tasks of an accept are wrong, the log has one line.
func TestRefusedTasksAreOneLine(t *testing.T) {
	w, f, h := withTasks(1)
	w.pass(time.Second)                                      // what its launch has left is not offered again at once
	offer := slices.Max(slices.Collect(maps.Keys(f.offers))) // the newest: the fake remembers those that it has answered
	w.call(f, protocol.Accept{Offers: []api.OfferID{offer}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: make([]api.Task, 4096)}}})
	if h.logged["task refused"] != 1 {
		t.Errorf("%d lines", h.logged["task refused"])
	}
}

// TestConstraintsOfADemandAreBounded: in all roles of a framework together.
func TestConstraintsOfADemandAreBounded(t *testing.T) {
	w := newWorld(policyNamed("fairshare"), core.Config{})
	h := listen(w)
	w.lead()
	framework := transcript.Parse("framework f1 role=a,b")
	w.newFramework(framework)
	f := w.frameworks["f1"]
	demand := func(role api.Role, from, to int) protocol.SetDemand {
		var shapes []api.Shape
		for i := from; i < to; i++ {
			shapes = append(shapes, api.Shape{Count: 1, Resources: api.Scalars(1, 1), Constraint: fmt.Sprintf(`zone == "z%d"`, i)})
		}
		return protocol.SetDemand{Demand: api.Demand{Role: role, Shapes: shapes}}
	}
	w.call(f, demand("a", 0, 200), demand("b", 0, 256)) // 200 of them are the same
	if len(h.refused) != 0 {
		t.Errorf("refused: %v", h.refused)
	}
	w.call(f, demand("a", 300, 301))
	if h.refused["limit"] != 1 {
		t.Errorf("one too many: %v", h.refused)
	}
}

// TestADeadSessionLeavesNoQuestions: a framework that keeps asking an absent agent's questions in new sessions does not
// keep others from asking.
func TestADeadSessionLeavesNoQuestions(t *testing.T) {
	w, _, h := withTasks(1)
	w.agents["a1"].silent = true
	w.pass(10 * time.Second)
	framework := transcript.Parse("framework f2")
	w.newFramework(framework)
	f := w.frameworks["f2"]
	page := make([]protocol.UnsettledTask, 4096)
	for round := range 4 {
		for start := 0; start < 61_440; start += len(page) {
			for i := range page {
				page[i] = protocol.UnsettledTask{Task: api.TaskID(fmt.Sprint(round, "-", start+i)), Agent: "agent-1"}
			}
			w.call(f, protocol.Reconcile{Tasks: page})
		}
		w.pass(time.Second)
		if round < 3 {
			conn := f.conn
			f.hangUp()
			w.step(core.SchedulerClosed{Conn: conn})
			w.subscribe(f)
		}
	}
	h.answers = 0
	w.agents["a1"].silent = false
	w.register(w.agents["a1"])
	w.report(w.agents["a1"])
	w.pass(2 * time.Second)
	if h.answers < 61_440 {
		t.Errorf("%d of the last session's 61440 questions are answered", h.answers)
	}
}

// TestAFrameworkTellsOfItsJobs (R84): what a framework tells of its jobs becomes events; not in a role of others, and not
// without bounds.
func TestAFrameworkTellsOfItsJobs(t *testing.T) {
	w, f, h := withTasks(1)
	w.follows = newFollower()
	w.follows.begin(w.core)
	told := func(what string, role api.Role) protocol.JobEvent {
		return protocol.JobEvent{Event: api.JobEvent{Job: "web", What: what, Why: "version 2", Role: role, Owner: "ann"}}
	}
	var calls []protocol.SchedulerCall
	for range 1200 {
		calls = append(calls, told("updated", api.DefaultRole))
	}
	w.call(f, append(calls, told("stolen", "other"))...)
	seen := w.follows.seen[change.Job]
	if seen["updated"] != 1000 || h.refused["limit"] != 200 || seen["stolen"] != 0 || h.refused["invalid"] != 1 {
		t.Errorf("of 1200 events at once %v are noted, and refused are %v", seen, h.refused)
	}
	w.pass(3 * time.Second)
	w.call(f, calls...)
	if seen["updated"] != 1030 {
		t.Errorf("three seconds later %d more are noted", seen["updated"]-1000)
	}
	w.pass(time.Hour)
	w.call(f, calls...)
	if seen["updated"] != 2030 {
		t.Errorf("an hour later %d more are noted", seen["updated"]-1030)
	}
}
