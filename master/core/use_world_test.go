package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/view"
)

// verbOfUse is about what tasks really use.
func (w *world) verbOfUse(verb string, args transcript.Line) bool {
	a := w.agents[args.Word(0)]
	switch verb {
	case "use": // its tasks from now on: use a1 f1/t1=0.5/100
		if a.uses == nil {
			a.uses = make(map[api.TaskRef]api.Usage)
		}
		for name, text := range args.Named {
			cpus, mem, _ := strings.Cut(text, "/")
			amounts, err := api.ParseResources("cpus:" + cpus + ";mem:" + mem)
			if err != nil {
				panic(err)
			}
			a.uses[w.ref(name)] = api.Usage{CPU: amounts.Scalar("cpus"), Mem: amounts.Scalar("mem")}
		}
	case "freeze": // its heartbeats bring the same sample again and again
		a.frozen = w.now
	case "thaw":
		a.frozen = time.Time{}
	case "spent": // who has used how much: spent by=role,job since=1h
		w.spent(args)
	case "remembers": // the agent reports tasks that have ended
		a.remembers = true
	case "noted": // what was noted of a kind since it was asked last: noted task
		seen := w.follows.seen[change.Kind(args.Words[0])]
		for _, what := range slices.Sorted(maps.Keys(seen)) {
			w.say("%s %s: %d", args.Words[0], what, seen[what])
		}
		clear(seen)
	case "boast": // the agent remembers a task that has held so much since the last record: boast a1 f1/t9=cpus:4
		a.remembers = true
		for name, text := range args.Named {
			t := &fakeTask{}
			t.Resources, _ = api.ParseResources(text)
			t.LaunchedAt, t.Status.At, t.Status.State = w.registry.Usage.Until, w.now, api.TaskFinished
			a.settled[w.ref(name)] = t
		}
	case "shares":
		for _, v := range view.PageOf(w.core.View(), view.FrameworkList, view.Query{}).Items {
			w.say("%s has a dominant share of %.3f", v.Framework.ID, v.DominantShare)
		}
	case "gap":
		for _, v := range view.PageOf(w.core.View(), view.AgentList, view.Query{Agent: a.info.ID}).Items {
			w.say("%s has %v revocable; %v is allocated, %v offered", a.name, v.Revocable, v.Allocated, v.Offered)
		}
	default:
		return false
	}
	return true
}

// spent says who has used how much, told apart by the words of the line.
func (w *world) spent(args transcript.Line) {
	by, err := view.ParseUsageBy(strings.FieldsFunc(args.Named["by"], func(r rune) bool { return r == ',' }))
	if err != nil {
		panic(err)
	}
	for _, row := range w.core.View().Usage(w.now).Page(view.UsageQuery{By: by}).Items {
		who := strings.Join(strings.Fields(string(row.Role)+" "+row.Principal+" "+string(row.Framework)+" "+row.Job), " ")
		line := fmt.Sprintf("%s to %s %s:", row.Begin.Format("15:04"), row.End.Format("15:04"), who)
		for _, sum := range row.Sums {
			line += fmt.Sprintf(" %s %v held, %v used;", sum.Resource, api.Milli(sum.Held), api.Milli(sum.Used))
		}
		for _, ends := range row.Ends {
			line += fmt.Sprintf(" %d %v", ends.Count, ends.State)
		}
		w.say("%s", line)
	}
}

// stubs are of the tasks that have ended, as the agent reports them.
func (a *fakeAgent) stubs() (all []protocol.TaskStub) {
	for _, ref := range slices.SortedFunc(maps.Keys(a.settled), api.TaskRef.Compare) {
		if t := a.settled[ref]; a.remembers {
			all = append(all, protocol.TaskStub{
				TaskRef: ref, Role: t.Role, Status: t.Status, LaunchedAt: t.LaunchedAt, Resources: t.Resources, Job: t.Task.Labels[api.JobLabel],
			})
		}
	}
	return all
}

// sample is what the agent's tasks use. Stories that say nothing of it have no samples.
func (a *fakeAgent) sample(now time.Time) protocol.UsageReport {
	if a.uses == nil {
		return protocol.UsageReport{}
	}
	if !a.frozen.IsZero() {
		now = a.frozen
	}
	report := protocol.UsageReport{
		Total: api.Usage{At: now}, Executors: make(map[api.ExecutorRef]api.Usage), Tasks: make(map[api.TaskRef]api.Usage),
	}
	for ref := range a.executors {
		report.Executors[ref] = api.Usage{}
	}
	for ref, t := range a.tasks {
		if t.Ended || t.Status.State == api.TaskStaging {
			continue
		}
		use, said := a.uses[ref]
		if !said {
			use = api.Usage{CPU: t.Resources.Scalar("cpus"), Mem: t.Resources.Scalar("mem")}
		}
		report.Tasks[ref] = use
		executor := api.ExecutorRef{Framework: ref.Framework, Executor: t.Task.ExecutorID()}
		sum := report.Executors[executor]
		report.Executors[executor] = api.Usage{CPU: sum.CPU + use.CPU, Mem: sum.Mem + use.Mem}
	}
	return report
}

// TestUseIsNotedAsItMoves: whoever watches sees what the tasks of an agent use without asking, and not each sample.
func TestUseIsNotedAsItMoves(t *testing.T) {
	m := newMill(1)
	for i, cpu := range []api.Milli{1000, 1010, 990, 2000, 2000} {
		m.now = m.now.Add(time.Second)
		m.step(core.AgentCalled{Conn: 1, Calls: []protocol.AgentCall{protocol.AgentHeartbeat{Usage: protocol.UsageReport{Total: api.Usage{At: m.now, CPU: cpu}}}}})
		noted := slices.ContainsFunc(m.core.Changes(), func(r change.Record) bool { return r.Kind == change.Agent && r.What == change.Figures })
		if moved := i%3 == 0; noted != moved {
			t.Errorf("a sample of %d milli: it is noted: %v", cpu, noted)
		}
	}
}
