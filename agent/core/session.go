package core

import (
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// leader is the stream to the master that leads, or seems to.
type leader struct {
	conn    Conn // 0 = none
	session uint64
	// registered holds from AgentRegistered: the session is adopted, the report is made.
	registered bool
	heard      time.Time
	interval   time.Duration
	timeout    time.Duration
	unable     string // as it was told in this session
	// held are batches that wait until the newer term, or the identity, is on disk.
	held []protocol.AgentEvents
	// left is the stream that was left because its term was over or its cluster another
	// one: what its end says does not count either.
	left    Conn
	flying  int   // tasks whose statuses are under way in this session
	bytes   int   // of those statuses
	backlog []ref // tasks with a status to send (again) when flying and bytes allow
}

type ref = api.TaskRef

const (
	// heldBatchesMax: more while the disk stalls, and the stream is closed.
	heldBatchesMax = 1024
	// flyingMax is how many tasks' statuses may be under way at once; the rest wait for
	// acknowledgements, so that a reconnecting agent does not flood its leader (R4).
	flyingMax = 8192
	// flyingBytesMax bounds them in bytes; the last task that is let in may pass it. It is well
	// below what the shell queues for a leader, so a leader that reads gets a session's statuses
	// whatever their size (R34).
	flyingBytesMax = 16 << 20
)

// full says whether no more tasks' statuses may get under way.
func (l *leader) full() bool { return l.flying >= flyingMax || l.bytes >= flyingBytesMax }

func (l *leader) reset(config Config) {
	interval, timeout := config.HeartbeatInterval, config.SessionTimeout
	if l.timeout != 0 {
		interval, timeout = l.interval, l.timeout
	}
	*l = leader{interval: interval, timeout: timeout, left: l.left}
}

// leaderOpened greets: with Register as long as the agent has no ID, else with Reregister.
func (c *Core) leaderOpened(w LeaderOpened) {
	if c.leader.conn != 0 {
		c.emit(CloseLeader{c.leader.conn, "a newer stream was opened"})
	}
	c.leader.reset(c.config)
	c.leader.conn = w.Conn
	c.leader.heard = c.now
	c.in(c.leader.timeout, timer{kind: timerSession, conn: w.Conn})
	c.after(c.identity, greetLeader{w.Conn}) // the nonce is fsynced before the first contact (R7)
}

func (c *Core) greet(conn Conn) {
	who := c.state.identity
	if c.leader.conn != conn || who.Gone {
		return
	}
	agent := c.config.Agent
	agent.ID = who.Agent
	if who.Agent == "" {
		c.emit(ToLeader{conn, protocol.RegisterAgent{
			Cluster: who.Cluster, Version: c.config.Version, Agent: agent, Nonce: who.Nonce, BootID: who.BootID,
		}})
		return
	}
	c.emit(ToLeader{conn, protocol.ReregisterAgent{
		Cluster: who.Cluster, Term: who.Term, Version: c.config.Version, Agent: agent, Nonce: who.Nonce, BootID: who.BootID,
	}})
}

// leaderClosed heeds Removed also of a stream that this agent has left: an agent that was
// given up stays given up, whichever of the two saw the end first (R16).
func (c *Core) leaderClosed(w LeaderClosed) {
	if c.leader.conn == w.Conn {
		c.leader.reset(c.config)
	}
	if w.Removed && w.Conn != c.leader.left && !c.state.identity.Gone {
		c.agentGone(protocol.AgentGone{Why: "it was removed"})
	}
}

func (c *Core) closeLeader(why string) {
	c.emit(CloseLeader{c.leader.conn, why})
	c.log("leader left", field("why", why))
	c.leader.reset(c.config)
}

// leaderSaid judges a batch by its term before anything in it is obeyed (R1).
func (c *Core) leaderSaid(w LeaderSaid) {
	if w.Conn != c.leader.conn {
		return
	}
	c.leader.heard = c.now
	who := c.state.identity
	switch {
	case !c.leader.registered && len(c.leader.held) == 0 && !c.opens(w.Batch):
		// Another cluster's terms mean nothing here: not one of them is stored.
	case w.Batch.Term.Before(who.Term):
		c.leader.left = w.Conn
		c.closeLeader("term " + w.Batch.Term.String() + " is over; term " + who.Term.String() + " has begun")
	case protocol.FarAhead(who.Term, w.Batch.Term):
		c.leader.left = w.Conn
		c.closeLeader("term " + w.Batch.Term.String() + " is impossibly far ahead of " + who.Term.String() + ", the newest that this agent knows: a wrong master?" +
			" If it is right, stop this agent and run tender agent reset-term")
	case len(c.leader.held) >= heldBatchesMax:
		c.closeLeader("the disk is too slow to store the new term")
	case who.Term.Before(w.Batch.Term):
		who.Term = w.Batch.Term
		c.hold(w, c.put(who))
	case len(c.leader.held) > 0:
		c.leader.held = append(c.leader.held, w.Batch)
	default:
		c.obey(w.Batch)
	}
}

// opens says whether a stream's first batch may be obeyed: it opens a session with this
// agent's cluster, or says that this agent was given up while it was away. That names no
// cluster, but it answers a greeting that did: a master of another one refuses that.
func (c *Core) opens(batch protocol.AgentEvents) bool {
	if len(batch.Events) > 0 {
		switch first := batch.Events[0].(type) {
		case protocol.AgentRegistered:
			return c.sameCluster(first)
		case protocol.AgentGone:
			return true
		}
	}
	c.closeLeader("the master's first event was neither AgentRegistered nor AgentGone")
	return false
}

// hold keeps a batch, and all that follow, until the record is on disk.
func (c *Core) hold(w LeaderSaid, number uint64) {
	c.leader.held = append(c.leader.held, w.Batch)
	if len(c.leader.held) > 1 {
		return // released with the first one, whose record is older
	}
	c.after(number, obeyHeld{w.Conn})
}

func (c *Core) obeyHeld(conn Conn) {
	for len(c.leader.held) > 0 && c.leader.conn == conn {
		if c.identity > c.stored { // a batch behind it brought another term, or the ID
			c.after(c.identity, obeyHeld{conn})
			return
		}
		batch := c.leader.held[0]
		c.leader.held = c.leader.held[1:]
		c.obey(batch)
	}
}

// obey steps the events of a batch of the current term. What belongs to another
// session is dropped, even one of the same term (R2).
func (c *Core) obey(batch protocol.AgentEvents) {
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
		case ends && !c.leader.registered: // the session was refused; it has no number
			c.agentGone(gone)
			return
		case opens && !c.leader.registered:
			if !c.adopt(opening, batch.Session) {
				rest := batch
				rest.Events = batch.Events[i+1:]
				c.leader.held = append([]protocol.AgentEvents{rest}, c.leader.held...)
				return
			}
		case !c.leader.registered: // the ID is on its way to the disk; obey is called again
			return
		case batch.Session != c.leader.session:
			c.log("events of another session dropped", field("session", strconv.FormatUint(batch.Session, 10)))
			return
		default:
			c.told(event)
		}
	}
}

