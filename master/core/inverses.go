package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/view"
)

// inverses keeps the open inverse offers: what frameworks were asked to give back, for a framework of higher priority
// or before maintenance (R27).
type inverses struct {
	*base
	offers *offers
	kills  *kills

	open map[api.OfferID]*inverse
}

// inverse is an open inverse offer. What is not given back by its deadline is taken (R27).
type inverse struct {
	id        api.OfferID
	framework *framework
	agent     *agent
	tasks     []*task
	made      time.Time
	role      api.Role      // the role of the first task
	resources api.Resources // what was asked for at first
	deadline  *deadline
	reason    api.Reason
	answer    string // the framework's answer: "", "accepted" or "declined"
}

// askBack makes inverse offers, one for each framework that holds what the policy wants back.
func (r *inverses) askBack(wanted []allocator.Inverse) {
	for _, want := range wanted {
		if a := r.agentByID[want.Agent]; a != nil {
			r.askBackOn(a, want)
		}
	}
}

// askBackOn makes the inverse offers for what is wanted of one agent.
func (r *inverses) askBackOn(a *agent, want allocator.Inverse) {
	victims := make(map[api.FrameworkID][]*task)
	for _, claim := range want.Victims {
		if claim.Task == "" { // a claim without a task is about kept offers; see takeBackKept
			continue
		}
		t := a.tasks[api.TaskRef{Framework: claim.Framework, Task: claim.Task}]
		switch {
		case t == nil || !t.held || t.kill != nil: // it is ending already
		case !a.phase.Alive(): // R27: agents that are not alive hold no victims
			r.spare(t)
		default:
			victims[claim.Framework] = append(victims[claim.Framework], t)
		}
	}
	for _, id := range sortedKeys(victims) {
		r.openInverse(r.frameworkByID[id], a, victims[id], want)
	}
}

func (r *inverses) openInverse(fw *framework, a *agent, tasks []*task, want allocator.Inverse) {
	x := &inverse{id: r.offers.mintInverse(), framework: fw, agent: a, tasks: tasks, reason: api.ReasonPreempted}
	x.deadline = newDeadline(inverseOver{x})
	r.info("inverse offer made", field("offer", x.id), field("framework", fw.id), field("agent", a.id), field("for", want.For))
	r.sendInverse(x, r.now.Add(r.config.PreemptionGrace), "for "+string(want.For))
}

func (r *inverses) sendInverse(x *inverse, until time.Time, whatFor string) {
	r.open[x.id] = x
	r.deadlines.Set(x.deadline, until)
	shown := r.shownInverse(x)
	x.made, x.resources = r.now, shown.Resources
	if len(x.tasks) > 0 {
		x.role = x.tasks[0].role
	}
	r.asked(x, view.AskedBack, fmt.Sprintf("%s, within %s", whatFor, words.Span(until.Sub(r.now))))
	r.tell(x.framework, protocol.InverseOffers{Offers: []api.InverseOffer{shown}})
}

// asked records a step in the life of an inverse offer in the framework's decisions.
func (r *inverses) asked(x *inverse, how view.Outcome, why string) {
	r.decided(x.framework, view.Decision{
		At: r.now, Made: x.made, Offer: x.id, Agent: x.agent.id, Role: x.role, Resources: x.resources,
		Outcome: how, Why: why,
	})
}

func (r *inverses) shownInverse(x *inverse) api.InverseOffer {
	shown := api.InverseOffer{
		ID:        x.id,
		Framework: x.framework.id,
		Agent:     x.agent.id,
		Deadline:  x.deadline.At,
		Reason:    x.reason,
	}
	for _, t := range x.tasks {
		shown.Tasks = append(shown.Tasks, t.ref.Task)
		shown.Resources = shown.Resources.Plus(t.resources)
	}
	if x.reason != api.ReasonPreempted { // before maintenance the executors must end as well
		for _, e := range sortedExecutors(x.agent) {
			if e.framework == x.framework {
				shown.Resources = shown.Resources.Plus(e.resources)
			}
		}
	}
	return shown
}

