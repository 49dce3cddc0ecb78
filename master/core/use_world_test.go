package core_test

import (
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
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
	case "shares":
		for _, v := range w.core.View().Frameworks(view.Query{}).Items {
			w.say("%s has a dominant share of %.3f", v.Framework.ID, v.DominantShare)
		}
	case "gap":
		for _, v := range w.core.View().Agents(view.Query{Agent: a.info.ID}).Items {
			w.say("%s has %v revocable; %v is allocated, %v offered", a.name, v.Revocable, v.Allocated, v.Offered)
		}
	default:
		return false
	}
	return true
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
