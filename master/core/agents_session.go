package core

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// link is an agent's stream.
type link struct {
	conn  Conn
	agent *agent // nil until the session is open
	waits *agent // whose older stream is asked before this one is let in; nil: none
}

// greeting is what a stream's first call says, whichever of the two it is.
type greeting struct {
	cluster api.ClusterID
	term    api.Term
	agent   api.Agent
	nonce   api.Nonce
	boot    string
	first   bool // RegisterAgent: an agent without an ID
	version string
}

func (c *Core) agentOpened(event AgentOpened) {
	l := &link{conn: event.Conn}
	c.links[event.Conn] = l
	var g greeting
	switch first := event.First.(type) {
	case protocol.RegisterAgent:
		g = greeting{first.Cluster, api.Term{}, first.Agent, first.Nonce, first.BootID, true, first.Version}
	case protocol.ReregisterAgent:
		g = greeting{first.Cluster, first.Term, first.Agent, first.Nonce, first.BootID, false, first.Version}
	default:
		c.refuseAgent(l, "", api.Invalid, errors.New("the first call must be Register or Reregister"))
		return
	}
	if kind, err := c.checkGreeting(g); err != nil {
		if kind == api.Unsupported {
			c.agentVersionRefused(g, err)
		}
		c.refuseAgent(l, g.agent.ID, kind, err)
		return
	}
	c.greet(l, g)
}

func (c *Core) checkGreeting(g greeting) (api.Kind, error) {
	if err := protocol.Neighbours(c.config.Version, g.version); err != nil {
		return api.Unsupported, err
	}
	switch {
	case g.cluster != "" && g.cluster != c.registry.Cluster:
		return api.Denied, fmt.Errorf("this is cluster %s, the agent belongs to %s: a wrong master address or data folder", c.registry.Cluster, g.cluster)
	case protocol.FarAhead(c.term, g.term):
		return api.Unavailable, fmt.Errorf("the agent has seen term %s, impossibly far ahead of %s, in which this master leads: a wrong master has told it;"+
			" stop the agent and run tender agent reset-term", g.term, c.term)
	case c.term.Before(g.term):
		return api.Unavailable, fmt.Errorf("this master led in term %s, the agent has seen %s: a newer leader is there", c.term, g.term)
	case g.nonce == "":
		return api.Invalid, errors.New("the agent names no nonce")
	case g.first != (g.agent.ID == ""):
		return api.Invalid, errors.New("an agent registers without an ID and comes back with one")
	}
	if err := g.agent.Resources.Check(); err != nil {
		return api.Invalid, fmt.Errorf("its resources: %w", err)
	}
	if err := errors.Join(g.agent.CheckSize(), api.CheckText("the boot ID", g.boot)); err != nil {
		return api.Limit, err
	}
	return 0, nil
}

// agentVersionRefused is shown with the agent, if it is one that is known.
func (c *Core) agentVersionRefused(g greeting, err error) {
	who := "agent " + string(g.agent.ID)
	if g.agent.ID == "" {
		who = "a new agent on " + g.agent.Hostname
	}
	c.versionRefused(who, err.Error())
	if known := c.registry.Agents[g.agent.ID]; known.Nonce == g.nonce && c.agents[g.agent.ID] != nil {
		c.agents[g.agent.ID].refused = err.Error()
	}
}

// greet opens the session, after the registry's word where that is new.
func (c *Core) greet(l *link, g greeting) {
	known, admitted := c.registry.Agents[g.agent.ID]
	switch {
	case g.first, !admitted:
		change := registry.AdmitAgent{Agent: g.agent, Nonce: g.nonce, BootID: g.boot}
		c.propose(change, greetAgent{l, g})
	case known.Nonce != g.nonce:
		c.refuseAgent(l, g.agent.ID, api.Exists, fmt.Errorf("the agent with this ID on %s has another nonce: a cloned data folder?", known.Agent.Hostname))
	case known.Marks.Has(api.MarkGone):
		c.refuseGone(l, g.agent.ID, "it was marked gone: "+known.Why)
	case c.contested(g.agent.ID, g):
		c.askPredecessor(l, c.agents[g.agent.ID], g)
	case known.BootID != g.boot || !sameAgent(known.Agent, g.agent):
		change := registry.UpdateAgent{Agent: g.agent, BootID: g.boot}
		c.propose(change, greetAgent{l, g})
	default:
		c.openAgent(l, c.agents[g.agent.ID], g)
	}
}