// collect kills the tasks of an inverse offer that the framework accepted or whose deadline has come. A task that has
// ended by itself keeps that end.
func (r *inverses) collect(x *inverse, how view.Outcome, when string) {
	r.closeInverse(x)
	killed := 0
	for _, t := range x.tasks {
		if t.held && !t.status.State.Terminal() {
			r.info("task kill", field("task", t.ref.String()), field("agent", t.agent.id), field("reason", api.ReasonPreempted.String()))
			r.kills.wishKill(t, 0, api.ReasonPreempted)
			killed++
		}
	}
	r.asked(x, how, when+", killing "+words.Count(killed, "task"))
}

// inverseDue ends an inverse offer at its deadline. Before maintenance nothing is killed here; the drain does that.
func (r *inverses) inverseDue(x *inverse) {
	if x.reason == api.ReasonPreempted {
		r.collect(x, view.TookBack, "at its deadline")
	} else {
		r.closeInverse(x)
	}
}

func (r *inverses) closeInverse(x *inverse) {
	delete(r.open, x.id)
	r.deadlines.Clear(x.deadline)
}

// withdraw ends an inverse offer, and tells its framework why.
func (r *inverses) withdraw(x *inverse, why string) {
	r.closeInverse(x)
	r.asked(x, view.Withdrawn, why)
	r.tell(x.framework, protocol.RescindInverse{Offers: []api.OfferID{x.id}, Why: why})
}

// answerInverse handles the framework's answer. If it accepts, its tasks are killed at once; otherwise they run until
// the deadline.
func (r *inverses) answerInverse(s *session, call protocol.AnswerInverse) {
	for _, id := range call.Offers {
		x := r.open[id]
		switch {
		case x == nil || x.framework != s.framework:
		case x.reason != api.ReasonPreempted:
			r.answerLeaving(x, call.Accept)
		case call.Accept:
			r.collect(x, view.GaveBack, "by its answer")
		case x.answer == "":
			x.answer = "declined"
			r.asked(x, view.Declined, fmt.Sprintf("what it has not given back by then is killed in %v", x.deadline.At.Sub(r.now).Round(time.Second)))
		}
	}
}

// withdrawInverses withdraws the inverse offers for tasks on an agent that is no longer connected. When a framework
// disconnects, its inverse offers stay open, because its tasks still hold what others need.
func (r *inverses) withdrawInverses(a *agent, why string) {
	if len(r.open) == 0 {
		return
	}
	for _, id := range sortedKeys(r.open) {
		if x := r.open[id]; x.agent == a {
			r.withdraw(x, why)
			if x.reason == api.ReasonPreempted {
				for _, t := range x.tasks {
					r.spare(t)
				}
			}
		}
	}
}

// spared handles tasks that no longer need to end. An inverse offer for which no running task is left is withdrawn; one
// that also asks for other tasks stays open for these.
func (r *inverses) spared(claims []allocator.Claim) {
	for _, claim := range claims {
		ref := api.TaskRef{Framework: claim.Framework, Task: claim.Task}
		for _, id := range sortedKeys(r.open) {
			x := r.open[id]
			before := len(x.tasks)
			x.tasks = slices.DeleteFunc(x.tasks, func(t *task) bool { return t.ref == ref })
			if len(x.tasks) == before || r.stillAsked(x) {
				continue
			}
			r.info("inverse offer withdrawn", field("offer", id), field("framework", x.framework.id), field("agent", x.agent.id))
			r.withdraw(x, "it is needed no more")
		}
	}
}

// stillAsked reports whether any task of the inverse offer has not ended.
func (r *inverses) stillAsked(x *inverse) bool {
	return slices.ContainsFunc(x.tasks, func(t *task) bool { return t.held && !t.status.State.Terminal() })
}

// spare tells the policy that a task need not end after all, so that it counts like any other task again.
func (r *inverses) spare(t *task) {
	if t.held {
		r.policy.Return(t.claim())
		r.policy.Take(t.claim())
	}
}

