package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// executorKey finds an executor of a framework.
type executorKey struct {
	agent    api.AgentID
	executor api.ExecutorID
}

// framework is one that may hold tasks, or one that was removed and whose last
// processes have not ended yet.
type framework struct {
	id   api.FrameworkID
	info api.Framework

	session *session // of its active scheduler; nil while it is disconnected
	latest  *session // of this term; what it has said of tasks is shown while nobody else is here
	since   time.Time
	why     string
	refused string // why a version of its scheduler is; "" = it is not
	// place: until then the last active instance of a standby may come back to its
	// place before others take it (R6).
	place    time.Time
	turn     *deadline // when the place is given up
	failover *deadline // of its tasks, while disconnected
	removed  bool

	tasks      map[api.TaskID]*task
	executors  map[executorKey]*executor
	offers     map[api.OfferID]*offer
	suppressed map[api.Role]bool
	demand     map[api.Role][]api.Shape
	demandFrom api.Nonce // the instance that stated it
	books      map[api.Role]*books
	placed     view.Placements
	results    results
	decisions  decisions
	duplicates int // tasks that are not in tasks, for another has their ID (R9)
}

// books sum what a framework has in one role, for people.
type books struct{ used, offered tally }

// newFramework makes the picture of a framework that is not subscribed.
func (c *Core) newFramework(id api.FrameworkID) *framework {
	fw := &framework{
		id:         id,
		since:      c.now,
		tasks:      make(map[api.TaskID]*task),
		executors:  make(map[executorKey]*executor),
		offers:     make(map[api.OfferID]*offer),
		suppressed: make(map[api.Role]bool),
		demand:     make(map[api.Role][]api.Shape),
		books:      make(map[api.Role]*books),
	}
	fw.results.recall(c.registry.Frameworks[id].Operations)
	fw.failover, fw.turn = newDeadline(failoverOver{fw}), newDeadline(placeFree{fw})
	c.frameworks[id] = fw
	return fw
}

// recoverFrameworks takes the living frameworks from the registry, all disconnected.
// Their failover time starts anew with the term (R21).
func (c *Core) recoverFrameworks() {
	for _, id := range sortedKeys(c.registry.Frameworks) {
		known := c.registry.Frameworks[id]
		if !known.Removed.IsZero() {
			continue
		}
		c.frameworkAdmitted(id)
		c.keepPlace(c.frameworks[id], c.now)
	}
}

// frameworkAdmitted follows what the registry says of a framework.
func (c *Core) frameworkAdmitted(id api.FrameworkID) {
	known := c.registry.Frameworks[id]
	fw := c.frameworks[id]
	if fw == nil {
		fw = c.newFramework(id)
		c.goAway(fw, "not yet subscribed")
	}
	before := fw.info
	fw.info = known.Framework
	c.leaveRoles(fw, before.Roles)
	if fw.info.Constraint != before.Constraint {
		c.rescindRuledOut(fw)
	}
	if !fw.info.Revocable {
		c.rescindRevocable(fw, "the framework takes no revocable resources any more")
	}
	if fw.info.Standby {
		c.standbys[fw.info.Name] = id
	}
	c.describeToPolicy(fw)
}

// leaveRoles takes back what the framework holds and wants in roles that it has left.
// Tasks that it runs there go on, and count there.
func (c *Core) leaveRoles(fw *framework, before []api.Role) {
	left := make(map[api.OfferID]*offer)
	for id, o := range fw.offers { // order: irrelevant because it fills a map
		if !slices.Contains(fw.info.Roles, o.role) {
			left[id] = o
		}
	}
	c.rescindAll(left, "the framework has left the role")
	for _, role := range before {
		if slices.Contains(fw.info.Roles, role) {
			continue
		}
		delete(fw.suppressed, role)
		c.unstate(fw, role)
		c.policy.Revive(fw.id, []api.Role{role})
	}
}

// rescindRuledOut takes back offers of agents that the framework's constraint, a new one,
// rules out: it does not want them, and others may.
func (c *Core) rescindRuledOut(fw *framework) {
	if len(fw.offers) == 0 {
		return
	}
	allowed := c.compileAll(fw.info.Constraint)
	out := make(map[api.OfferID]*offer)
	for id, o := range fw.offers { // order: irrelevant because it fills a map
		if !allowed.hold(o.role, o.agent) {
			out[id] = o
		}
	}
	c.rescindAll(out, "the framework's new constraint rules the agent out")
}

// describeToPolicy tells the allocator what it needs to know.
func (c *Core) describeToPolicy(fw *framework) {
	c.takesRevocable(fw, fw.info.Revocable && !fw.removed)
	c.policy.SetFramework(allocator.Framework{
		ID:         fw.id,
		Name:       fw.info.Name,
		Roles:      fw.info.Roles,
		Active:     fw.session != nil,
		Constraint: fw.info.Constraint,
		MinOffer:   fw.info.MinOffer,
		MaxOffer:   fw.info.MaxOffer,
		Revocable:  fw.info.Revocable,
	})
}

