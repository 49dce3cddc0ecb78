package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

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

// newAgent makes the picture of an admitted agent that has not been heard of.
func (c *Core) newAgent(id api.AgentID) *agent {
	a := &agent{
		id:          id,
		state:       api.AgentDisconnected,
		since:       c.now,
		policyStale: true,
		tasks:       make(map[api.TaskRef]*task),
		executors:   make(map[api.ExecutorRef]*executor),
		offers:      make(map[api.OfferID]*offer),
		units:       newUnits(),
	}
	a.clock, a.asked = newDeadline(agentSilent{a}), newDeadline(predecessorSilent{a})
	a.window.turn, a.stale = newDeadline(maintenanceTurn{a}), newDeadline(usageOutdated{a})
	c.agents[id] = a
	c.describeAgent(a)
	a.marked = c.marks(a)
	return a
}

// recoverAgents takes the admitted agents from the registry: none is back yet.
func (c *Core) recoverAgents() {
	for _, id := range slices.Sorted(maps.Keys(c.registry.Agents)) {
		a := c.newAgent(id)
		a.gone = "not yet back after the failover"
		if c.marks(a).Has(api.MarkGone) {
			a.enter(phaseTombstone)
			c.restate(a)
			continue
		}
		c.planMaintenance(a)
		c.awaited[id] = true
		c.returning = append(c.returning, id)
		c.deadlines.set(a.clock, c.now.Add(c.config.TombstoneAfter))
		c.restate(a)
	}
}

// describeAgent takes over what the registry says of the agent.
func (c *Core) describeAgent(a *agent) {
	known, host := c.registry.Agents[a.id], a.info.Hostname
	a.info = known.Agent
	c.moveHost(a, host)
	a.resize(known.Total())
}

func (c *Core) marks(a *agent) api.Mark { return c.registry.Agents[a.id].Marks }

// agentAdmitted begins the picture of an agent that the registry has taken.
func (c *Core) agentAdmitted(id api.AgentID) {
	if c.agents[id] == nil {
		a := c.newAgent(id)
		a.gone = "admitted, no session yet"
		c.deadlines.set(a.clock, c.now.Add(c.config.TombstoneAfter))
		c.info("agent admitted", field("agent", id), field("host", a.info.Hostname))
	}
	c.agentChanged(id)
}

// agentChanged follows a change of what an agent has or says of itself.
func (c *Core) agentChanged(id api.AgentID) {
	a := c.agents[id]
	if a == nil {
		return
	}
	before := a.total
	c.describeAgent(a)
	if !a.total.Equal(before) && a.over {
		c.rescindAll(a.offers, "the agent's resources have changed")
		a.recheck()
	}
	a.policyStale = true
	c.restate(a)
}

// condition is the state that a list shows, and why.
func (c *Core) condition(a *agent) (api.AgentState, string) {
	switch a.phase {
	case phaseTombstone, phaseOverdue, phaseReturning:
		return api.AgentTombstone, a.gone
	case phaseAway:
		return api.AgentDisconnected, a.gone
	case phaseReporting:
		return api.AgentDisconnected, "back, its report is not yet in"
	case phaseIniting:
		return api.AgentIniting, "registered, no heartbeat yet"
	case phaseUp:
	}
	switch {
	case a.unable != "":
		return api.AgentRunning, "it can start nothing: " + a.unable
	case a.exhausted():
		return api.AgentBusy, "nothing is left to offer"
	}
	return api.AgentRunning, ""
}

// exhausted says that less is left than is ever worth an offer.
func (a *agent) exhausted() bool {
	return a.left("cpus") < api.MilliOf(0.01) && a.left("mem") < api.MilliOf(32)
}

// restate shows the agent as it now is, and tells the policy whether to offer it.
func (c *Core) restate(a *agent) {
	state, why := c.condition(a)
	if state != a.state || why != a.why {
		if state != a.state {
			a.since = c.now
			c.logState(a, state, why)
		}
		a.state, a.why = state, why
	}
	c.offerAgent(a)
}

func (c *Core) logState(a *agent, state api.AgentState, why string) {
	both := state == api.AgentBusy && a.state == api.AgentRunning || state == api.AgentRunning && a.state == api.AgentBusy
	if both { // with every task that comes and goes
		return
	}
	fields := []Field{field("agent", a.id), field("state", state.String())}
	if why != "" {
		fields = append(fields, field("why", why))
	}
	c.info("agent state", fields...)
}

// whyWithheld says why the agent is not to be offered, "" when it is.
func (c *Core) whyWithheld(a *agent) string {
	marks := c.marks(a)
	switch {
	case marks.Has(api.MarkGone):
		return "marked gone"
	case a.state != api.AgentRunning && a.state != api.AgentBusy:
		return a.state.String() + ": " + a.why
	case a.unable != "":
		return a.why
	case a.reserving:
		return "what is reserved on it is being changed"
	case a.window.begun && !marks.Has(api.MarkDraining):
		return "its maintenance begins"
	case marks.Has(api.MarkDraining):
		return "draining"
	case marks.Has(api.MarkDeactivated):
		return "deactivated"
	case a.over: // nothing of it can be booked, so nothing may be proposed
		return "its tasks hold more than it has"
	}
	return ""
}

// offerAgent tells the policy when what it knows of the agent is no longer so.
func (c *Core) offerAgent(a *agent) {
	why := c.whyWithheld(a)
	if why == a.withheld && !a.policyStale {
		return
	}
	gap := c.gapToTell(a)
	a.withheld, a.policyStale, a.gapTold = why, false, gap
	if a.dead() {
		c.policy.RemoveAgent(a.id)
		return
	}
	c.policy.SetAgent(allocator.Agent{
		ID:         a.id,
		Hostname:   a.info.Hostname,
		Total:      a.total.Plus(gap),
		Attributes: a.info.Attributes,
		Region:     a.info.Region,
		Zone:       a.info.Zone,
		Offerable:  why == "",
		Why:        why,
	})
}

// sortedTasks are the agent's tasks in the order of their names.
func (a *agent) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(a.tasks), func(x, y *task) int { return compareRefs(x.ref, y.ref) })
}
