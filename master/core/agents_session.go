package core

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry"
)

// link is an agent's stream.
type link struct {
	conn  Conn
	agent *agent // nil until the session is open
	// waits is the agent whose older stream must show whether it is alive before this stream is admitted; nil: none.
	waits  *agent
	copies int // how many statuses of tasks that are settled may still come again (R40)
}

// agentStream is an agent's session with this leader.
type agentStream struct {
	link      *link      // its stream; nil while it has none
	session   uint64     // the number of that session (R2)
	successor *successor // a stream from another boot or host that waits; nil: none
	boot      string     // the boot ID and host that the stream named (R7)
	host      string
	seen      time.Time // when it was last heard from
	asked     *deadline // until when the older stream may answer while a successor waits
	masters   uint64    // the version of the masters' addresses that it was last told (base.mastersAt)
	told      pace      // what it was told of the size of the cluster
	report    *report   // the pages that have arrived; nil when no report is awaited
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

// agentVersionRefused records that an agent was refused for its version, also on the agent itself if it is a known one.
func (r *agents) agentVersionRefused(g admission.Greeting, err error) {
	who := "agent " + string(g.Agent.ID)
	if g.Agent.ID == "" {
		who = "a new agent on " + g.Agent.Hostname
	}
	r.versionRefused(who, err.Error())
	if known := r.registry.Agents[g.Agent.ID]; known.Nonce == g.Nonce && r.agentByID[g.Agent.ID] != nil {
		r.agentByID[g.Agent.ID].refused = err.Error()
		r.noteAgent(r.agentByID[g.Agent.ID], change.Refused, err.Error())
	}
}

// greet opens the session. Where the registry must admit or update the agent, it asks the registry first, also while
// another change of the agent is on its way there: what the agent has said last must be what the registry is told last.
// (Protocol rule R49.)
func (r *agents) greet(l *link, g admission.Greeting) {
	known, admitted := r.registry.Agents[g.Agent.ID]
	switch {
	case g.First, !admitted:
		r.proposals.propose(registry.AdmitAgent{Agent: g.Agent, Nonce: g.Nonce, BootID: g.Boot}, greetAgent{l, g, nil})
	case known.Nonce != g.Nonce:
		r.refuseAgent(l, g.Agent.ID, api.Exists, fmt.Errorf("the agent with this ID on %s has another nonce: a cloned data folder?", known.Agent.Hostname))
	case known.Marks.Has(api.MarkGone):
		r.refuseGone(l, g.Agent.ID, "it was marked gone: "+known.Why)
	case r.contested(g.Agent.ID, g):
		r.askPredecessor(l, r.agentByID[g.Agent.ID], g)
	case known.BootID != g.Boot || !admission.SameAgent(known.Agent, g.Agent) || r.agentByID[g.Agent.ID].pending > 0:
		a := r.agentByID[g.Agent.ID]
		a.pending++
		r.proposals.propose(registry.UpdateAgent{Agent: g.Agent, BootID: g.Boot}, greetAgent{l, g, a})
	default:
		r.openAgent(l, r.agentByID[g.Agent.ID], g)
	}
}

// greeted continues greet when the registry has answered.
func (r *agents) greeted(waits greetAgent, result registry.Result) {
	l, g := waits.link, waits.greeting
	if waits.updated != nil {
		waits.updated.pending--
	}
	switch {
	case r.links[l.conn] != l: // the stream was closed meanwhile
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

// refuseAgent closes a stream that never became a session.
func (r *agents) refuseAgent(l *link, id api.AgentID, kind api.Kind, err error) {
	delete(r.links, l.conn)
	r.info("agent refused", field("agent", id), field("why", err.Error()))
	r.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.register", kind, id, err)})
}

// refuseGone tells an agent that it was marked gone. The agent then kills everything and registers as a new one (R16).
func (r *agents) refuseGone(l *link, id api.AgentID, why string) {
	r.emit(ToAgent{Conn: l.conn, Event: protocol.AgentGone{Why: why}})
	r.refuseAgent(l, id, api.Removed, errors.New(why))
}

// openAgent begins a session. An older stream of the same agent, whose end was not noticed, is closed.
func (r *agents) openAgent(l *link, a *agent, g admission.Greeting) {
	if old := a.link; old != nil {
		r.dropLink(a, "replaced by a newer stream")
		r.emit(CloseAgent{Conn: old.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New("a newer stream of the same agent has taken over"))})
	}
	r.opened++
	l.agent, a.link, a.session = a, l, r.opened
	a.boot, a.host = g.Boot, g.Agent.Hostname
	a.enter(a.phase.Opened())
	a.seen, a.report, a.refused = r.now, &report{}, ""
	now := r.pace()
	a.masters, a.told, a.unable = r.mastersAt, pace{now.beat, now.timeout, 0}, ""
	r.deadlines.Set(a.clock, r.now.Add(now.timeout))
	r.tellAgent(a, protocol.AgentRegistered{
		Cluster:           r.registry.Cluster,
		Agent:             a.id,
		HeartbeatInterval: now.beat,
		SessionTimeout:    now.timeout,
		Masters:           r.masters(),
	})
	r.repeatPrincipals(a)
	r.noteAgent(a, change.Registered, "on host "+a.info.Hostname)
	r.noteHost(a)
	r.info("agent registered", field("agent", a.id), field("host", a.info.Hostname))
	if g.First { // it never had an ID, so it can't have any tasks
		r.inventory.warnOfOthers(a)
		r.reportDone(a, life.Initing)
		return
	}
	r.standing.restate(a)
}

// masters returns the addresses of the masters that agents and schedulers are told.
func (b *base) masters() []string {
	var addresses []string
	for _, id := range sortedKeys(b.registry.Masters) {
		if address := b.registry.Masters[id].GRPC; address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// mastersIfChanged returns the addresses of the masters if they have changed since this session was told of them,
// otherwise nil.
func (b *base) mastersIfChanged(told *uint64) []string {
	if *told == b.mastersAt {
		return nil
	}
	*told = b.mastersAt
	return b.masters()
}

// tellAgent queues an event for the agent, if it has a stream.
func (b *base) tellAgent(a *agent, event protocol.AgentEvent) {
	if a.link != nil {
		b.emit(ToAgent{Conn: a.link.conn, Session: a.session, Event: event})
	}
}

func (r *agents) agentCalled(event AgentCalled) {
	for _, call := range event.Calls {
		l := r.links[event.Conn]
		if l == nil || l.agent == nil {
			return // refused, replaced or too early; such calls are ignored
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
	case protocol.RegisterAgent, protocol.ReregisterAgent: // these begin a session and were handled before
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

// nowUnable takes in whether an agent says that it can start tasks. While it can't, it is not offered and its open
// offers are rescinded. (Protocol rule R14.)
func (r *agents) nowUnable(a *agent, why string) {
	if a.unable == why {
		return
	}
	a.unable = why
	r.noteAgent(a, ableOrNot(why), why)
	if why == "" {
		r.info("agent can start tasks again", field("agent", a.id))
		return
	}
	r.warn("agent can start nothing", field("agent", a.id), field("why", why))
	r.offers.rescindAll(a.offers, "the agent can start nothing: "+why)
}

func ableOrNot(why string) change.What {
	if why == "" {
		return change.Able
	}
	return change.Unable
}

// noteHost notes all agents of a host, because an absent one is shown with the agent that it has become.
func (r *agents) noteHost(a *agent) {
	host := r.inventory.hosts[a.info.Hostname]
	if len(host) < 2 {
		return // the agent itself is noted anyway
	}
	for _, id := range sortedKeys(host) {
		r.note(change.Record{Kind: change.Agent, Agent: id})
	}
}

// nothingNew answers a heartbeat when there is nothing to tell, which is nearly always.
var nothingNew protocol.AgentEvent = protocol.AgentPong{}

func (r *agents) pong(a *agent) protocol.AgentEvent {
	masters, news := r.mastersIfChanged(&a.masters), a.told.grown(r.pace())
	if masters == nil && news == (pace{}) {
		return nothingNew
	}
	return protocol.AgentPong{Masters: masters, ReturnWithin: news.within, HeartbeatInterval: news.beat, SessionTimeout: news.timeout}
}

func (r *agents) agentClosed(event AgentClosed) {
	l := r.links[event.Conn]
	delete(r.links, event.Conn)
	switch {
	case l == nil:
	case l.waits != nil:
		r.forgetSuccessor(l.waits)
	case l.agent != nil:
		r.disconnectAgent(l.agent, cmp.Or(event.Why, streamBroke))
	}
}

// disconnectAgent starts the TOMBSTONE clock (R30). If the agent was a TOMBSTONE already and its stream ended before
// its report was complete, the time until it is marked gone begins anew.
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

// dropLink ends the session. The agent's offers are rescinded, and kills that it has not taken are kept.
func (r *agents) dropLink(a *agent, why string) {
	delete(r.links, a.link.conn)
	a.link.agent, a.link, a.report = nil, nil, nil
	a.enter(a.phase.Closed())
	a.gone, a.leftAt = why, r.now
	r.noteHost(a)
	r.offers.rescindAll(a.offers, "the agent is disconnected: "+why)
	r.usage.forgetUse(a)
	r.inverses.withdrawInverses(a, "the agent is disconnected")
	for _, t := range a.sortedTasks() {
		r.kills.keepWaiting(t)
	}
}

// agentDue handles a silent agent at each of its deadlines: first its stream is closed, then it is taken for dead, then
// it is queued to be marked gone.
func (r *agents) agentDue(a *agent) {
	switch {
	case a.link != nil:
		if until := a.seen.Add(a.told.timeout); until.After(r.now) {
			r.deadlines.Set(a.clock, until)
			return
		}
		why := "no heartbeat for " + a.told.timeout.String()
		r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Unavailable, a.id, errors.New(why))})
		r.disconnectAgent(a, why)
	case !a.phase.Dead():
		r.declareDead(a)
	default:
		r.giveUp(a)
	}
}

// tellAll sends an event to all agents that are there. With PrincipalChanged they learn that a principal has lost a grant
// or was revoked: what was opened with its tickets must end. Whoever still has the right comes back with a new ticket.
// (R47)
func (r *agents) tellAll(event protocol.AgentEvent) {
	for _, id := range sortedKeys(r.agentByID) {
		r.tellAgent(r.agentByID[id], event)
	}
}

// repeatPrincipals tells an agent that has come back which principals may look at the cluster, and which were revoked, maybe
// while it was away. The registry remembers these for longer than any of their certificates is valid.
func (r *agents) repeatPrincipals(a *agent) {
	for _, name := range sortedKeys(r.registry.Principals) {
		if revoked := r.registry.Principals[name].Revoked; !revoked.IsZero() {
			r.tellAgent(a, protocol.PrincipalChanged{Principal: name, Until: revoked, Revoked: true})
		} else if r.views(name) {
			r.tellAgent(a, protocol.PrincipalChanged{Principal: name, Views: true})
		}
	}
}

// views reports whether a principal may look at the whole cluster, and so at the metrics of all agents.
func (r *agents) views(principal string) bool {
	known := r.registry.Principals[principal]
	_, refused := rights.Decide(metricsRow, rights.Caller{Kind: rights.Person, Name: principal, Grants: known.Grants})
	return refused == nil && known.Revoked.IsZero()
}

var metricsRow, _ = rights.RowOf("agent GET /metrics")

// successor is a new stream of an agent, from another boot or host than its current stream, which still looks alive.
// The new one waits while the current one is asked (R7). A host that was booted again within a session timeout sends
// nothing more on its old stream; both streams send only when a data folder was cloned.
type successor struct {
	link     *link
	greeting admission.Greeting
	asked    time.Time
}

// successorHeartbeats is how many heartbeat intervals the older stream has to answer: one for a heartbeat, and one for
// its way.
const successorHeartbeats = 2

// contested reports whether the agent has a stream from another boot or host that still looks alive.
func (r *agents) contested(id api.AgentID, g admission.Greeting) bool {
	a := r.agentByID[id]
	if a == nil || a.link == nil || r.now.Sub(a.seen) >= a.told.timeout {
		return false
	}
	return a.boot != g.Boot || a.host != g.Agent.Hostname
}

// askPredecessor lets the new stream wait and sends an event to the older one. If the host was booted again, that event
// breaks the older stream at once, because nothing there knows it.
func (r *agents) askPredecessor(l *link, a *agent, g admission.Greeting) {
	if former := a.successor; former != nil {
		r.refuseAgent(former.link, a.id, api.Stale, errors.New("a newer stream of the same agent has come"))
	}
	r.info("agent asked whether it lives", field("agent", a.id), field("why", "another boot or host comes with its ID"), field("host", g.Agent.Hostname))
	l.waits, a.successor = a, &successor{l, g, r.now}
	r.deadlines.Set(a.asked, r.now.Add(successorHeartbeats*a.told.beat))
	r.tellAgent(a, protocol.AgentPong{})
}

// predecessorSpoke refuses the successor, because both streams are alive. A call that came before the question does not
// count as an answer.
func (r *agents) predecessorSpoke(a *agent) {
	if s := a.successor; s != nil && r.came.After(s.asked) {
		r.forgetSuccessor(a)
		r.refuseAgent(s.link, a.id, api.Exists, fmt.Errorf("the agent with this ID is alive on %s: a cloned data folder?", a.host))
	}
}

// endPredecessor closes the older stream, which has not answered, and lets the successor in.
func (r *agents) endPredecessor(a *agent) {
	if a.successor == nil || a.link == nil {
		return
	}
	why := "another boot of its host has taken over"
	r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New(why))})
	r.disconnectAgent(a, why)
}

// admitSuccessor admits the stream that waited, when the older one has ended.
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