// adopt takes the session over. It reports false when the new identity has to reach
// the disk first; the rest of the batch then waits behind it.
func (c *Core) adopt(opening protocol.AgentRegistered, session uint64) bool {
	who := c.state.identity
	c.leader.session = session
	if opening.HeartbeatInterval > 0 {
		c.leader.interval = opening.HeartbeatInterval
	}
	if opening.SessionTimeout > 0 {
		c.leader.timeout = opening.SessionTimeout
	}
	conn := c.leader.conn
	if who.Cluster == opening.Cluster && who.Agent == opening.Agent {
		c.adopted()
		return true
	}
	who.Cluster, who.Agent = opening.Cluster, opening.Agent
	number := c.put(who)
	c.after(number, openSession{conn})
	c.after(number, obeyHeld{conn})
	return false
}

// sameCluster refuses a leader of another cluster, and one that renames this agent.
func (c *Core) sameCluster(opening protocol.AgentRegistered) bool {
	who := c.state.identity
	var why string
	switch {
	case who.Cluster != "" && who.Cluster != opening.Cluster:
		why = "this data folder belongs to cluster " + string(who.Cluster) + ", the master leads cluster " + string(opening.Cluster) +
			"; name the masters of the first, or start with an empty data folder"
	case who.Agent != "" && who.Agent != opening.Agent:
		why = "this agent is " + string(who.Agent) + ", the master takes it for " + string(opening.Agent)
	default:
		return true
	}
	c.leader.left = c.leader.conn
	c.closeLeader("wrong cluster or agent")
	c.emit(Stop{api.E("agent.register", api.Denied, opening.Cluster, sentence(why))})
	return false
}

