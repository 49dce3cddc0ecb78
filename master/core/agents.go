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

// agent is an admitted agent as the leader sees it.
type agent struct {
	id   api.AgentID
	info api.Agent
	ledger

	link      *link      // its stream; nil while it has none
	session   uint64     // of that stream (R2)
	successor *successor // from another boot or host; nil: none
	boot      string     // boot ID and host of that stream (R7)
	host      string
	seen      time.Time     // its last sign of life
	asked     *deadline     // until when the older stream may answer, while a successor waits
	clock     *deadline     // session timeout, then TOMBSTONE, then gone
	masters   uint64        // the change of masters that it was told last
	within    time.Duration // for its return, as it was told last
	report    *report       // pages that have come so far; nil when none is awaited

	phase   phase
	account account
	leftAt  time.Time // when its last stream of this term ended; zero: it had none
	refused string    // why its version is; "" = it is not
	// unable is why it can start nothing, as it said in this session; "" = it can.
	unable string

	state    api.AgentState // as shown, with since when and why
	since    time.Time
	why      string
	gone     string // why the stream is missing
	withheld string // why the policy may not offer it, as it was told last; "" = it may
	// policyStale: the policy is to be told of it again, though that is the same.
	policyStale bool

	tasks       map[api.TaskRef]*task // all that it may run or still owes an end for
	executors   map[api.ExecutorRef]*executor
	offers      map[api.OfferID]*offer
	accepts     []*acceptance // that wait for the registry, one after the other (R26)
	questions   []asked       // of frameworks, answered once it is back (R8)
	questionsAt uint64        // how many sessions had ended when theirs were last dropped from the questions
	orphans     map[api.VolumeID]*orphan
	stubs       []protocol.TaskStub
	killsAhead  map[api.TaskRef]kill // of operators, for tasks that only frameworks know of until it is back

	usage     protocol.UsageReport
	smooth    smoothed
	units     units // what samples are compared with
	reserving bool  // an operator changes what is reserved; the registry has not answered yet
	drain     drain

	window  maintenanceWindow
	marked  api.Mark      // as last seen in the registry
	gapTold api.Resources // to the policy
	stale   *deadline     // when its last sample says nothing any more (R28)
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
	return slices.SortedFunc(maps.Values(a.tasks), func(x, y *task) int { return compareRefs(x.ref, y.ref) })
}
