package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/view"
)

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (w *world) verbOfViews(verb string, args transcript.Line) bool {
	query := view.Query{All: args.Word(0) == "all", Prefix: args.Named["prefix"], After: w.said(args.Named["after"])}
	if limit, ok := args.Named["limit"]; ok {
		var err error
		if query.Limit, err = strconv.Atoi(limit); err != nil {
			panic(err)
		}
	}
	if state := args.Named["state"]; state != "" {
		query.States = strings.Split(state, ",")
	}
	cluster := w.core.View()
	if args.Word(0) == "follower" { // which has only the registry
		cluster.Leader = nil
	}
	next := ""
	switch verb {
	case "agents":
		page := view.PageOf(cluster, view.AgentList, query)
		for _, v := range page.Items {
			w.say("%s %s%s%s total=%v allocated=%v offered=%v free=%v tasks=%d%s%s", v.Agent.ID, v.StateWord(), because(v.Why), markWords(v.Marks),
				v.Agent.Resources, v.Allocated, v.Offered, v.Free, v.Tasks, map[bool]string{true: "+"}[v.MaybeMore], w.windowWords(v)+awaitedWords(v))
			for _, o := range v.Volumes.Orphans {
				w.say("  orphaned %v: %s", o.Volume, o.Why)
			}
		}
		next = page.Next
	case "ill":
		counts := w.core.View().Counts()
		for _, illness := range view.Illnesses {
			if n := counts.Ill[illness]; n > 0 {
				w.say("%s: %d", illness, n)
			}
		}
		if counts.Versions.Count > 0 {
			w.say("versions refused: %d, the last is %s", counts.Versions.Count, counts.Versions.Last)
		}
	case "frameworks":
		page := view.PageOf(cluster, view.FrameworkList, query)
		for _, v := range page.Items {
			w.say("%s %s%s roles=%v session=%d allocated=%v offered=%v share=%.3f tasks=%d offers=%d%s", v.Framework.ID, v.State, because(v.Why),
				v.Framework.Roles, v.Session, v.Allocated, v.Offered, v.DominantShare, v.Tasks, v.Offers, demandWords(v.Demand))
		}
		next = page.Next
	case "list-tasks": // which read-tasks reads, page by page
		w.rows, w.place = view.TaskList(cluster, query), 0
		w.rows.Sort()
	case "tasks", "read-tasks":
		page := view.Page[view.Task]{}
		if verb == "tasks" {
			page = view.PageOf(cluster, view.TaskList, query)
		} else {
			w.place, _ = w.rows.Read(cluster, &query, w.place, &page)
		}
		for _, v := range page.Items {
			w.say("%s/%s %s%s on %s with %v", v.Framework, v.Task.ID, v.Status.State, because(v.Status.Reason.String()), v.Agent, v.Resources)
		}
		next = page.Next
	case "task": // task TASK [exactly]
		v, err := cluster.TaskCalled("task", w.said(args.Word(0)), args.Word(1) == "exactly")
		if err != nil {
			w.say("%v", err)
			break
		}
		w.say("%s/%s %s on %s", v.Framework, v.Task.ID, v.Status.State, v.Agent)
	case "offers":
		page := view.PageOf(w.core.View(), view.OfferList, query)
		for _, v := range page.Items {
			w.say("%s to %s of %s: %v for %v", v.Offer.ID, v.Offer.Framework, v.Offer.Agent, v.Offer.Resources, v.Expires.Sub(w.now))
		}
		next = page.Next
	case "list-executors":
		if notYet := cluster.NotYet("executors", "", query.Agent); notYet != nil {
			w.say("%v", notYet)
		}
		page := view.PageOf(cluster, view.ExecutorList, query)
		for _, v := range page.Items {
			w.say("%v on %s in %s with %v, %d tasks%s", v.Ref, v.Agent, v.Role, v.Resources, v.Tasks, map[bool]string{true: ", launching"}[v.Launching])
		}
		next = page.Next
	case "list-operations":
		page := view.PageOf(cluster, view.OperationList, query)
		for _, v := range page.Items {
			w.say("%s of %s on %s %s%s", v.Operation.ID, v.Framework, v.Agent, v.State, because(v.Why))
		}
		next = page.Next
	case "roles":
		page := view.PageOf(cluster, view.RoleList, query)
		for _, v := range page.Items {
			w.say("%s weight=%v priority=%d guarantee=%v limit=%v allocated=%v offered=%v reserved=%v share=%.3f frameworks=%d", v.Role, v.Weight, v.Priority,
				v.Guarantee, v.Limit, v.Allocated, v.Offered, v.Reserved, v.DominantShare, v.Frameworks)
		}
		next = page.Next
	case "explain":
		w.explainLine(args)
	case "explain-shape": // explain-shape FRAMEWORK 3xcpus:1 together= constraint= most=
		asked := view.ShapeAsked{Shape: w.shapeOf(args.Word(1)), Together: args.Named["together"] == "yes"}
		asked.Shape.Constraint = args.Named["constraint"]
		if most, err := strconv.ParseInt(args.Named["most"], 10, 64); err == nil {
			asked.Shape.Spread = []api.Spread{{By: api.ByAgent, Most: most}}
		}
		explained, inVain, err := w.core.View().ExplainShape(w.said(args.Word(0)), asked, w.now)
		if err != nil {
			w.say("%v", err)
		}
		if inVain {
			w.say("in vain:")
		}
		for _, reason := range explained.Reasons {
			w.say("%s", reason)
		}
	default:
		return false
	}
	if next != "" {
		w.say("more after %s", next)
	}
	return true
}

func (w *world) explainLine(args transcript.Line) {
	view, err := w.core.View().Explain(w.said(args.Word(0)), w.said(args.Word(1)), w.now)
	if err != nil {
		w.say("%v", err)
		return
	}
	for _, reason := range view.Reasons {
		w.say("%s", reason)
	}
	for _, agent := range view.Agents {
		w.say("%s: %s", agent.Agent, agent.Why)
	}
	for _, one := range view.Decisions {
		w.say("%v ago %s of %s in %s, %v: %s: %s", w.now.Sub(one.At), one.Offer, one.Agent, one.Role, one.Resources, one.Outcome, one.Words())
	}
}

// demandWords is what is wanted, role by role; nothing where no demand is stated.
func demandWords(demands []api.Demand) string {
	var words strings.Builder
	for _, demand := range demands {
		fmt.Fprintf(&words, " demand(%s)=", demand.Role)
		if len(demand.Shapes) == 0 {
			words.WriteString("nothing")
		}
		for i, shape := range demand.Shapes {
			if i > 0 {
				words.WriteByte(',')
			}
			fmt.Fprintf(&words, "%dx%v", shape.Count, shape.Resources)
		}
	}
	return words.String()
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func markWords(marks api.Mark) string {
	if marks == 0 {
		return ""
	}
	return " " + strings.Join(marks.Strings(), "+")
}

// windowWords tell a planned maintenance and what frameworks have answered.
func (w *world) windowWords(v view.Agent) string {
	if v.Maintenance.Start.IsZero() {
		return ""
	}
	words := fmt.Sprintf(" maintenance in %v for %v", v.Maintenance.Start.Sub(w.now), v.Maintenance.Duration)
	for _, id := range slices.Sorted(maps.Keys(v.Leaving)) {
		words += " " + string(id) + "=" + v.Leaving[id]
	}
	return words
}

// awaitedWords names the frameworks for which the agent's drain waits.
func awaitedWords(v view.Agent) string {
	if len(v.Unacknowledged) == 0 {
		return ""
	}
	return fmt.Sprintf(" awaits=%v", v.Unacknowledged)
}
