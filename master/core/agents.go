package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/core/overdue"
	"github.com/tenderhq/tender/master/core/reserving"
)

// agents is the life of each agent: its streams, its report, its silence, its marks and its end.
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
	goneTurn *deadline      // when the next of these may be marked gone
	links    map[Conn]*link // agents' streams
	opened   uint64         // sessions of this term
}

// agent is an admitted agent as the leader sees it. What stands in a struct of its own belongs to the room in whose file
// that is.
type agent struct {
	id   api.AgentID
	info api.Agent
	ledger.Ledger
	agentStream
	agentLife
	agentStanding
	agentUsage
	agentQuestions
	agentTasks

	executors map[api.ExecutorRef]*executor
	offers    map[api.OfferID]*offer
	accepts   []*acceptance // answers with reservations that wait for the registry, one after the other (R26)
	reserving bool          // an operator changes what is reserved; the registry has not answered yet
	orphans   map[api.VolumeID]*reserving.Orphan
	stubs     []protocol.TaskStub
	apart     []protocol.TaskStub // tasks of its report that no leader has launched: neither counted nor killed (R40)

	marked api.Mark // as last seen in the registry
	drain  drain
	window maintenanceWindow
}

// agentTasks are the tasks of an agent, and what is to be known when it has another one of the same ID.
type agentTasks struct {
	tasks      map[api.TaskRef]*task        // all that it may run or still owes an end for
	former     map[api.TaskRef]formerLaunch // that it has DROPPED
	killsAhead map[api.TaskRef]kill         // kills by operators of tasks that only frameworks know of, for when the agent is back
}

// agentLife is how an agent's life stands, and why.
type agentLife struct {
	phase   life.Phase
	account life.Account
	clock   *deadline // session timeout, then TOMBSTONE, then gone
	gone    string    // why the stream is missing
	leftAt  time.Time // when its last stream of this term ended; zero: it had none
	refused string    // why its version is not accepted; "": it is
	unable  string    // why it can start nothing, as it said in this session; "" = it can
}

// enter moves the agent to a phase of its life.
func (a *agent) enter(next life.Phase) {
	invariant.Check(a.phase.May(next), "agent %s is %v and may not become %v", a.id, a.phase, next)
	a.phase = next
}

// recoverAgents takes the admitted agents from the registry: none is back yet.
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
		r.hold.awaited[id] = true
		r.answers.returning = append(r.answers.returning, id)
		r.deadlines.Set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.standing.restate(a)
	}
}

func (b *base) marks(a *agent) api.Mark { return b.registry.Agents[a.id].Marks }

// agentAdmitted begins the picture of an agent that the registry has taken.
func (r *agents) agentAdmitted(id api.AgentID) {
	if r.agentByID[id] == nil {
		a := r.inventory.newAgent(id)
		a.gone = "admitted, no session yet"
		r.deadlines.Set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.info("agent admitted", field("agent", id), field("host", a.info.Hostname))
	}
	r.inventory.agentChanged(id)
}

// agentMarked follows the registry: offers go, the agent is told.
func (r *agents) agentMarked(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	marks := r.marks(a)
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

// agentRemoved follows the registry: the agent is forgotten.
func (r *agents) agentRemoved(id api.AgentID, why string) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	delete(r.agentByID, id)
	delete(r.offers.freed, id)
	r.inventory.leaveHost(a, a.info.Hostname)
	r.deadlines.Clear(a.window.turn)
	r.info("agent removed", field("agent", id), field("why", why))
	r.endAgent(a, why)
	r.tasks.stubs -= len(a.stubs)
	if a.account == life.AccountNone {
		r.answers.tellLost(id)
	}
}

// goneForgotten follows the registry, which has forgotten agents that were marked gone.
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

// sortedTasks are the agent's tasks in the order of their names.
func (a *agent) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(a.tasks), func(x, y *task) int { return x.ref.Compare(y.ref) })
}

const (
	// spreadFromAgents is from how many agents on they spread their return after a failover.
	spreadFromAgents = 500
	// spreadPerAgent is the time that the return of one agent takes the next leader: a connection, a report, its check.
	spreadPerAgent = time.Millisecond
	// spreadStep is what the spread is rounded to, so that not every agent that joins changes what all others are told.
	spreadStep = 100 * time.Millisecond
)

// spreadOfReturns is over how long all agents should spread their return to the next leader, so that those that come
// first are useful while others are on their way. All of them are back well before they are taken for dead.
func (r *agents) spreadOfReturns() time.Duration {
	if len(r.agentByID) < spreadFromAgents {
		return 0
	}
	within := min(time.Duration(len(r.agentByID))*spreadPerAgent, r.config.TombstoneAfter/3)
	return within.Truncate(spreadStep)
}

// spreadIfChanged returns over how long agents should spread their return after a failover, when that differs from what
// this agent was told before; otherwise zero. It is never taken back when the cluster becomes small. (Protocol rule
// R4.)
func (r *agents) spreadIfChanged(a *agent) time.Duration {
	within := r.spreadOfReturns()
	if within == a.within || within == 0 {
		return 0
	}
	a.within = within
	return within
}