// askToLeave asks all frameworks that have tasks or executors on the agent to leave it before its maintenance.
func (r *inverses) askToLeave(a *agent) {
	if a.window.planned.Start.IsZero() || a.window.begun || !a.phase.Reported() {
		return
	}
	holders := make(map[api.FrameworkID]bool)
	for ref, t := range a.tasks { // order: irrelevant because it fills a set
		holders[ref.Framework] = holders[ref.Framework] || t.held
	}
	for ref, x := range a.executors { // order: irrelevant because it fills a set
		holders[ref.Framework] = holders[ref.Framework] || !x.resources.IsZero()
	}
	for _, id := range sortedKeys(holders) {
		if holders[id] {
			r.askOneToLeave(r.frameworkByID[id], a)
		}
	}
}

// askFrameworkToLeave asks a framework that has connected again to leave agents before their maintenance. It may have
// missed the first request.
func (r *inverses) askFrameworkToLeave(fw *framework) {
	asked := make(map[api.AgentID]*agent)
	for _, t := range fw.tasks { // order: irrelevant because it fills a map
		if a := t.agent; t.held && !a.window.planned.Start.IsZero() && !a.window.begun && a.phase.Reported() {
			asked[a.id] = a
		}
	}
	for _, id := range sortedKeys(asked) {
		if x := r.leavingOf(fw, asked[id]); x != nil {
			r.closeInverse(x)
		}
		r.askOneToLeave(fw, asked[id])
	}
}

func (r *inverses) askOneToLeave(fw *framework, a *agent) {
	if fw == nil || fw.session == nil || r.leavingOf(fw, a) != nil {
		return
	}
	x := &inverse{id: r.offers.mintInverse(), framework: fw, agent: a, reason: api.ReasonAgentDraining}
	for _, t := range a.sortedTasks() {
		if t.framework == fw && t.held {
			x.tasks = append(x.tasks, t)
		}
	}
	x.deadline = newDeadline(inverseOver{x})
	r.info("inverse offer made", field("offer", x.id), field("framework", fw.id), field("agent", a.id), field("for", "maintenance"))
	r.sendInverse(x, r.moment(a.window.planned.Start), "for maintenance")
}

func (r *inverses) leavingOf(fw *framework, a *agent) *inverse {
	for _, x := range r.open { // order: irrelevant because there is at most one
		if x.reason == api.ReasonAgentDraining && x.framework == fw && x.agent == a {
			return x
		}
	}
	return nil
}

// answerLeaving records the framework's answer, to be shown to people. Whatever the answer is, the tasks may stay until
// the window begins.
func (r *inverses) answerLeaving(x *inverse, accepted bool) {
	before, how := x.answer, view.Declined
	x.answer = "declined"
	if accepted {
		x.answer, how = "accepted", view.GaveBack
	}
	if x.answer != before {
		r.asked(x, how, "for the maintenance, which begins in "+x.deadline.At.Sub(r.now).Round(time.Second).String())
	}
	r.info("inverse offer answered", field("offer", x.id), field("framework", x.framework.id), field("answer", x.answer))
}

// withdrawLeaving withdraws all requests to leave the agent.
func (r *inverses) withdrawLeaving(a *agent, why string) {
	for _, id := range sortedKeys(r.open) {
		if x := r.open[id]; x.agent == a && x.reason == api.ReasonAgentDraining {
			r.withdraw(x, why)
		}
	}
}

// leaving returns the frameworks that were asked to leave the agent, with their answers.
func (r *inverses) leaving(a *agent) map[api.FrameworkID]string {
	if a.window.planned.Start.IsZero() || a.window.begun {
		return nil
	}
	answers := make(map[api.FrameworkID]string)
	for _, x := range r.open { // order: irrelevant because it fills a map
		if x.agent == a && x.reason == api.ReasonAgentDraining {
			answers[x.framework.id] = x.answer
			if x.answer == "" {
				answers[x.framework.id] = "asked"
			}
		}
	}
	return answers
}