// sentence is an error of words alone.
type sentence string

func (s sentence) Error() string { return string(s) }

// adopted makes the cut (R2): everything is reported, then the first heartbeat and
// what is unacknowledged follow.
func (c *Core) adopted() {
	conn := c.leader.conn
	c.leader.registered = true
	c.log("registered", field("agent", c.state.identity.Agent), field("term", c.state.identity.Term.String()),
		field("session", strconv.FormatUint(c.leader.session, 10)))
	c.tellUnable() // before the report, for from then on it is offered
	c.report()
	c.tellFormer()
	c.heartbeatDue(conn)
	c.sendStatuses()
}

// told carries out one event of the session.
func (c *Core) told(event protocol.AgentEvent) {
	switch e := event.(type) {
	case protocol.LaunchTask:
		c.launch(e)
	case protocol.KillTask:
		c.killTask(e)
	case protocol.AcknowledgeStatus:
		c.acknowledged(e)
	case protocol.ShutdownAgentExecutor:
		if executor := c.state.executors[e.ExecutorRef]; executor != nil {
			c.stop(executor, "its framework shut it down")
		}
	case protocol.MessageToExecutor:
		c.passMessageDown(e)
	case protocol.RemoveFramework:
		c.removeFramework(e.Framework)
	case protocol.Drain:
		c.drain(e)
	case protocol.AgentGone:
		c.agentGone(e)
	case protocol.CreateVolume:
		c.createVolume(e.Volume)
	case protocol.DestroyVolume:
		c.destroyVolume(e.Volume)
	case protocol.Reported:
		c.reported()
	case protocol.AgentPong, protocol.AgentRegistered: // being heard is all there is to it
	}
}

// reported: a leader knows what the reboot ended (R13).
func (c *Core) reported() {
	if who := c.state.identity; who.Rebooted {
		who.Rebooted = false
		c.put(who)
	}
}

// tell sends a call if there is a session. Without one the next report says it all.
func (c *Core) tell(call protocol.AgentCall) {
	if c.leader.registered {
		c.emit(ToLeader{c.leader.conn, call})
	}
}

func (c *Core) heartbeatDue(conn Conn) {
	if conn != c.leader.conn || !c.leader.registered {
		return
	}
	c.beat()
	c.in(c.leader.interval, timer{kind: timerHeartbeat, conn: conn})
	c.sample()
}

// beat tells what is used, and whether anything can be started.
func (c *Core) beat() {
	c.leader.unable = c.unable()
	c.tell(protocol.AgentHeartbeat{Usage: c.usageToTell(), Unable: c.leader.unable})
}

// tellUnable says at once that nothing can be started any more, or that it can again.
func (c *Core) tellUnable() {
	if c.leader.registered && c.leader.unable != c.unable() {
		c.beat()
	}
}

func (c *Core) sessionDue(conn Conn) {
	if conn != c.leader.conn {
		return
	}
	if quiet := c.now.Sub(c.leader.heard); quiet < c.leader.timeout {
		c.at(c.leader.heard.Add(c.leader.timeout), timer{kind: timerSession, conn: conn})
		return
	}
	c.closeLeader("nothing was heard for " + c.leader.timeout.String())
}