// greeted goes on when the registry has answered.
func (c *Core) greeted(l *link, g greeting, result registry.Result) {
	switch {
	case c.links[l.conn] != l: // closed meanwhile
	case result.Err != nil && result.Err.Kind == api.Removed:
		c.refuseGone(l, g.agent.ID, result.Err.Error())
	case result.Err != nil:
		c.refuseAgent(l, g.agent.ID, result.Err.Kind, result.Err)
	case c.contested(result.Agent, g):
		c.askPredecessor(l, c.agents[result.Agent], g)
	default:
		c.openAgent(l, c.agents[result.Agent], g)
	}
}

// refuseAgent ends a stream that never became a session.
func (c *Core) refuseAgent(l *link, id api.AgentID, kind api.Kind, err error) {
	delete(c.links, l.conn)
	c.info("agent refused", field("agent", id), field("why", err.Error()))
	c.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.register", kind, id, err)})
}

// refuseGone tells an agent that it was given up: it kills everything and registers as
// a new one (R16).
func (c *Core) refuseGone(l *link, id api.AgentID, why string) {
	c.emit(ToAgent{Conn: l.conn, Event: protocol.AgentGone{Why: why}})
	c.refuseAgent(l, id, api.Removed, errors.New(why))
}

// openAgent begins a session. An older stream of the same agent is closed: its end was
// not noticed yet.
func (c *Core) openAgent(l *link, a *agent, g greeting) {
	if old := a.link; old != nil {
		c.dropLink(a, "replaced by a newer stream")
		c.emit(CloseAgent{Conn: old.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New("a newer stream of the same agent has taken over"))})
	}
	c.opened++
	l.agent, a.link, a.session = a, l, c.opened
	a.boot, a.host = g.boot, g.agent.Hostname
	a.open()
	a.seen, a.report, a.refused = c.now, &report{}, ""
	c.deadlines.set(a.clock, c.now.Add(c.config.SessionTimeout))
	a.masters, a.within, a.unable = c.mastersAt, 0, ""
	c.tellAgent(a, protocol.AgentRegistered{
		Cluster:           c.registry.Cluster,
		Agent:             a.id,
		HeartbeatInterval: c.config.HeartbeatInterval,
		SessionTimeout:    c.config.SessionTimeout,
		Masters:           c.masters(),
	})
	c.info("agent registered", field("agent", a.id), field("host", a.info.Hostname))
	if g.first { // it never had an ID, so it can't have tasks
		c.warnOfOthers(a)
		c.reportDone(a, phaseIniting)
		return
	}
	c.restate(a)
}

