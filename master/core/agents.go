package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
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
	volumes     *volumes
	overdue     *overdue
	hold        *hold

	links  map[Conn]*link // agents' streams
	opened uint64         // sessions of this term
}

// agent is an admitted agent as the leader sees it. What stands in a struct of its own belongs to the room in whose file
// that is.
type agent struct {
	id   api.AgentID
	info api.Agent
	ledger
	agentStream
	agentLife
	agentStanding
	agentUsage
	agentQuestions

	tasks      map[api.TaskRef]*task // all that it may run or still owes an end for
	executors  map[api.ExecutorRef]*executor
	offers     map[api.OfferID]*offer
	accepts    []*acceptance // that wait for the registry, one after the other (R26)
	reserving  bool          // an operator changes what is reserved; the registry has not answered yet
	orphans    map[api.VolumeID]*orphan
	stubs      []protocol.TaskStub
	apart      []protocol.TaskStub  // tasks that no leader has launched there: neither counted nor killed (R40)
	killsAhead map[api.TaskRef]kill // of operators, for tasks that only frameworks know of until it is back

	marked api.Mark // as last seen in the registry
	drain  drain
	window maintenanceWindow
}

// recoverAgents takes the admitted agents from the registry: none is back yet.
func (r *agents) recoverAgents() {
	for _, id := range slices.Sorted(maps.Keys(r.registry.Agents)) {
		a := r.inventory.newAgent(id)
		a.gone = "not yet back after the failover"
		if r.marks(a).Has(api.MarkGone) {
			a.enter(phaseTombstone)
			r.standing.restate(a)
			continue
		}
		r.maintenance.planMaintenance(a)
		r.hold.awaited[id] = true
		r.answers.returning = append(r.answers.returning, id)
		r.deadlines.set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.standing.restate(a)
	}
}

func (b *base) marks(a *agent) api.Mark { return b.registry.Agents[a.id].Marks }

// agentAdmitted begins the picture of an agent that the registry has taken.
func (r *agents) agentAdmitted(id api.AgentID) {
	if r.agentByID[id] == nil {
		a := r.inventory.newAgent(id)
		a.gone = "admitted, no session yet"
		r.deadlines.set(a.clock, r.now.Add(r.config.TombstoneAfter))
		r.info("agent admitted", field("agent", id), field("host", a.info.Hostname))
	}
	r.inventory.agentChanged(id)
}

// sortedTasks are the agent's tasks in the order of their names.
func (a *agent) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(a.tasks), func(x, y *task) int { return x.ref.Compare(y.ref) })
}

const (
	// herdMin is how many agents need not spread their return.
	herdMin = 500
	// returnEach is what an agent's return is given: a connection, a report, its check.
	returnEach = time.Millisecond
	// returnStep: not each agent that joins is news to all others.
	returnStep = 100 * time.Millisecond
)

// returnWithin is over how long the agents spread their return to the next leader, so
// that those who come first are useful while the others are on their way. All of them are
// back well before they are taken for dead.
func (r *agents) returnWithin() time.Duration {
	if len(r.agentByID) < herdMin {
		return 0
	}
	within := min(time.Duration(len(r.agentByID))*returnEach, r.config.TombstoneAfter/3)
	return within.Truncate(returnStep)
}

// returnNews is that, if it has changed since the agent's session was told last. A cluster
// that has become small again leaves it at what it was.
func (r *agents) returnNews(a *agent) time.Duration {
	within := r.returnWithin()
	if within == a.within || within == 0 {
		return 0
	}
	a.within = within
	return within
}
