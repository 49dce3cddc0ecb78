package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// statusUpdate takes a status from an agent: it comes again until it is acknowledged.
func (r *tasks) statusUpdate(a *agent, status api.Status) {
	if !a.phase.Reported() {
		return // comes again
	}
	status = withoutPlace(status)
	status.Agent = a.id
	ref := status.Ref()
	t := a.tasks[ref]
	switch {
	case t == nil && status.Number > 0:
		r.strayStatus(a, status)
		return
	case t == nil: // it refuses a launch that is over; nobody waits for that
		return
	case status.Number == 0:
		r.endUnmadeLaunch(t, status)
		return
	}
	if status.Number > t.number && !r.step(t, status) {
		r.acknowledge(a, ref, status.Number) // it can never be handled, so it need not come again
		return
	}
	switch {
	case t.duplicate || t.framework.removed:
		r.acknowledge(a, ref, status.Number)
		if t.status.State.Terminal() {
			r.forgetTask(t)
		}
	default:
		r.tellStatus(t.framework, t.placed(status))
	}
}

// placed adds to a status where the task is and how it is reached. For an end nobody needs that.
func (t *task) placed(status api.Status) api.Status {
	if status.State.Terminal() {
		return status
	}
	info := t.agent.info
	status.Whereabouts = api.Whereabouts{
		Hostname: info.Hostname, Region: info.Region, Zone: info.Zone, Labels: t.task.Labels, Ports: t.task.Ports,
	}
	return status
}

// withoutPlace is the status without what the leader knows itself and need not keep twice.
func withoutPlace(status api.Status) api.Status {
	status.Whereabouts = api.Whereabouts{}
	return status
}

// endUnmadeLaunch ends a launch that the agent has refused before it had a task (R9). Such a refusal has no number, is
// not acknowledged and never comes again: the agent's next status of this ID is about another launch.
func (r *tasks) endUnmadeLaunch(t *task, status api.Status) {
	if t.number > 0 || !status.State.Terminal() || !r.step(t, status) {
		return
	}
	if !t.duplicate && !t.framework.removed {
		r.tellStatus(t.framework, status)
	}
	r.forgetTask(t)
}

// step moves the task along the table; false when the table says no.
func (r *tasks) step(t *task, status api.Status) bool {
	by := status.Source
	if by != api.MoverExecutor {
		by = api.MoverAgent
	}
	if !api.MayMove(t.status.State, status.State, by) {
		r.info("status refused", field("task", t.ref.String()), field("agent", t.agent.id),
			field("why", t.status.State.String()+" may not become "+status.State.String()))
		return false
	}
	if t.status.State == api.TaskStaging && (status.State == api.TaskDropped || status.State == api.TaskError) {
		r.executors.neverStarted(t)
	}
	t.number = status.Number
	t.status = status
	if r.config.Debug {
		r.debug("task status", field("task", t.ref.String()), field("agent", t.agent.id), field("state", status.State.String()))
	}
	if status.Reason == api.ReasonRevoked { // what was offered was too much
		r.usage.closeGap(t.agent, "its tasks need what was offered as revocable")
	}
	if status.State.Terminal() { // R27: free at the end, not at its acknowledgement
		r.releaseTask(t)
		r.kills.killOver(t)
	}
	return true
}

// strayStatus handles a status of a task that the leader does not know: its end was
// acknowledged but the agent has not heard so, or its framework is no more.
func (r *tasks) strayStatus(a *agent, status api.Status) {
	fw := r.frameworkByID[status.Framework]
	if fw == nil || fw.removed {
		r.strays++
		r.acknowledge(a, status.Ref(), status.Number)
		return
	}
	// R9: it never overwrites the first one's. R40: nor is it told of a task that this agent
	// does not have; its report named all that it has.
	r.refuseVoice(a, "a status of task "+status.Ref().String())
	r.acknowledge(a, status.Ref(), status.Number)
}

func (r *tasks) acknowledge(a *agent, ref api.TaskRef, number uint64) {
	if number > 0 {
		r.tellAgent(a, protocol.AcknowledgeStatus{TaskRef: ref, Number: number})
	}
}

// acknowledged passes a scheduler's acknowledgement on to the agent. With that of a terminal status the task can be
// forgotten.
func (r *tasks) acknowledged(s *session, items []protocol.Acknowledgement) {
	for _, item := range items {
		ref := api.TaskRef{Framework: s.framework.id, Task: item.Task}
		a := r.agentByID[item.Agent]
		if a == nil {
			continue
		}
		r.acknowledge(a, ref, item.Number)
		t := a.tasks[ref]
		if t != nil && item.Number >= t.status.Previous {
			t.status.Previous = 0
		}
		if t != nil && !t.duplicate && t.status.State.Terminal() && item.Number >= t.number {
			r.forgetTask(t)
		}
	}
}

// tellStatus sends a status to the framework, if it listens. If not, it comes again
// from the agent, or is told when the framework is back (R8).
func (r *tasks) tellStatus(fw *framework, status api.Status) {
	r.tell(fw, protocol.Update{Status: status})
}

// tellTask has the framework told the task's state, as it will be when its turn comes. The reason replaces the status's
// own, which the agent tells itself.
func (r *answers) tellTask(t *task, reason api.Reason) {
	if t.framework.session == nil || t.duplicate {
		return
	}
	r.owe(t.framework.session, question{task: t.ref.Task, agent: t.agent.id, known: true, reason: reason})
}

// sendAgain has the agent send at once what the task's framework has not acknowledged, if that is more than what the
// leader tells: the session that begins hears all of it, in order.
func (r *answers) sendAgain(t *task) {
	if t != nil && t.status.Previous > 0 {
		r.tellAgent(t.agent, protocol.SendAgain{TaskRef: t.ref})
	}
}

// toldStatus is how a known task is told without being a step in its life. An end that
// is not acknowledged is told as it is: it can be acknowledged at once, by who knows what came before it.
func toldStatus(t *task, reason api.Reason) api.Status {
	status := t.status
	if status.State == api.TaskUnreachable && reason != api.ReasonReconciliation {
		return status
	}
	if status.State.Terminal() && (reason != api.ReasonReconciliation || status.Previous > 0) {
		return status
	}
	status.Number, status.Previous = 0, 0
	status.Reason = reason
	if reason == api.ReasonNone {
		status.Reason = api.ReasonReconciliation
	}
	return status
}
