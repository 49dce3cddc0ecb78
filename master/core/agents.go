package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/core/overdue"
	"github.com/tenderhq/tender/master/core/reserving"
)

// agents keeps the life of each agent: its streams, its report, its silence, its marks and its end.
type agents struct {
	*base
	proposals   *proposals
	standing    *standing
	offers      *offers
	kills       *kills
	usage       *usage
	answers     *answers
	inverses    *inverses
	maintenance *maintenance
	frameworks  *frameworks
	executors   *executors
	tasks       *tasks
	inventory   *inventory
	hold        *hold

	overdue  overdue.Queue
	goneTurn *deadline      // when the next overdue agent may be marked gone
	links    map[Conn]*link // agents' streams
	opened   uint64         // counts the sessions of agents in this term
}

// agent is an admitted agent as the leader sees it. Each embedded struct belongs to the room in whose file it is
// declared.
type agent struct {
	id   api.AgentID
	info api.Agent
	ledger.Ledger
	agentStream
	agentLife
	agentStanding
	agentUsage
	agentQuestions

	tasks     map[api.TaskRef]*task // all tasks that it may run, or whose end is not acknowledged yet
	living    int                   // how many of them have not ended, UNREACHABLE ones among them
	executors map[api.ExecutorRef]*executor
	offers    map[api.OfferID]*offer
	accepts   []*acceptance // accepts with reservations; each waits for the registry after the one before it (R26)
	reserving bool          // an operator is changing what is reserved; the registry has not answered yet
	orphans   map[api.VolumeID]*reserving.Orphan
	stubs     []protocol.TaskStub
	apart     []protocol.TaskStub // reported tasks that no leader has launched; neither counted nor killed (R40)

	marked api.Mark // as last seen in the registry
	drain  drain
	window maintenanceWindow
}

// addTask adds a task of the agent. It may take the place of an earlier launch.
func (a *agent) addTask(t *task) {
	a.dropTask(a.tasks[t.ref])
	a.tasks[t.ref] = t
	a.living += t.lives()
}

// dropTask takes a task out, if it is there.
func (a *agent) dropTask(t *task) {
	if t != nil && a.tasks[t.ref] == t {
		delete(a.tasks, t.ref)
		a.living -= t.lives()
	}
}

// lives returns 1 for a task that has not ended, else 0.
func (t *task) lives() int {
	if t.status.State.Terminal() {
		return 0
	}
	return 1
}

// become sets the latest status of a task of an agent.
func (t *task) become(s api.Status) {
	t.agent.living -= t.lives()
	t.status = status{State: s.State, Reason: s.Reason, Source: s.Source, Number: s.Number, Previous: s.Previous, At: s.At}
	if t.saysMore(&s) {
		whole := s // the parameter does not escape otherwise
		t.status.whole = &whole
	}
	t.agent.living += t.lives()
}

// agentLife is the state of an agent's life, and the reasons for it.
type agentLife struct {
	phase   life.Phase
	account life.Account
	clock   *deadline // for the session timeout, then for TOMBSTONE, then for gone
	gone    string    // why it has no stream
	pending int       // changes of its description or that end it, and that the registry has not answered yet
	leftAt  time.Time // when its last stream of this term ended; zero: it has had none
	refused string    // why its version is not accepted; "" = it is accepted
	unable  string    // why it can start nothing, as it said in this session; "" = it can
}

// enter moves the agent to a phase of its life.
func (a *agent) enter(next life.Phase) {
	invariant.Check(a.phase.May(next), "agent %s is %v and may not become %v", a.id, a.phase, next)
	a.phase = next
}

// recoverAgents takes the admitted agents from the registry. None of them is connected yet.
func (r *agents) recoverAgents() {
	for _, id := range slices.Sorted(maps.Keys(r.registry.Agents)) {
		a := r.inventory.newAgent(id)
		a.gone = "not yet back after the failover"
		if r.marks(a).Has(api.MarkGone) {
			a.enter(life.Tombstone)
			r.standing.restate(a)
			continue
		}
		r.maintenance.planMaintenance(a)
		r.hold.await(id)
		r.answers.expect(id)
		r.deadlines.Set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.standing.restate(a)
	}
}

func (b *base) marks(a *agent) api.Mark { return b.registry.Agents[a.id].Marks }

// agentAdmitted adds an agent that the registry has admitted.
func (r *agents) agentAdmitted(id api.AgentID) {
	if r.agentByID[id] == nil {
		a := r.inventory.newAgent(id)
		a.gone = "admitted, no session yet"
		r.deadlines.Set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.noteAgent(a, change.Admitted, "on host "+a.info.Hostname)
		r.noteLost(id)
		r.answers.askLost(a)
		r.info("agent admitted", field("agent", id), field("host", a.info.Hostname))
	}
	r.inventory.agentChanged(id)
}

