package framework

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// hear takes a message of the link, or its end.
func (l *loop) hear(ctx context.Context, next heard, now time.Time) {
	// A message may have waited in a buffer while we were stopped: that we read it now
	// does not mean that the master thought of us lately.
	if l.session.silent(now) {
		l.drop(api.E("framework.session", api.Unavailable, l.link.address, errSilent), now)
		return
	}
	if next.err != nil {
		l.drop(next.err, now)
		return
	}
	if next.term.Before(l.term) {
		l.drop(api.E("framework.session", api.Stale, l.link.address, errOldTerm), now)
		return
	}
	if protocol.FarAhead(l.term, next.term) {
		l.drop(api.E("framework.session", api.Unavailable, l.link.address, errFarTerm), now)
		return
	}
	if l.strange(next.events) {
		l.drop(api.E("framework.subscribe", api.Unavailable, l.link.address, errStrange), now)
		return
	}
	l.term = next.term
	l.session.heardAt = now
	for _, event := range next.events {
		if l.link == nil || l.over {
			return
		}
		l.event(ctx, event, now)
	}
}

// strange reports whether a subscription was answered by a master of another cluster,
// whose term must not be taken over.
func (l *loop) strange(events []protocol.SchedulerEvent) bool {
	if len(events) == 0 || l.cluster == "" {
		return false
	}
	answer, ok := events[0].(protocol.Subscribed)
	return ok && answer.Cluster != l.cluster
}

func (l *loop) event(ctx context.Context, event protocol.SchedulerEvent, now time.Time) {
	switch event := event.(type) {
	case protocol.Subscribed:
		l.start(ctx, event, now)
	case protocol.Waiting:
		l.stand(event, now)
	case protocol.Offers:
		l.config.Metrics.offers(len(event.Offers))
		l.offers.came(event.Offers, now)
		l.callOffers()
	case protocol.Rescind:
		before := len(l.offers.open)
		kept := l.offers.rescinded(event.Offers)
		l.config.Metrics.answers(OfferRescinded, before-len(l.offers.open))
		l.callRescinded(kept, event.Why)
	case protocol.Update:
		l.heardStatus(event.Status)
	case protocol.FrameworkUpdated:
		l.updateEnded(event.Number, nil)
	case protocol.MasterHeartbeat:
		l.masters.found(l.link.address, event.Masters)
	case protocol.Refused:
		l.refused(event, now)
	default:
		l.optional(event)
	}
}

// optional serves the optional interfaces.
func (l *loop) optional(event protocol.SchedulerEvent) {
	switch event := event.(type) {
	case protocol.Settled:
		l.callSettled()
	case protocol.InverseOffers:
		if s, ok := l.scheduler.(InverseOfferee); ok {
			l.tell("InverseOffers", func(ctx context.Context) { s.InverseOffers(ctx, event.Offers) })
		}
	case protocol.RescindInverse:
		if s, ok := l.scheduler.(Rescinder); ok {
			l.tell("Rescinded", func(ctx context.Context) { s.Rescinded(ctx, event.Offers, event.Why) })
		}
	case protocol.MessageFramework:
		if s, ok := l.scheduler.(Messenger); ok {
			l.tell("Message", func(ctx context.Context) { s.Message(ctx, event.Agent, event.Executor, event.Data) })
		}
	case protocol.ExecutorLost:
		if s, ok := l.scheduler.(ExecutorWatcher); ok {
			l.tell("ExecutorLost", func(ctx context.Context) { s.ExecutorLost(ctx, event.Agent, event.Executor, event.Message) })
		}
	case protocol.AgentLost:
		if s, ok := l.scheduler.(AgentWatcher); ok {
			l.tell("AgentLost", func(ctx context.Context) { s.AgentLost(ctx, event.Agent, event.Why) })
		}
	case protocol.OperationResult:
		l.operationDone(event)
	}
}

