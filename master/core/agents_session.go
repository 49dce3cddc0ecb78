package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry"
)

// link is an agent's stream.
type link struct {
	conn  Conn
	agent *agent // nil until the session is open
	waits *agent // the agent whose older stream is asked for a sign of life before this one is let in; nil: none
}

// agentStream is an agent's session with this leader.
type agentStream struct {
	link      *link      // its stream; nil while it has none
	session   uint64     // of that stream (R2)
	successor *successor // from another boot or host; nil: none
	can       admission.Abilities
	boot      string // boot ID and host of that stream (R7)
	host      string
	seen      time.Time     // its last sign of life
	asked     *deadline     // until when the older stream may answer, while a successor waits
	masters   uint64        // the change of masters that it was told last
	within    time.Duration // over how long to spread its return after a failover, as it was told last
	report    *report       // pages that have come so far; nil when none is awaited
}

func (r *agents) agentOpened(event AgentOpened) {
	l := &link{conn: event.Conn}
	r.links[event.Conn] = l
	g, first := admission.GreetingOf(event.First)
	if !first {
		r.refuseAgent(l, "", api.Invalid, errors.New("the first call must be Register or Reregister"))
		return
	}
	if kind, err := r.judge().Agent(g); err != nil {
		if kind == api.Unsupported {
			r.agentVersionRefused(g, err)
		}
		r.refuseAgent(l, g.Agent.ID, kind, err)
		return
	}
	r.greet(l, g)
}

// agentVersionRefused is shown with the agent, if it is one that is known.
func (r *agents) agentVersionRefused(g admission.Greeting, err error) {
	who := "agent " + string(g.Agent.ID)
	if g.Agent.ID == "" {
		who = "a new agent on " + g.Agent.Hostname
	}
	r.versionRefused(who, err.Error())
	if known := r.registry.Agents[g.Agent.ID]; known.Nonce == g.Nonce && r.agentByID[g.Agent.ID] != nil {
		r.agentByID[g.Agent.ID].refused = err.Error()
	}
}

// keepsReceipts says whether the registry is to insist from now on that this agent names the receipts of its tasks: the
// agent keeps them, and launches carry them.
func (r *agents) keepsReceipts(g admission.Greeting) bool { return g.Can.Receipts && r.signs() }

// greet opens the session, after the registry's word where that is new.
func (r *agents) greet(l *link, g admission.Greeting) {
	known, admitted := r.registry.Agents[g.Agent.ID]
	switch {
	case g.First, !admitted:
		change := registry.AdmitAgent{Agent: g.Agent, Nonce: g.Nonce, BootID: g.Boot, Receipts: r.keepsReceipts(g)}
		if !g.First { // it may have what was launched before
			change.ReceiptsAfter = r.term
		}
		r.proposals.propose(change, greetAgent{l, g})
	case known.Nonce != g.Nonce:
		r.refuseAgent(l, g.Agent.ID, api.Exists, fmt.Errorf("the agent with this ID on %s has another nonce: a cloned data folder?", known.Agent.Hostname))
	case known.Marks.Has(api.MarkGone):
		r.refuseGone(l, g.Agent.ID, "it was marked gone: "+known.Why)
	case r.contested(g.Agent.ID, g):
		r.askPredecessor(l, r.agentByID[g.Agent.ID], g)
	case known.BootID != g.Boot || !admission.SameAgent(known.Agent, g.Agent) || r.keepsReceipts(g) && !known.Receipts:
		change := registry.UpdateAgent{Agent: g.Agent, BootID: g.Boot, Receipts: r.keepsReceipts(g), ReceiptsAfter: r.term}
		r.proposals.propose(change, greetAgent{l, g})
	default:
		r.openAgent(l, r.agentByID[g.Agent.ID], g)
	}
}

