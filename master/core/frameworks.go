package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/principals"
	"github.com/tenderhq/tender/master/core/recent"
	"github.com/tenderhq/tender/master/core/wants"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// frameworks keeps the state of each framework, apart from its scheduler's session: what the policy is told of it, and
// how long it is kept.
type frameworks struct {
	*base
	usage *usage
}

// executorKey identifies an executor within its framework.
type executorKey struct {
	agent    api.AgentID
	executor api.ExecutorID
}

// framework is one that may hold tasks, or a removed one whose last processes have not ended yet.
type framework struct {
	id    api.FrameworkID
	info  api.Framework
	share *principals.Share // where it counts, with its principal's other frameworks; nil: nowhere

	session *session // of its active scheduler; nil while it is disconnected
	// latest is its last session of this term. What that session has said of tasks is shown until there is another
	// session.
	latest  *session
	since   time.Time
	why     string
	refused string // why the version of its scheduler is not accepted; "" = it is accepted
	standbyPlace
	failover *deadline // until when its scheduler may come back to its tasks, while disconnected
	removed  bool

	tasks     map[api.TaskID]*task
	executors map[executorKey]*executor
	offers    map[api.OfferID]*offer
	wants     wants.Wants
	books     map[api.Role]*books
	launches  launches
	results   recent.Results
	decisions recent.Decisions
	// unlisted counts what else holds resources for it: second runs of tasks (R9), and accepts that wait (R26).
	unlisted int
}

// launches is what the leader keeps of a framework's launches beside their tasks.
type launches struct {
	placed view.Placements
	alike  alike
}

// books adds up what a framework has in one role, to be shown to people.
type books struct {
	used, offered ledger.Tally
	tasks         int // that hold resources, second runs (R9) among them
}

// newFramework adds a framework that is not subscribed.
func (r *frameworks) newFramework(id api.FrameworkID) *framework {
	fw := &framework{
		id:        id,
		since:     r.now,
		tasks:     make(map[api.TaskID]*task),
		executors: make(map[executorKey]*executor),
		offers:    make(map[api.OfferID]*offer),
		books:     make(map[api.Role]*books),
		wants:     wants.New(),
	}
	fw.results.Recall(r.registry.Frameworks[id].Operations)
	fw.failover, fw.turn = newDeadline(failoverOver{fw}), newDeadline(placeFree{fw})
	r.frameworkByID[id] = fw
	r.noteFramework(fw, change.Figures, "")
	return fw
}

// recoverFrameworks adds the registry's frameworks that are not removed, all of them disconnected. Their failover time
// starts anew with the term (R21).
func (r *sessions) recoverFrameworks() {
	for _, id := range sortedKeys(r.registry.Frameworks) {
		known := r.registry.Frameworks[id]
		if !known.Removed.IsZero() {
			continue
		}
		r.frameworkAdmitted(id)
		r.keepPlace(r.frameworkByID[id], r.now)
	}
}

// frameworkAdmitted takes over the registry's description of a framework.
func (r *sessions) frameworkAdmitted(id api.FrameworkID) {
	known := r.registry.Frameworks[id]
	fw := r.frameworkByID[id]
	what := change.Updated
	if fw == nil {
		fw = r.frameworks.newFramework(id)
		r.frameworks.goAway(fw, "not yet subscribed")
		what = change.Admitted
	}
	before := fw.info
	fw.info = known.Framework
	fw.countIn(r.shares.Of(fw.info.Principal))
	if what == change.Updated && fw.info.Equal(&before) { // a session of a framework that says the same of itself
		what = change.Figures
	}
	r.noteFramework(fw, what, "")
	r.leaveRoles(fw, before.Roles)
	if fw.info.Constraint != before.Constraint {
		r.offers.rescindRuledOut(fw)
	}
	if !fw.info.Revocable {
		r.offers.rescindIf(fw.offers, "the framework takes no revocable resources any more", func(o *offer) bool { return o.resources.HasRevocable() })
	}
	if fw.info.Standby {
		r.places.Give(fw.info.Name, id)
	}
	r.frameworks.describeToPolicy(fw)
}

// has returns what the framework counts for in its principal's share.
func (fw *framework) has() view.Tally {
	return view.Tally{Frameworks: 1, Tasks: len(fw.tasks), Shapes: fw.wants.Shapes(), Offers: len(fw.offers)}
}

