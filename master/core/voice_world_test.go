package core_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
)

// verbOfVoices is what agents say that is not so, or no longer theirs to say.
func (w *world) verbOfVoices(verb string, args transcript.Line) bool {
	a := w.agents[args.Word(0)]
	switch verb {
	case "older": // the stream before an agent's newest says something, or breaks
		if args.Word(1) == "breaks" {
			w.step(core.AgentClosed{Conn: a.older})
			break
		}
		w.now = w.now.Add(time.Millisecond)
		w.step(core.AgentCalled{Conn: a.older, Calls: []protocol.AgentCall{protocol.AgentHeartbeat{}}})
		if a.conn == 0 {
			a.conn = a.older
		}
	case "claim": // the agent says that it has a task which it never got
		ref := w.ref(args.Word(1))
		number, _ := strconv.ParseUint(args.Named["number"], 10, 64)
		resources := resourcesOf(args)
		if volume := args.Named["volume"]; volume != "" {
			label := api.Label{Name: "disk", Reserved: "web", Dynamic: true, Volume: api.VolumeID(volume)}
			resources = resources.Plus(api.NewResources(api.Resource{Label: label, Scalar: 200_000}))
		}
		a.tasks[ref] = &fakeTask{ReportedTask: protocol.ReportedTask{
			Framework: ref.Framework, Task: api.Task{ID: ref.Task, Command: &api.Command{Shell: "sleep 1"}}, Role: api.DefaultRole, Resources: resources,
			Status: api.Status{Launch: api.LaunchID{Term: api.Term{Number: number}, Number: number}, Framework: ref.Framework, Task: ref.Task, Number: 1, State: api.TaskRunning},
		}}
		if other := args.Named["receipt-of"]; other != "" { // what it shows is another launch's
			holder, name, _ := strings.Cut(other, ":")
			a.tasks[ref].Receipt = w.agents[holder].tasks[w.ref(name)].Receipt
		}
	case "claim-executor": // the agent says that it has an executor which it never got, or one with other resources
		ref := api.ExecutorRef{Framework: w.ref(args.Word(1) + "/").Framework, Executor: api.ExecutorID(args.Word(2))}
		claimed := a.executors[ref] // with the receipt of what it got
		claimed.Framework, claimed.Executor.ID, claimed.Role, claimed.Resources = ref.Framework, ref.Executor, api.DefaultRole, resourcesOf(args)
		a.executors[ref] = claimed
		a.copies[ref.Framework] = api.Framework{ID: ref.Framework, Name: "payments", Principal: "alice", Standby: true, Roles: []api.Role{api.DefaultRole}}
	case "claim-more": // the agent says that a task of its own has other resources, and keeps the true receipt
		a.tasks[w.ref(args.Word(1))].Resources = resourcesOf(args)
	case "receipts": // the cluster's key from the next leader on: receipts one; receipts none
		w.config.ReceiptKey = nil
		if key := args.Word(0); key != "none" {
			w.config.ReceiptKey = []byte(key)
		}
	case "copy": // the agent says that it has a framework's copy
		a.copies[api.FrameworkID(args.Word(1))] = api.Framework{ID: api.FrameworkID(args.Word(1)), Name: "invented", Roles: []api.Role{api.DefaultRole}}
	case "invent": // the agent says a status of a task that it does not have
		ref := w.ref(args.Word(1))
		w.agentSays(a, protocol.StatusUpdate{Status: api.Status{Framework: ref.Framework, Task: ref.Task, Number: 1, State: api.TaskFinished, Source: api.MoverAgent}})
	case "set-back": // the agent's clock
		a.behind, _ = time.ParseDuration(args.Word(1))
	case "again": // again a1 f1/t1 2: the agent has sent that status of the task once more, before it was told anything since
		number, _ := strconv.ParseUint(args.Word(2), 10, 64)
		times, _ := strconv.Atoi(cmp.Or(args.Named["times"], "1"))
		for _, status := range slices.Backward(a.said) {
			if status.Ref() == w.ref(args.Word(1)) && status.Number == number {
				for range times {
					w.agentSays(a, protocol.StatusUpdate{Status: status})
				}
				break
			}
		}
	case "missed": // the agent has missed that the task's end was acknowledged, and what came behind that
		if t := a.settled[w.ref(args.Word(1))]; t != nil {
			a.tasks[w.ref(args.Word(1))] = t
		}
	case "speak": // the agent carries a message of an executor
		ref := api.ExecutorRef{Framework: w.ref(args.Word(1) + "/").Framework, Executor: api.ExecutorID(args.Word(2))}
		w.agentSays(a, protocol.MessageFromExecutor{ExecutorRef: ref, Data: []byte("hello")})
	default:
		return false
	}
	return true
}