// greeted goes on when the registry has answered.
func (r *agents) greeted(l *link, g admission.Greeting, result registry.Result) {
	switch {
	case r.links[l.conn] != l: // closed meanwhile
	case result.Err != nil && result.Err.Kind == api.Removed:
		r.refuseGone(l, g.Agent.ID, result.Err.Error())
	case result.Err != nil:
		r.refuseAgent(l, g.Agent.ID, result.Err.Kind, result.Err)
	case r.contested(result.Agent, g):
		r.askPredecessor(l, r.agentByID[result.Agent], g)
	default:
		r.openAgent(l, r.agentByID[result.Agent], g)
	}
}

// refuseAgent ends a stream that never became a session.
func (r *agents) refuseAgent(l *link, id api.AgentID, kind api.Kind, err error) {
	delete(r.links, l.conn)
	r.info("agent refused", field("agent", id), field("why", err.Error()))
	r.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.register", kind, id, err)})
}

// refuseGone tells an agent that it was given up: it kills everything and registers as
// a new one (R16).
func (r *agents) refuseGone(l *link, id api.AgentID, why string) {
	r.emit(ToAgent{Conn: l.conn, Event: protocol.AgentGone{Why: why}})
	r.refuseAgent(l, id, api.Removed, errors.New(why))
}

// openAgent begins a session. An older stream of the same agent is closed: its end was
// not noticed yet.
func (r *agents) openAgent(l *link, a *agent, g admission.Greeting) {
	if old := a.link; old != nil {
		r.dropLink(a, "replaced by a newer stream")
		r.emit(CloseAgent{Conn: old.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New("a newer stream of the same agent has taken over"))})
	}
	r.opened++
	l.agent, a.link, a.session = a, l, r.opened
	a.boot, a.host, a.can = g.Boot, g.Agent.Hostname, g.Can
	a.enter(a.phase.Opened())
	a.seen, a.report, a.refused = r.now, &report{}, ""
	r.deadlines.Set(a.clock, r.now.Add(r.config.SessionTimeout))
	a.masters, a.within, a.unable = r.mastersAt, 0, ""
	r.tellAgent(a, protocol.AgentRegistered{
		Cluster:           r.registry.Cluster,
		Agent:             a.id,
		HeartbeatInterval: r.config.HeartbeatInterval,
		SessionTimeout:    r.config.SessionTimeout,
		Masters:           r.masters(),
	})
	r.repeatRevoked(a)
	r.info("agent registered", field("agent", a.id), field("host", a.info.Hostname))
	if g.First { // it never had an ID, so it can't have tasks
		r.inventory.warnOfOthers(a)
		r.reportDone(a, life.Initing)
		return
	}
	r.standing.restate(a)
}