// countIn moves the framework to this share, when its principal becomes known or changes.
func (fw *framework) countIn(share *principals.Share) {
	if share != fw.share {
		fw.share.Take(fw.has())
		share.Add(fw.has())
		fw.share = share
	}
}

// leaveRoles takes back what the framework holds and wants in roles that it has left. Tasks that it runs there
// continue, and still count in that role.
func (r *sessions) leaveRoles(fw *framework, before []api.Role) {
	r.offers.rescindIf(fw.offers, "the framework has left the role", func(o *offer) bool { return !slices.Contains(fw.info.Roles, o.role) })
	for _, role := range before {
		if slices.Contains(fw.info.Roles, role) {
			continue
		}
		fw.wants.Revive([]api.Role{role})
		r.demands.unstate(fw, role)
		r.policy.Revive(fw.id, []api.Role{role})
	}
}

// rescindRuledOut rescinds offers of agents that the framework's new constraint excludes. The framework does not want
// them, and others may.
func (r *offers) rescindRuledOut(fw *framework) {
	if len(fw.offers) == 0 {
		return
	}
	allowed := r.compileAll(fw.info.Constraint)
	r.rescindIf(fw.offers, "the framework's new constraint rules the agent out", func(o *offer) bool { return !allowed.hold(o.role, o.agent) })
}

// describeToPolicy tells the policy what it needs to know of the framework.
func (r *frameworks) describeToPolicy(fw *framework) {
	r.usage.takesRevocable(fw, fw.info.Revocable && !fw.removed)
	told := allocator.Framework{Framework: fw.info, Active: fw.session != nil, Withheld: fw.share.Withheld()}
	told.ID = fw.id
	r.policy.SetFramework(told)
}

// weighPrincipals tells the policy which frameworks are offered nothing more, because those of their principal together
// have too many offers or filters, and which are offered something again. It reports whether anything has changed.
// (Protocol rule R34.)
func (r *frameworks) weighPrincipals() bool {
	changed := r.shares.Weigh(r.filtersOf)
	for _, share := range changed {
		if why := share.Withheld(); why != "" {
			r.warn("a principal is offered nothing more", field("principal", share.Principal()), field("why", why))
		} else {
			r.info("a principal is offered something again", field("principal", share.Principal()))
		}
	}
	if len(changed) == 0 {
		return false
	}
	for _, id := range sortedKeys(r.frameworkByID) {
		if fw := r.frameworkByID[id]; fw.share != nil && slices.Contains(changed, fw.share) {
			r.describeToPolicy(fw)
		}
	}
	return true
}

// goAway starts the failover time of a framework that has no scheduler.
func (r *frameworks) goAway(fw *framework, why string) {
	fw.since, fw.why = r.now, why
	r.noteFramework(fw, change.Figures, "")
	timeout := fw.info.FailoverTimeout
	if known, ok := r.registry.Frameworks[fw.id]; ok {
		timeout = known.Framework.FailoverTimeout
	}
	if timeout == 0 {
		timeout = r.config.FailoverTimeout
	}
	r.deadlines.Set(fw.failover, r.now.Add(timeout))
}

// failoverDue asks the quorum to remove a framework whose scheduler stayed away too long. The quorum refuses if a
// scheduler has subscribed since (R5).
func (r *sessions) failoverDue(fw *framework) {
	if fw.session != nil || fw.removed {
		return
	}
	known := r.registry.Frameworks[fw.id]
	change := registry.RemoveFramework{ID: fw.id, Session: known.Session, Why: "no scheduler within its failover time"}
	r.proposals.propose(change, endFailover{fw})
}

// failoverAnswered continues when the registry has answered.
func (r *sessions) failoverAnswered(fw *framework, result registry.Result) {
	if result.Err != nil && fw.session == nil && !fw.removed { // a scheduler had subscribed, and has left since
		r.frameworks.goAway(fw, fw.why)
	}
}

// frameworkRemoved follows the removal of a framework in the registry: whatever is left of it is killed.
func (r *sessions) frameworkRemoved(id api.FrameworkID) {
	if fw := r.frameworkByID[id]; fw != nil && !fw.removed {
		r.keepUntilEmpty(fw, r.registry.Frameworks[id].Why)
	}
}