// agentMarked follows a change of an agent's marks in the registry: its offers are rescinded and the agent is told.
func (r *agents) agentMarked(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	marks := r.marks(a)
	r.noteAgent(a, markedAs(a.marked, marks), r.registry.Agents[id].Why)
	a.marked = marks
	r.info("agent marked", field("agent", id), Field{"marks", marksText(marks)}, field("why", r.registry.Agents[id].Why))
	if marks.Has(api.MarkGone) {
		r.endAgent(a, "marked gone: "+r.registry.Agents[id].Why)
		r.goneForgotten()
		return
	}
	r.maintenance.planMaintenance(a)
	if marks != 0 {
		r.offers.rescindAll(a.offers, "the agent is marked "+marksText(marks))
	}
	if !marks.Has(api.MarkDraining) {
		a.drain.force, a.drain.proposed = false, false
	}
	if !marks.Has(api.MarkDrained) {
		r.maintenance.tellDrain(a)
	}
	r.standing.restate(a)
	r.maintenance.checkDrained(a)
}

// markedAs returns what a change of an agent's marks means.
func markedAs(before, now api.Mark) change.What {
	switch added := now &^ before; {
	case added.Has(api.MarkGone):
		return change.Gone
	case added.Has(api.MarkDrained):
		return change.Drained
	case added.Has(api.MarkDraining):
		return change.Draining
	case added.Has(api.MarkDeactivated):
		return change.Deactivated
	case now == before: // its grace or its reason is another one
		return change.Updated
	}
	return change.Reactivated
}

// agentRemoved follows the registry: the agent is forgotten.
func (r *agents) agentRemoved(id api.AgentID, why string) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	delete(r.agentByID, id)
	r.offers.forgetFreed(id)
	r.inventory.forgetAgent(a)
	r.deadlines.Clear(a.window.turn)
	r.noteAgent(a, change.Removed, why)
	r.info("agent removed", field("agent", id), field("why", why))
	r.endAgent(a, why)
	r.tasks.dropStubs(a)
	if a.account == life.AccountNone {
		r.answers.tellLost(id)
	}
}

// goneForgotten removes the agents that were marked gone and that the registry has forgotten.
func (r *agents) goneForgotten() {
	if len(r.agentByID) <= len(r.registry.Agents) {
		return
	}
	for _, id := range sortedKeys(r.agentByID) {
		if _, admitted := r.registry.Agents[id]; !admitted {
			r.agentRemoved(id, "forgotten: it was marked gone long ago")
		}
	}
}

// sortedTasks returns the agent's tasks, sorted by task reference.
func (a *agent) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(a.tasks), func(x, y *task) int { return x.ref.Compare(y.ref) })
}

const (
	// spreadFromAgents is the number of agents from which on they are told to spread their return after a failover.
	spreadFromAgents = 500
	// spreadPerAgent is how long two processors take for the return of one agent: connect, report, check. When more come,
	// they wait at the door.
	spreadPerAgent = 250 * time.Microsecond
	// spreadStep is the unit to which the spread is rounded down. Without it each agent that joins would change what
	// all others are told.
	spreadStep = 100 * time.Millisecond
	// beatPerAgent is what each agent adds to the interval between two heartbeats of all: a leader hears 4,000 in a second,
	// which takes a quarter of a processor.
	beatPerAgent = 250 * time.Microsecond
	// beatStep is the unit to which that interval is rounded down, for the same reason.
	beatStep = 500 * time.Millisecond
	// beatMost is the longest interval that a leader asks for by itself: who is gone should be missed.
	beatMost = 10 * time.Second
)

// pace is what agents are told by the size of their cluster: how often they send heartbeats, after what silence a session
// is over, and over how long they spread their return after a failover.
type pace struct{ beat, timeout, within time.Duration }

// pace returns the pace for as many agents as there are (R4, R92). Returns are spread so that the first to return are
// useful while others are still on their way, and end well before agents are taken for dead.
func (r *agents) pace() pace {
	agents := len(r.agentByID)
	each := func(took time.Duration) time.Duration { return time.Duration(agents) * took }
	p := pace{beat: max(min(each(beatPerAgent), beatMost).Truncate(beatStep), r.config.HeartbeatInterval)}
	p.timeout = time.Duration(float64(r.config.SessionTimeout) * (float64(p.beat) / float64(r.config.HeartbeatInterval)))
	if agents >= spreadFromAgents {
		p.within = min(each(spreadPerAgent), r.config.TombstoneAfter/3).Truncate(spreadStep)
	}
	return p
}

// grown returns what is more than an agent was told before, and notes that it is told now. When the cluster becomes small,
// an agent keeps what it was told.
func (told *pace) grown(now pace) (news pace) {
	if now.beat > told.beat {
		told.beat, told.timeout, news.beat, news.timeout = now.beat, now.timeout, now.beat, now.timeout
	}
	if now.within > told.within {
		told.within, news.within = now.within, now.within
	}
	return news
}