// masters are the addresses that agents and schedulers are told.
func (b *base) masters() []string {
	if len(b.config.Masters) > 0 {
		return b.config.Masters
	}
	var addresses []string
	for _, id := range sortedKeys(b.registry.Masters) {
		if address := b.registry.Masters[id].GRPC; address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// mastersIfChanged are the addresses of the masters, if they have changed since this session was told of them;
// otherwise none.
func (b *base) mastersIfChanged(told *uint64) []string {
	if *told == b.mastersAt {
		return nil
	}
	*told = b.mastersAt
	return b.masters()
}

// tellAgent queues an event to an agent that has a stream.
func (b *base) tellAgent(a *agent, event protocol.AgentEvent) {
	if a.link != nil {
		b.emit(ToAgent{Conn: a.link.conn, Session: a.session, Event: event})
	}
}

func (r *agents) agentCalled(event AgentCalled) {
	for _, call := range event.Calls {
		l := r.links[event.Conn]
		if l == nil || l.agent == nil {
			return // refused or replaced, or too early: nothing is owed
		}
		l.agent.seen = r.now
		r.predecessorSpoke(l.agent)
		r.agentCall(l.agent, call)
	}
}

func (r *agents) agentCall(a *agent, call protocol.AgentCall) {
	switch call := call.(type) {
	case protocol.AgentReport:
		r.reportPage(a, call)
	case protocol.AgentHeartbeat:
		r.agentBeats(a, call)
	case protocol.StatusUpdate:
		r.tasks.statusUpdate(a, call.Status)
	case protocol.ExecutorEnded:
		r.executors.executorEnded(a, call)
	case protocol.MessageFromExecutor:
		r.executors.messageFromExecutor(a, call)
	case protocol.KillTaken:
		r.kills.killTaken(a, call)
	case protocol.VolumeDone:
		r.inventory.volumeDone(a, call)
	case protocol.NeedSecrets:
		r.tasks.secretsNeeded(a, call)
	case protocol.RegisterAgent, protocol.ReregisterAgent: // begin a session: taken before
	}
}

// agentBeats answers a heartbeat, so that both sides see a half-open stream.
func (r *agents) agentBeats(a *agent, beat protocol.AgentHeartbeat) {
	r.tellAgent(a, r.pong(a))
	r.usage.used(a, beat.Usage)
	if a.phase == life.Initing || beat.Unable != a.unable {
		if a.phase == life.Initing {
			a.enter(life.Up)
		}
		r.nowUnable(a, beat.Unable)
		r.standing.restate(a)
	}
}

// nowUnable takes what an agent says of itself: while it can start nothing it is offered to nobody, and open offers of
// it are rescinded. (Protocol rule R14.)
func (r *agents) nowUnable(a *agent, why string) {
	if a.unable == why {
		return
	}
	a.unable = why
	if why == "" {
		r.info("agent can start tasks again", field("agent", a.id))
		return
	}
	r.warn("agent can start nothing", field("agent", a.id), field("why", why))
	r.offers.rescindAll(a.offers, "the agent can start nothing: "+why)
}

// nothingNew handles heartbeats that say nothing new, which nearly all are.
var nothingNew protocol.AgentEvent = protocol.AgentPong{}

func (r *agents) pong(a *agent) protocol.AgentEvent {
	masters, within := r.mastersIfChanged(&a.masters), r.spreadIfChanged(a)
	if masters == nil && within == 0 {
		return nothingNew
	}
	return protocol.AgentPong{Masters: masters, ReturnWithin: within}
}

func (r *agents) agentClosed(event AgentClosed) {
	l := r.links[event.Conn]
	delete(r.links, event.Conn)
	switch {
	case l == nil:
	case l.waits != nil:
		r.forgetSuccessor(l.waits)
	case l.agent != nil:
		r.disconnectAgent(l.agent, orBroken(event.Why))
	}
}

// disconnectAgent starts the TOMBSTONE clock (R30). One that is a TOMBSTONE and was heard of
// without coming back is given up as late as any other.
func (r *agents) disconnectAgent(a *agent, why string) {
	r.dropLink(a, why)
	if a.phase.Dead() {
		r.awaitReturn(a)
	} else {
		r.deadlines.Set(a.clock, r.now.Add(r.config.TombstoneAfter))
	}
	r.standing.restate(a)
	r.admitSuccessor(a)
}

// dropLink ends the session: its offers are rescinded, its kills are pending.
func (r *agents) dropLink(a *agent, why string) {
	delete(r.links, a.link.conn)
	a.link.agent, a.link, a.report = nil, nil, nil
	a.enter(a.phase.Closed())
	a.gone, a.leftAt = why, r.now
	r.offers.rescindAll(a.offers, "the agent is disconnected: "+why)
	r.usage.forgetUse(a)
	r.inverses.withdrawInverses(a, "the agent is disconnected")
	for _, t := range a.sortedTasks() {
		r.kills.killPending(t)
	}
}

// agentDue judges a silent agent at each of its deadlines: first its stream is broken, then it is taken for dead, then
// it is marked gone.
func (r *agents) agentDue(a *agent) {
	switch {
	case a.link != nil:
		if until := a.seen.Add(r.config.SessionTimeout); until.After(r.now) {
			r.deadlines.Set(a.clock, until)
			return
		}
		why := "no heartbeat for " + r.config.SessionTimeout.String()
		r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Unavailable, a.id, errors.New(why))})
		r.disconnectAgent(a, why)
	case !a.phase.Dead():
		r.declareDead(a)
	default:
		r.giveUp(a)
	}
}