// keepUntilEmpty marks a framework as removed. It then only waits for its last processes to end; their resources stay
// booked until then (promise 1).
func (r *sessions) keepUntilEmpty(fw *framework, why string) {
	r.offers.rescindAll(fw.offers, "the framework was removed")
	if s := fw.session; s != nil {
		r.endSession(s, api.E("framework.session", api.Removed, fw.id, errors.New(why)))
		fw.session = nil
	}
	r.noteFramework(fw, change.Removed, why)
	r.noteLatest(fw)
	fw.removed, fw.why, fw.since = true, why, r.now
	r.deadlines.Clear(fw.failover)
	r.deadlines.Clear(fw.turn)
	r.places.TakeBack(fw.info.Name, fw.id)
	r.frameworks.describeToPolicy(fw)
	r.info("framework removed", field("framework", fw.id), field("why", why))
	r.removeFromAgents(fw)
	r.frameworks.forgetRemoved(fw)
	r.nextStandby(fw.info.Name)
}

// removeFromAgents tells every agent that has tasks or executors of the framework that it was removed.
func (r *sessions) removeFromAgents(fw *framework) {
	concerned := make(map[api.AgentID]*agent)
	for _, t := range fw.tasks { // order: irrelevant because it fills a map
		concerned[t.agent.id] = t.agent
	}
	for _, x := range fw.executors { // order: irrelevant because it fills a map
		concerned[x.agent.id] = x.agent
	}
	for _, id := range sortedKeys(concerned) {
		r.tellAgent(concerned[id], protocol.RemoveFramework{Framework: fw.id})
	}
	for _, t := range fw.sortedTasks() {
		if t.status.State.Terminal() || !t.held {
			r.tasks.forgetTask(t)
		}
	}
}

// forgetRemoved drops a removed framework when nothing of it runs or is held any more.
func (r *frameworks) forgetRemoved(fw *framework) {
	if fw.removed && len(fw.tasks)+len(fw.executors)+fw.unlisted == 0 && r.frameworkByID[fw.id] == fw {
		fw.countIn(nil)
		delete(r.frameworkByID, fw.id)
		r.noteFramework(fw, change.Figures, "")
		r.policy.RemoveFramework(fw.id)
	}
}

// tombstoneOf adds a removed framework again, because an agent still has something of it.
func (r *frameworks) tombstoneOf(id api.FrameworkID) *framework {
	fw := r.newFramework(id)
	fw.info = r.registry.Frameworks[id].Framework
	fw.info.ID = id
	fw.removed, fw.why = true, r.registry.Frameworks[id].Why
	r.describeToPolicy(fw)
	return fw
}

// hold adds what a task or executor uses to the role's sums.
// holdTask books what a task uses.
func (fw *framework) holdTask(t *task) {
	fw.hold(t.role, t.resources)
	fw.book(t.role).tasks++
}

func (fw *framework) releaseTask(t *task) {
	fw.release(t.role, t.resources)
	fw.book(t.role).tasks--
}

func (fw *framework) hold(role api.Role, resources api.Resources) { fw.book(role).used.Add(resources) }

func (fw *framework) release(role api.Role, resources api.Resources) {
	fw.book(role).used.Sub(resources)
}

func (fw *framework) book(role api.Role) *books {
	b := fw.books[role]
	if b == nil {
		b = &books{used: ledger.Tally{}, offered: ledger.Tally{}}
		fw.books[role] = b
	}
	return b
}

func (fw *framework) sortedTasks() []*task {
	return slices.SortedFunc(maps.Values(fw.tasks), func(x, y *task) int { return x.ref.Compare(y.ref) })
}

// tell queues an event for the framework's scheduler, if it has one.
func (b *base) tell(fw *framework, event protocol.SchedulerEvent) {
	if fw.session != nil {
		b.emit(ToScheduler{Conn: fw.session.conn, Event: event})
	}
}

// demands keeps what frameworks want, and the roles in which they want nothing now. It tells the policy of every
// change. (Protocol rule R38.)
type demands struct{ *base }

// suppress stops offers in the roles; no roles means all.
func (r *demands) suppress(s *session, number uint64, roles []api.Role) {
	fw := s.framework
	if r.haveRoles(s, number, "framework.suppress", roles) {
		fw.wants.Suppress(orAll(roles, fw))
		r.noteFramework(fw, change.Figures, "")
		r.policy.Suppress(fw.id, roles)
	}
}