// masters are the addresses that agents and schedulers are told.
func (c *Core) masters() []string {
	if len(c.config.Masters) > 0 {
		return c.config.Masters
	}
	var addresses []string
	for _, id := range sortedKeys(c.registry.Masters) {
		if address := c.registry.Masters[id].GRPC; address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// mastersNews are the masters, if they have changed since a session was told last.
func (c *Core) mastersNews(told *uint64) []string {
	if *told == c.mastersAt {
		return nil
	}
	*told = c.mastersAt
	return c.masters()
}

// tellAgent queues an event to an agent that has a stream.
func (c *Core) tellAgent(a *agent, event protocol.AgentEvent) {
	if a.link != nil {
		c.emit(ToAgent{Conn: a.link.conn, Session: a.session, Event: event})
	}
}

func (c *Core) agentCalled(event AgentCalled) {
	for _, call := range event.Calls {
		l := c.links[event.Conn]
		if l == nil || l.agent == nil {
			return // refused or replaced, or too early: nothing is owed
		}
		l.agent.seen = c.now
		c.predecessorSpoke(l.agent)
		c.agentCall(l.agent, call)
	}
}

func (c *Core) agentCall(a *agent, call protocol.AgentCall) {
	switch call := call.(type) {
	case protocol.AgentReport:
		c.reportPage(a, call)
	case protocol.AgentHeartbeat:
		c.agentBeats(a, call)
	case protocol.StatusUpdate:
		c.statusUpdate(a, call.Status)
	case protocol.ExecutorEnded:
		c.executorEnded(a, call)
	case protocol.MessageFromExecutor:
		c.messageFromExecutor(a, call)
	case protocol.KillTaken:
		c.killTaken(a, call)
	case protocol.VolumeDone:
		c.volumeDone(a, call)
	}
}

// agentBeats answers a heartbeat, so that both sides see a half-open stream.
func (c *Core) agentBeats(a *agent, beat protocol.AgentHeartbeat) {
	c.tellAgent(a, c.pong(a))
	c.used(a, beat.Usage)
	if a.phase == phaseIniting || beat.Unable != a.unable {
		if a.phase == phaseIniting {
			a.enter(phaseUp)
		}
		c.nowUnable(a, beat.Unable)
		c.restate(a)
	}
}

// nowUnable takes what an agent says of itself: while it can start nothing it is not offered, and
// what is offered of it is taken back. (R14)
func (c *Core) nowUnable(a *agent, why string) {
	if a.unable == why {
		return
	}
	a.unable = why
	if why == "" {
		c.info("agent can start tasks again", field("agent", a.id))
		return
	}
	c.warn("agent can start nothing", field("agent", a.id), field("why", why))
	c.rescindAll(a.offers, "the agent can start nothing: "+why)
}

// nothingNew answers nearly all heartbeats.
var nothingNew protocol.AgentEvent = protocol.AgentPong{}

func (c *Core) pong(a *agent) protocol.AgentEvent {
	masters, within := c.mastersNews(&a.masters), c.returnNews(a)
	if masters == nil && within == 0 {
		return nothingNew
	}
	return protocol.AgentPong{Masters: masters, ReturnWithin: within}
}

func (c *Core) agentClosed(event AgentClosed) {
	l := c.links[event.Conn]
	delete(c.links, event.Conn)
	switch {
	case l == nil:
	case l.waits != nil:
		c.forgetSuccessor(l.waits)
	case l.agent != nil:
		c.disconnectAgent(l.agent, orBroken(event.Why))
	}
}

// disconnectAgent starts the TOMBSTONE clock (R30). One that is a TOMBSTONE and was heard of
// without coming back is given up as late as any other.
func (c *Core) disconnectAgent(a *agent, why string) {
	c.dropLink(a, why)
	if a.dead() {
		c.awaitReturn(a)
	} else {
		c.deadlines.set(a.clock, c.now.Add(c.config.TombstoneAfter))
	}
	c.restate(a)
	c.admitSuccessor(a)
}

// dropLink ends the session: its offers are rescinded, its kills are pending.
func (c *Core) dropLink(a *agent, why string) {
	delete(c.links, a.link.conn)
	a.link.agent, a.link, a.report = nil, nil, nil
	a.close()
	a.gone, a.leftAt = why, c.now
	c.rescindAll(a.offers, "the agent is disconnected: "+why)
	c.forgetUse(a)
	c.withdrawInverses(a, "the agent is disconnected")
	for _, t := range a.sortedTasks() {
		c.killPending(t)
	}
}

// agentDue judges a silent agent: first its stream, then its life, then its place.
func (c *Core) agentDue(a *agent) {
	switch {
	case a.link != nil:
		if until := a.seen.Add(c.config.SessionTimeout); until.After(c.now) {
			c.deadlines.set(a.clock, until)
			return
		}
		why := "no heartbeat for " + c.config.SessionTimeout.String()
		c.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Unavailable, a.id, errors.New(why))})
		c.disconnectAgent(a, why)
	case !a.dead():
		c.entomb(a)
	default:
		c.giveUp(a)
	}
}

// sameAgent says that an agent says of itself what it said before.
func sameAgent(a, b api.Agent) bool {
	return a.ID == b.ID && a.Hostname == b.Hostname && a.Resources.Equal(b.Resources) && maps.Equal(a.Attributes, b.Attributes) &&
		a.Region == b.Region && a.Zone == b.Zone && a.Address == b.Address && a.Version == b.Version
}