// asError keeps a nil *api.Error from becoming an error that is not nil.
func asError(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// heardStatus judges a status, from a master or made here, and has it delivered.
func (l *loop) heardStatus(status api.Status) {
	// A kill that came before the task's agent did found a leader that knew of no such task.
	if t := l.book.tasks[status.Task]; t != nil && t.kill && !t.over && status.Reason == api.ReasonReconciliation && !status.State.Terminal() {
		l.sendKill(t)
	}
	t, verdict := l.book.take(status)
	switch verdict {
	case acknowledge:
		l.acknowledge(status)
	case deliver:
		if !t.busy {
			l.resume(t)
		}
	}
}

// resume has the first held status handled, in the next session if there is none now.
func (l *loop) resume(t *task) {
	if l.session.phase != active {
		t.busy = true
		l.waiting = append(l.waiting, t)
		return
	}
	l.callUpdate(t)
}

func (l *loop) acknowledge(status api.Status) {
	if status.Number > 0 && l.session.phase == active {
		l.link.out.acknowledge(protocol.Acknowledgement{
			Framework: l.framework.ID, Task: status.Task, Agent: status.Agent, Number: status.Number,
		})
	}
}

// updated takes what Update said of t.held[0].
func (l *loop) updated(t *task, err error) {
	switch {
	case !t.stray && l.book.tasks[t.id] != t: // forgotten meanwhile
	case errors.Is(err, errSkipped):
		l.waiting = append(l.waiting, t)
	case errors.Is(err, ErrLater) && !t.stray:
		t.later = true
	case err != nil:
		t.failures++
		pause := t.pause()
		l.log.Warn("update failed, it will come again", "task", t.id, "state", t.held[0].State.String(), "in", pause, "error", err)
		heap.Push(&l.retries, retry{time.Now().Add(pause), t})
	default:
		l.handled(t)
	}
}

// handled acknowledges t.held[0] and goes on to the next.
func (l *loop) handled(t *task) {
	status, settled := l.book.handled(t)
	l.config.Metrics.status(status)
	l.acknowledge(status)
	if !settled && len(t.held) > 0 {
		l.resume(t)
	}
}

// acknowledgeLater ends the wait for which Update has returned ErrLater.
func (l *loop) acknowledgeLater(status api.Status) {
	if t := l.book.tasks[status.Task]; t != nil && t.later && t.held[0].Number == status.Number {
		t.later = false
		l.handled(t)
	}
}

// refused makes the refusal of a call known: tasks of an accept end, a kill that
// nobody knows is not repeated, anything else is told to who wants to know.
func (l *loop) refused(event protocol.Refused, now time.Time) {
	if event.Err == nil {
		return
	}
	if l.session.phase == subscribing {
		l.drop(event.Err, now)
		return
	}
	l.config.Metrics.refused(event.Err)
	if accept, ok := l.accepts.take(event.Number); ok {
		l.log.Info("accept refused", "offers", accept.offers, "error", event.Err)
		accept.launched.undo()
		l.decline(accept.offers, api.NoFilter)
		for _, t := range l.book.refused(event.Number) {
			l.heardStatus(l.refusal(t.id, t.agent, event.Err))
		}
		l.refuseOperations(event.Number, event.Err)
		return
	}
	if l.updateEnded(event.Number, event.Err) {
		return
	}
	l.tellRefused(event.Err)
}

func (l *loop) tellRefused(err *api.Error) {
	if err == nil {
		return
	}
	l.log.Warn("call refused", "error", err)
	if s, ok := l.scheduler.(RefusalWatcher); ok {
		l.tell("Refused", func(ctx context.Context) { s.Refused(ctx, err.Op, err) })
	}
}

// refusal is the end of a task whose accept was refused: DROPPED if another offer may
// do, ERROR if the same task will be refused again.
func (l *loop) refusal(id api.TaskID, agent api.AgentID, err *api.Error) api.Status {
	status := api.Status{
		Framework: l.framework.ID,
		Task:      id,
		Agent:     agent,
		State:     api.TaskDropped,
		Reason:    api.ReasonInvalidOffers,
		Message:   err.Error(),
		Source:    api.MoverMaster,
		At:        time.Now(),
	}
	switch err.Kind {
	case api.Invalid, api.Unsupported:
		status.State, status.Reason = api.TaskError, api.ReasonTaskInvalid
	case api.Denied:
		status.State, status.Reason = api.TaskError, api.ReasonTaskUnauthorized
	case api.Exists:
		status.State, status.Reason = api.TaskError, api.ReasonTaskDuplicate
	}
	return status
}
