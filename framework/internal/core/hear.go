package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// takeMessage handles a message of the stream.
func (c *Core) takeMessage(message Heard) {
	if c.session.phase == none {
		return
	}
	if err := c.distrustMessage(message); err != nil {
		c.dropSession(err, "")
		return
	}
	c.self.term = message.Term
	c.session.noteHeard()
	for _, event := range message.Events {
		if c.session.phase == none || c.ending.over {
			return
		}
		c.hearEvent(event, message.Leader)
	}
}

// distrustMessage returns why a message must not be believed; nil: it may be.
func (c *Core) distrustMessage(message Heard) error {
	address := c.session.address
	switch {
	// The message may have waited in a buffer while this process was stopped. That it is read now does not mean that
	// the master has been in touch lately.
	case c.session.isSilent(c.now):
		return api.E("framework.session", api.Unavailable, address, errSilent)
	case message.Term.Before(c.self.term):
		return api.E("framework.session", api.Stale, address, errOldTerm)
	case protocol.FarAhead(c.self.term, message.Term):
		return api.E("framework.session", api.Unavailable, address, errFarTerm)
	case c.isStrange(message.Events):
		return api.E("framework.subscribe", api.Unavailable, address, errStrange)
	}
	return nil
}

// isStrange reports whether a master of another cluster has answered the subscription. The term of such a master must
// not be adopted.
func (c *Core) isStrange(events []protocol.SchedulerEvent) bool {
	if len(events) == 0 || c.self.cluster == "" {
		return false
	}
	answer, ok := events[0].(protocol.Subscribed)
	return ok && answer.Cluster != c.self.cluster
}

func (c *Core) hearEvent(event protocol.SchedulerEvent, leader string) {
	switch event := event.(type) {
	case protocol.Subscribed:
		c.beginSession(event)
	case protocol.Waiting:
		c.waitForTurn(event)
	case protocol.Offers:
		c.count(len(event.Offers), CountOffers{Offers: len(event.Offers)})
		c.offers.add(event.Offers, c.now)
		c.calls.askAboutOffers()
	case protocol.Rescind:
		before := len(c.offers.open)
		kept := c.offers.rescind(event.Offers)
		c.countAnswers(OfferRescinded, before-len(c.offers.open))
		c.calls.tellRescinded(kept, event.Why)
	case protocol.Update:
		c.statuses.hearStatus(event.Status)
	case protocol.FrameworkUpdated:
		c.updates.answered(event.Number, nil)
	case protocol.MasterHeartbeat:
		c.search.Found(c.session.address, event.Masters)
	case protocol.Refused:
		c.hearRefused(event, leader)
	default:
		c.hearOptional(event)
	}
}

// hearOptional handles the events that only some schedulers want to know.
func (c *Core) hearOptional(event protocol.SchedulerEvent) {
	switch event := event.(type) {
	case protocol.Settled: // behind the statuses; at most one waits, because a new session clears the queue
		if c.wants(InSettled) {
			c.calls.queueCall(CallSettled{})
		}
	case protocol.InverseOffers:
		c.calls.queueEvent(InInverseOffers, CallInverseOffers{Offers: event.Offers})
	case protocol.RescindInverse:
		c.calls.queueEvent(InRescinded, CallRescinded{Offers: event.Offers, Why: event.Why})
	case protocol.MessageFramework:
		c.calls.queueEvent(InMessages, CallMessage{Agent: event.Agent, Executor: event.Executor, Data: event.Data})
	case protocol.ExecutorLost:
		c.calls.queueEvent(InExecutorLost, CallExecutorLost{Agent: event.Agent, Executor: event.Executor, Message: event.Message})
	case protocol.AgentLost:
		c.calls.queueEvent(InAgentLost, CallAgentLost{Agent: event.Agent, Gone: event.Gone, Why: event.Why})
	case protocol.OperationResult:
		c.operations.tellOutcome(event)
	default: // the other events mean nothing here
	}
}

// hearRefused handles the refusal of a call: the tasks of a refused accept end, a kill of a task that nobody knows is
// not repeated, and any other refusal is told to the scheduler, if it wants to know.
func (c *Core) hearRefused(event protocol.Refused, leader string) {
	if event.Err == nil {
		return
	}
	if c.session.phase == subscribing {
		c.dropSession(event.Err, leader)
		return
	}
	c.count(1, CountRefused{Operation: event.Err.Op, Kind: event.Err.Kind})
	if accept, ok := c.accepts.take(event.Number); ok {
		c.log(Info, "accept refused", Field{"offers", accept.offers}, Field{"error", event.Err})
		c.demands.undoLaunch(accept.launched)
		c.answers.declineOffers(accept.offers, api.NoFilter)
		for _, t := range c.tasks.launchedBy(event.Number) {
			c.statuses.hearStatus(c.statuses.refusalOf(t.id, t.agent, event.Err))
		}
		c.operations.refuseCall(event.Number, event.Err)
		return
	}
	if !c.updates.answered(event.Number, event.Err) {
		c.calls.tellRefused(event.Err)
	}
}

func (c *calls) tellRefused(err *api.Error) {
	if err == nil {
		return
	}
	c.log(Warn, "call refused", Field{"error", err})
	c.queueEvent(InRefused, CallRefused{Err: err})
}