// revive resumes offers in the roles and forgets their filters; no roles means all.
func (r *demands) revive(s *session, number uint64, roles []api.Role) {
	fw := s.framework
	if r.haveRoles(s, number, "framework.revive", roles) {
		fw.wants.Revive(orAll(roles, fw))
		r.noteFramework(fw, change.Figures, "")
		r.policy.Revive(fw.id, roles)
	}
}

func orAll(roles []api.Role, fw *framework) []api.Role {
	if len(roles) == 0 {
		return fw.info.Roles
	}
	return roles
}

// haveRoles reports whether all roles are the framework's; otherwise it refuses the call.
func (r *demands) haveRoles(s *session, number uint64, op string, roles []api.Role) bool {
	for _, role := range roles {
		if !slices.Contains(s.framework.info.Roles, role) {
			r.refuse(s, number, api.E(op, api.Invalid, role, fmt.Errorf("the framework has not subscribed to it, but to %v", s.framework.info.Roles)))
			return false
		}
	}
	return true
}

// startSuppressed begins a session in which exactly these roles are suppressed.
func (r *demands) startSuppressed(fw *framework, roles []api.Role) {
	fw.wants.SuppressOnly(roles)
	r.policy.Revive(fw.id, nil)
	if len(roles) > 0 {
		r.policy.Suppress(fw.id, roles)
	}
}

// resetDemand forgets what another instance of the framework wanted. The new instance will state its own demand.
func (r *demands) resetDemand(fw *framework, instance api.Nonce) {
	if !fw.wants.FromAnother(instance) {
		return
	}
	for _, role := range fw.wants.Stated() {
		r.unstate(fw, role)
	}
}

// setDemand handles a call that replaces the demand in a role.
func (r *demands) setDemand(s *session, number uint64, call protocol.SetDemand) {
	fw := s.framework
	role := call.Role
	if role == "" && len(fw.info.Roles) == 1 {
		role = fw.info.Roles[0]
	}
	if !r.haveRoles(s, number, "framework.demand", []api.Role{role}) {
		return
	}
	if kind, err := fw.wants.Check(role, call.Shapes, fw.share.RoomForShapes, r.checkConstraint); err != nil {
		r.refuse(s, number, api.E("framework.demand", kind, role, err))
		return
	}
	if call.Unstated {
		r.unstate(fw, role)
		return
	}
	shapes := append([]api.Shape{}, call.Shapes...) // never nil, which would mean that no demand was stated
	if !fw.wants.IsStated(role, shapes) {           // a repeated demand is what is left of it by our own count
		r.state(fw, role, shapes)
	}
	for _, id := range fw.wants.Awaited(role) { // also when it is repeated: its scheduler may have been away
		if why := r.neverBack(id); why != "" {
			r.tell(fw, protocol.AgentLost{Agent: id, Gone: true, Why: "it " + why})
		}
	}
}

// state sets the demand, both in fw.wants, which people are shown, and in the policy. Only state and unstate change
// either of them. (R38)
func (r *demands) state(fw *framework, role api.Role, shapes []api.Shape) {
	fw.share.Add(view.Tally{Shapes: fw.wants.State(role, shapes)})
	r.note(change.Record{Kind: change.Framework, What: change.Asked, Framework: fw.id, Role: role, Asked: slices.Clone(shapes)})
	r.policy.SetDemand(fw.id, role, shapes)
}

// unstate forgets that a demand was stated in the role, in both places.
func (r *demands) unstate(fw *framework, role api.Role) {
	fw.share.Take(view.Tally{Shapes: fw.wants.Unstate(role)})
	r.noteFramework(fw, change.Figures, "")
	r.policy.SetDemand(fw.id, role, nil)
}

// countDown subtracts all tasks that an accept names from what its framework wants, once, when the accept arrives.
// Tasks that will be refused are subtracted too: their statuses tell the scheduler, which states its demand again if it
// still wants them. From here on the policy works with what is left. (R38)
func (r *demands) countDown(x *acceptance) {
	fw := x.session.framework
	suits := func(shape *api.Shape) bool { return r.suits(shape, x) }
	if left, counted := fw.wants.CountDown(x.role, x.operations, suits); counted {
		r.state(fw, x.role, left)
	}
}

// suits reports whether the agent of the accept suits the shape, whether or not it has room.
func (r *demands) suits(shape *api.Shape, x *acceptance) bool {
	return (!shape.OnlyPreferred || slices.Contains(shape.Preferred, x.agent.id)) && r.compileAll(shape.Constraint).hold(x.role, x.agent)
}