// endTickets tells the agents that what was signed for a principal so far opens nothing any more, and ends what it has
// opened: something was taken from the principal, or all. Who still may comes back with another ticket. (R47)
func (r *agents) endTickets(principal string) {
	for _, id := range sortedKeys(r.agentByID) {
		r.tellAgent(r.agentByID[id], protocol.EndTickets{Principal: principal, Until: r.now})
	}
}

// revokedToldFor is how long agents that come back are told of one that was revoked: certificates of frameworks and
// people end in a day.
const revokedToldFor = 25 * time.Hour

// repeatRevoked tells an agent that is back which principals were revoked while it may have been away.
func (r *agents) repeatRevoked(a *agent) {
	for _, name := range sortedKeys(r.registry.Principals) {
		if revoked := r.registry.Principals[name].Revoked; !revoked.IsZero() && r.now.Sub(revoked) < revokedToldFor {
			r.tellAgent(a, protocol.EndTickets{Principal: name, Until: revoked})
		}
	}
}

// successor is a stream of an agent from another boot or host than its stream that looks
// alive. It waits until the older one has been asked (R7): a host that was booted again within
// a session timeout says nothing more there; only of a cloned data folder do both go on.
type successor struct {
	link     *link
	greeting admission.Greeting
	asked    time.Time
}

// successorHeartbeats is how long the older stream has to say something: one heartbeat, and as
// long again for its way.
const successorHeartbeats = 2

// contested: the agent has a stream from another boot or host that looks alive.
func (r *agents) contested(id api.AgentID, g admission.Greeting) bool {
	a := r.agentByID[id]
	if a == nil || a.link == nil || r.now.Sub(a.seen) >= r.config.SessionTimeout {
		return false
	}
	return a.boot != g.Boot || a.host != g.Agent.Hostname
}

// askPredecessor lets the new stream wait for the older one's answer. What is sent to a host
// that was booted again breaks that stream at once, as nobody there knows it.
func (r *agents) askPredecessor(l *link, a *agent, g admission.Greeting) {
	if former := a.successor; former != nil {
		r.refuseAgent(former.link, a.id, api.Stale, errors.New("a newer stream of the same agent has come"))
	}
	r.info("agent asked whether it lives", field("agent", a.id), field("why", "another boot or host comes with its ID"), field("host", g.Agent.Hostname))
	l.waits, a.successor = a, &successor{l, g, r.now}
	r.deadlines.Set(a.asked, r.now.Add(successorHeartbeats*r.config.HeartbeatInterval))
	r.tellAgent(a, protocol.AgentPong{})
}

// predecessorSpoke refuses the successor: both are alive. What came before the question is no
// answer to it.
func (r *agents) predecessorSpoke(a *agent) {
	if s := a.successor; s != nil && r.came.After(s.asked) {
		r.forgetSuccessor(a)
		r.refuseAgent(s.link, a.id, api.Exists, fmt.Errorf("the agent with this ID is alive on %s: a cloned data folder?", a.host))
	}
}

// endPredecessor ends the older stream, which said nothing, and lets the successor in.
func (r *agents) endPredecessor(a *agent) {
	if a.successor == nil || a.link == nil {
		return
	}
	why := "another boot of its host has taken over"
	r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New(why))})
	r.disconnectAgent(a, why)
}

// admitSuccessor goes on with the stream that waited, as the older one has ended.
func (r *agents) admitSuccessor(a *agent) {
	if s := a.successor; s != nil {
		r.forgetSuccessor(a)
		r.greet(s.link, s.greeting)
	}
}

func (r *agents) forgetSuccessor(a *agent) {
	a.successor.link.waits, a.successor = nil, nil
	r.deadlines.Clear(a.asked)
}
