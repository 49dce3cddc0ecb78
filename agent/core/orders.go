package core

import (
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// The leader's events are carried out here, one by one. Most events concern one room, which is called. Those that
// concern everything that an agent or a framework has are carried out below.

// leaderSaid obeys a batch, unless it has to wait for the disk or is refused.
func (c *Core) leaderSaid(w LeaderSaid) {
	if c.leader.admit(w) {
		c.obeyBatch(w.Batch)
	}
}

// obeyHeld obeys the batches that have waited for the disk.
func (c *Core) obeyHeld(conn Conn) {
	for batch, is := c.leader.nextHeld(conn); is; batch, is = c.leader.nextHeld(conn) {
		c.obeyBatch(batch)
	}
}

// obeyBatch carries out the events of a batch of the current term. Events of another session are dropped, even of one
// in the same term (R2).
func (c *Core) obeyBatch(batch protocol.AgentEvents) {
	conn := c.leader.conn
	if c.state.identity.Gone {
		return
	}
	for i, event := range batch.Events {
		if c.leader.conn != conn {
			return
		}
		opening, opens := event.(protocol.AgentRegistered)
		gone, ends := event.(protocol.AgentGone)
		switch {
		case ends && !c.leader.registered: // the session was refused, so it has no number
			c.markGone(gone)
			return
		case opens && !c.leader.registered:
			rest := batch
			rest.Events = batch.Events[i+1:]
			if !c.leader.adopt(opening, batch, rest) {
				return
			}
			c.beginSession()
		case !c.leader.registered: // the ID is not on disk yet; obeyHeld carries out the rest
			return
		case batch.Session != c.leader.session:
			c.log("events of another session dropped", field("session", strconv.FormatUint(batch.Session, 10)))
			return
		default:
			c.obeyEvent(event)
		}
	}
}

// beginSession makes the cut (R2): everything is reported, then the first heartbeat and the unacknowledged statuses
// follow.
func (c *Core) beginSession() {
	conn := c.leader.conn
	c.leader.register()
	c.log("registered", field("agent", c.state.identity.Agent), field("term", c.state.identity.Term.String()),
		field("session", strconv.FormatUint(c.leader.session, 10)))
	c.reports.tellUnable() // before the report, because the leader offers this agent as soon as it has the report
	c.reports.sendReport()
	c.executors.tellFormerEnds()
	c.reports.heartbeatDue(conn)
	c.statuses.sendStatuses()
	c.launches.askSecretsAgain()
}

// obeyEvent carries out one event of the session.
func (c *Core) obeyEvent(event protocol.AgentEvent) {
	switch e := event.(type) {
	case protocol.LaunchTask:
		c.launches.launchTask(e)
	case protocol.LaunchGroup:
		c.launches.launchGroup(e)
	case protocol.TaskSecrets:
		c.launches.takeSecrets(e)
	case protocol.KillTask:
		c.kills.killTask(e)
	case protocol.AcknowledgeStatus:
		c.statuses.takeAcknowledgement(e)
	case protocol.SendAgain:
		c.statuses.sendAgain(e.TaskRef)
	case protocol.ShutdownAgentExecutor:
		if executor := c.state.executors[e.ExecutorRef]; executor != nil {
			c.executors.shutDown(executor, "its framework shut it down")
		}
	case protocol.MessageToExecutor:
		c.executors.passMessageDown(e)
	case protocol.RemoveFramework:
		c.removeFramework(e.Framework)
	case protocol.Drain:
		c.obeyDrain(e)
	case protocol.AgentGone:
		c.markGone(e)
	case protocol.CreateVolume:
		c.volumes.createVolume(e.Volume)
	case protocol.DestroyVolume:
		c.volumes.destroyVolume(e.Volume, e.Generation)
	case protocol.Reported:
		c.noteReported()
	case protocol.AgentPong:
		c.leader.beats(e.HeartbeatInterval, e.SessionTimeout)
	case protocol.AgentRegistered, protocol.PrincipalChanged: // they only show that it is alive
	}
}

// noteReported clears the mark of a reboot: the leader now knows what the reboot ended (R13).
func (c *Core) noteReported() {
	if who := c.state.identity; who.Rebooted {
		who.Rebooted = false
		c.writeRecord(who)
	}
}

// leaderClosed handles the end of the leader's stream. Removed counts also on a stream that the agent has closed,
// unless that was another cluster's or an old leader's: an agent that was given up stays given up, whichever side
// closed first (R16).
func (c *Core) leaderClosed(w LeaderClosed) {
	c.leader.forget(w.Conn)
	if w.Removed && w.Conn != c.leader.left && !c.state.identity.Gone {
		c.markGone(protocol.AgentGone{Why: "it was removed"})
	}
}

// obeyDrain begins to refuse launches and kills what runs, or ends the drain. The order is stored before it is obeyed
// (R31).
func (c *Core) obeyDrain(e protocol.Drain) {
	who := c.state.identity
	who.Draining, who.DrainGrace = e.On, e.Grace
	number := c.disk.identity
	if who != c.state.identity {
		number = c.writeRecord(who)
		c.log("drain", field("on", map[bool]string{true: "yes", false: "no"}[e.On]))
	}
	if e.On && !c.mustWait(number, killDrained{}) {
		c.killForDrain()
	}
}

// killForDrain kills all tasks of an agent that is being drained.
func (c *Core) killForDrain() {
	if !c.state.identity.Draining {
		return
	}
	for _, t := range c.state.tasksInOrder() {
		if !t.ended() {
			c.kills.killWithin(t, c.state.identity.DrainGrace, api.ReasonAgentDraining)
		}
	}
}

// markGone stores that this agent was given up. Then everything is killed, and when nothing is left a new agent begins
// (R16).
func (c *Core) markGone(e protocol.AgentGone) {
	who := c.state.identity
	who.Gone = true
	number := c.writeRecord(who)
	c.log("marked gone", field("why", e.Why))
	c.follow(number, clearAgent{e.Why})
}

// clearAgent kills all that is left of an agent that was marked gone.
func (c *Core) clearAgent() {
	for _, e := range c.state.executorsInOrder() {
		c.executors.killExecutor(e, api.ReasonAgentGone, "its agent was marked gone")
	}
	c.executors.forgetAgentIfClear()
}

// removeFramework ends everything that a framework has here. The statuses of its tasks are told once and need no
// acknowledgement.
func (c *Core) removeFramework(id api.FrameworkID) {
	f := c.state.frameworks[id]
	if f == nil || f.removed {
		return
	}
	number := c.writeRecord(FrameworkRemoved{id})
	c.log("framework removed", field("framework", id))
	c.follow(number, clearFramework{id})
}

// clearFramework ends all tasks and executors of a framework that was removed.
func (c *Core) clearFramework(id api.FrameworkID) {
	const why = "its framework was removed"
	for _, t := range c.state.tasksInOrder() {
		switch {
		case t.ref.Framework != id:
		case t.ended() || t.handed:
			c.statuses.sendStatus(t)
		default:
			c.statuses.setStatus(t, api.TaskKilled, api.ReasonFrameworkRemoved, why)
		}
	}
	for _, e := range c.state.executorsInOrder() {
		if e.ref().Framework == id {
			c.executors.shutDown(e, why)
		}
	}
	c.leaveFramework(id)
}