// goAway starts the failover time of a framework without a scheduler.
func (c *Core) goAway(fw *framework, why string) {
	fw.since, fw.why = c.now, why
	timeout := fw.info.FailoverTimeout
	if known, ok := c.registry.Frameworks[fw.id]; ok {
		timeout = known.Framework.FailoverTimeout
	}
	if timeout == 0 {
		timeout = c.config.FailoverTimeout
	}
	c.deadlines.set(fw.failover, c.now.Add(timeout))
}

// failoverDue removes a framework whose scheduler stayed away; the quorum refuses if
// one has subscribed since (R5).
func (c *Core) failoverDue(fw *framework) {
	if fw.session != nil || fw.removed {
		return
	}
	known := c.registry.Frameworks[fw.id]
	change := registry.RemoveFramework{ID: fw.id, Session: known.Session, Why: "no scheduler within its failover time"}
	c.propose(change, endFailover{fw})
}

// failoverAnswered goes on when the registry has answered.
func (c *Core) failoverAnswered(fw *framework, result registry.Result) {
	if result.Err != nil && fw.session == nil && !fw.removed { // someone subscribed, and left again
		c.goAway(fw, fw.why)
	}
}

// frameworkRemoved follows the registry: whatever is left of it is killed.
func (c *Core) frameworkRemoved(id api.FrameworkID) {
	if fw := c.frameworks[id]; fw != nil && !fw.removed {
		c.bury(fw, c.registry.Frameworks[id].Why)
	}
}

// bury makes a framework one that only waits for its last processes to end. Their
// resources stay booked until then (promise 1).
func (c *Core) bury(fw *framework, why string) {
	c.rescindAll(fw.offers, "the framework was removed")
	if s := fw.session; s != nil {
		c.endSession(s, removalError(fw.id, s, why))
		fw.session = nil
	}
	fw.removed, fw.why, fw.since = true, why, c.now
	c.deadlines.clear(fw.failover)
	c.deadlines.clear(fw.turn)
	if c.standbys[fw.info.Name] == fw.id {
		delete(c.standbys, fw.info.Name)
	}
	c.describeToPolicy(fw)
	c.info("framework removed", field("framework", fw.id), field("why", why))
	c.removeFromAgents(fw)
	c.forgetRemoved(fw)
	c.nextStandby(fw.info.Name)
}

// removeFromAgents tells every agent that has something of it.
func (c *Core) removeFromAgents(fw *framework) {
	concerned := make(map[api.AgentID]*agent)
	for _, t := range fw.tasks { // order: irrelevant because it fills a map
		concerned[t.agent.id] = t.agent
	}
	for _, x := range fw.executors { // order: irrelevant because it fills a map
		concerned[x.agent.id] = x.agent
	}
	for _, id := range sortedKeys(concerned) {
		c.tellAgent(concerned[id], protocol.RemoveFramework{Framework: fw.id})
	}
	for _, t := range fw.sortedTasks() {
		if t.status.State.Terminal() || !t.held {
			c.forgetTask(t)
		}
	}
}

// forgetRemoved drops a removed framework when nothing of it runs any more.
func (c *Core) forgetRemoved(fw *framework) {
	if fw.removed && len(fw.tasks)+len(fw.executors)+fw.duplicates == 0 && c.frameworks[fw.id] == fw {
		delete(c.frameworks, fw.id)
		c.policy.RemoveFramework(fw.id)
	}
}

// tombstoneOf is a removed framework of which an agent still has something.
func (c *Core) tombstoneOf(id api.FrameworkID) *framework {
	fw := c.newFramework(id)
	fw.info = c.registry.Frameworks[id].Framework
	fw.info.ID = id
	fw.removed, fw.why = true, c.registry.Frameworks[id].Why
	c.describeToPolicy(fw)
	return fw
}

// hold books what a task or executor uses, for people.
func (fw *framework) hold(role api.Role, resources api.Resources) { fw.book(role).used.add(resources) }

func (fw *framework) release(role api.Role, resources api.Resources) {
	fw.book(role).used.sub(resources)
}

func (fw *framework) book(role api.Role) *books {
	b := fw.books[role]
	if b == nil {
		b = &books{used: tally{}, offered: tally{}}
		fw.books[role] = b
	}
	return b
}

func (fw *framework) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(fw.tasks), func(x, y *task) int { return compareRefs(x.ref, y.ref) })
}

// tell queues an event to the framework's scheduler, if it has one.
func (c *Core) tell(fw *framework, event protocol.SchedulerEvent) {
	if fw.session != nil {
		c.emit(ToScheduler{Conn: fw.session.conn, Event: event})
	}
}
