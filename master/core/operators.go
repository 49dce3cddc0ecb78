package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// proposeFor proposes a change for an operator, who is answered with a sentence.
func (c *Core) proposeFor(id RequestID, op, subject string, change registry.Change, done string) {
	c.proposals.propose(change, answerOperator{id, op, subject, done})
}

// operatorAnswered answers the operator when the registry has answered.
func (c *Core) operatorAnswered(r answerOperator, result registry.Result) {
	if result.Err != nil {
		c.emit(Reply{ID: r.request, Err: api.E(r.op, result.Err.Kind, r.subject, result.Err.Err)})
		return
	}
	c.emit(Reply{ID: r.request, Answer: r.done})
}

// covers reports whether the scope covers the framework in any of its roles.
func (c *Core) covers(by rights.Scope, id api.FrameworkID) bool {
	known := c.registry.Frameworks[id].Framework
	return by.CoversAny(rights.Object{Framework: id, Name: known.Name, Principal: known.Principal}, known.Roles)
}

// agentObject returns an agent as the object of a grant.
func agentObject(a *agent) rights.Object {
	return rights.Object{Agent: a.id, Hostname: a.info.Hostname}
}

// RemoveFramework removes the framework with this whole ID or unique name. If its scheduler is connected, that needs
// Force.
type RemoveFramework struct {
	Framework string
	Force     bool
}

func (action RemoveFramework) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	const op = "framework.remove"
	found, err := c.View().FindFramework(op, action.Framework, view.Whole)
	if err != nil && err.Kind == api.NotFound {
		if removed, known := c.View().FindTombstone(action.Framework); known && c.covers(by, removed) {
			c.emit(Reply{ID: id, Answer: removedBefore(removed, c.registry.Frameworks[removed].Why)})
			return nil
		}
	}
	fw := c.frameworkByID[found]
	switch {
	case err != nil:
		return err
	case !c.covers(by, fw.id): // it is told nothing that the caller has not said
		return rights.RefuseAction("remove-framework", by.Who, rights.Object{Framework: api.FrameworkID(action.Framework)})
	case fw.removed:
		c.emit(Reply{ID: id, Answer: removedBefore(fw.id, fw.why)})
		return nil
	case fw.session != nil && !action.Force:
		return api.E(op, api.Unavailable, fw.id,
			fmt.Errorf("its scheduler is connected and it has %s, which would end at once; end the scheduler first, or say --force", words.Count(len(fw.tasks), "task")))
	}
	change := registry.RemoveFramework{ID: fw.id, Session: c.registry.Frameworks[fw.id].Session, Why: "removed by an operator"}
	if action.Force {
		change.Session = registry.Whatever
	}
	c.proposeFor(id, op, string(fw.id), change, fmt.Sprintf("framework %s is removed; it had %s", fw.id, words.Count(len(fw.tasks), "task")))
	return nil
}

func removedBefore(id api.FrameworkID, why string) string {
	return fmt.Sprintf("framework %s was removed before: %s", id, why)
}

// findAgent finds the agent that an operator names by its whole ID or hostname.
func (c *Core) findAgent(op, said string) (*agent, *api.Error) {
	id, err := c.View().FindAgent(op, said, view.Whole)
	return c.agentByID[id], err
}

// MarkAgent changes an agent's marks or removes it.
type MarkAgent struct {
	Agent  string // whole ID or whole hostname
	Set    api.Mark
	Clear  api.Mark
	Remove bool
	Grace  time.Duration
	Force  bool
}

func (action MarkAgent) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	const op = "agent.mark"
	a, err := c.findAgent(op, action.Agent)
	if lost := api.AgentID(action.Agent); err != nil && len(c.answers.lostAgents()[lost]) > 0 {
		return action.giveUpLost(c, id, by, lost)
	}
	if err != nil {
		return err
	}
	if err := action.mayMark(by, agentObject(a)); err != nil {
		return err
	}
	if action.Remove {
		return c.removeAgentRequested(id, a, action.Force)
	}
	if c.marks(a).Has(api.MarkGone) {
		return api.E(op, api.Removed, a.id, errors.New("the agent was marked gone and never comes back"))
	}
	if action.Set.Has(api.MarkGone) && a.link != nil && !action.Force {
		return api.E(op, api.Unavailable, a.id,
			fmt.Errorf("the agent is %s and has %s, which gone would end at once; drain it first, or say --force", a.state, c.tasksWords(a)))
	}
	a.drain.force = action.Force && action.Set.Has(api.MarkDraining)
	saw := c.registry.Agents[a.id].MarksVersion
	if action.Force && action.Set.Has(api.MarkGone) {
		saw = registry.Whatever
	}
	change := registry.MarkAgent{ID: a.id, Saw: saw, Set: action.Set, Clear: action.Clear, Grace: action.Grace, Why: "by an operator"}
	answer := answerOperator{id, op, string(a.id), c.markedSentence(a, action)}
	if action.Set.Has(api.MarkGone) {
		c.agents.proposeEnd(a, change, answer)
	} else {
		c.proposals.propose(change, answer)
	}
	return nil
}

// mayMark returns why the caller may not do this to the agent. To end one for ever takes an admin.
func (action MarkAgent) mayMark(by rights.Scope, agent rights.Object) *api.Error {
	switch forEver := action.Remove || action.Set.Has(api.MarkGone); {
	case !by.Covers(agent):
		return rights.RefuseAction("mark-agent", by.Who, agent)
	case forEver && !by.As(rights.Admin).Covers(agent):
		return rights.RefuseVerb("mark agents gone or remove them", rights.Admin, by.Who, agent)
	}
	return nil
}

// giveUpLost gives up an agent that only frameworks know, because the registry was restored or recovered. Nothing else
// can be done with such an agent. The registry admits it under a nonce that no real agent has, and then removes it. So
// its ID counts as given out, and an agent that comes back with it is told that it was removed.
func (action MarkAgent) giveUpLost(c *Core, id RequestID, by rights.Scope, lost api.AgentID) *api.Error {
	end := MarkAgent{Remove: true} // whatever was asked for, nothing but its end is possible
	if err := end.mayMark(by, rights.Object{Agent: lost}); err != nil {
		return err
	}
	if !action.Set.Has(api.MarkGone) && !(action.Remove && action.Force) {
		return api.E("agent.mark", api.Unavailable, lost, errors.New(
			"the agent is not back yet since the registry was restored or recovered; wait until it is, or mark it gone if it never comes back"))
	}
	admit := registry.AdmitAgent{Agent: api.Agent{ID: lost, Hostname: string(lost)}, Nonce: api.Nonce("lost-" + lost)}
	c.proposals.propose(admit)
	c.proposeFor(id, "agent.mark", string(lost), registry.RemoveAgent{ID: lost, Nonce: admit.Nonce, Saw: registry.Whatever},
		fmt.Sprintf("agent %s, which is not back since the registry was restored or recovered, is given up; its tasks are GONE_BY_OPERATOR", lost))
	return nil
}

// tasksOf counts the tasks that an operator's action would end. They include tasks whose end is not acknowledged, and
// tasks that only frameworks have named.
func (c *Core) tasksOf(a *agent) int { return len(a.tasks) + len(c.answers.untold(a)) }

// tasksWords returns the count of these tasks, for people.
func (c *Core) tasksWords(a *agent) string {
	tasks := words.Count(c.tasksOf(a), "task")
	if c.answers.maybeMore(a) {
		tasks += " or more, as it is not back yet"
	}
	return tasks
}

func (c *Core) markedSentence(a *agent, action MarkAgent) string {
	switch {
	case action.Set.Has(api.MarkGone):
		return fmt.Sprintf("agent %s is marked gone; its tasks are GONE_BY_OPERATOR", a.id)
	case action.Set.Has(api.MarkDraining) && action.Force:
		return fmt.Sprintf("agent %s is draining; it has %s; --force counts while this master leads: if another one does, drain it by force again",
			a.id, c.tasksWords(a))
	case action.Set.Has(api.MarkDraining):
		return fmt.Sprintf("agent %s is draining; it has %s", a.id, c.tasksWords(a))
	case action.Set.Has(api.MarkDeactivated):
		return fmt.Sprintf("agent %s is deactivated; it goes on with %s", a.id, c.tasksWords(a))
	}
	return fmt.Sprintf("agent %s is offered again", a.id)
}

// removeAgentRequested removes an agent that is taken for dead or drained; with force, any agent.
func (c *Core) removeAgentRequested(id RequestID, a *agent, force bool) *api.Error {
	const op = "agent.remove"
	if !force && !a.phase.Dead() && !c.marks(a).Has(api.MarkDrained) {
		return api.E(op, api.Unavailable, a.id, fmt.Errorf("the agent is %s and has %s; drain it first, or say --force", a.state, c.tasksWords(a)))
	}
	known := c.registry.Agents[a.id]
	change := registry.RemoveAgent{ID: a.id, Nonce: known.Nonce, Saw: known.MarksVersion}
	if force {
		change.Saw = registry.Whatever
	}
	c.agents.proposeEnd(a, change, answerOperator{id, op, string(a.id), fmt.Sprintf("agent %s is removed", a.id)})
	return nil
}

// Set carries out a setting, which changes nothing but the registry.
type Set struct{ Setting settings.Setting }

func (action Set) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	ask, err := action.Setting.Ask(settings.Leader{Registry: c.registry, Unkept: c.keepsSecrets()}, by)
	if err == nil {
		c.proposals.propose(ask.Change, answerSetting{id, action.Setting, by, ask})
	}
	return err
}

// settingAnswered answers the operator when the registry has answered. If the change was refused because of another
// setting than the one that he named, the leader looks again and asks for it once more.
func (c *Core) settingAnswered(r answerSetting, result registry.Result) {
	if change, is := r.asked.Change.(registry.SetRole); is && api.Is(result.Error(), api.Stale) && change.IsAsSeen(c.registry) {
		c.happen(Requested{ID: r.request, Action: Set{r.setting}, By: r.by})
		return
	}
	c.operatorAnswered(answerOperator{r.request, r.asked.Op, r.asked.Subject, r.asked.Done}, result)
}

// StoreWrite writes or deletes a key of a framework's store. It comes from the instance of the scheduler that holds the
// session. The instance numbers its writes in each lane (R17).
type StoreWrite struct {
	Change   registry.Change // PutEntry or DeleteEntry
	Instance api.Nonce
	Lane     uint32
	Counter  uint64
}

// StoreWrites are the writes of one call. The first one is answered under the ID of the request, the others under those
// that follow it.
type StoreWrites []StoreWrite

func (action StoreWrites) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	for i, one := range action {
		if err := one.propose(c, id+RequestID(i), by); err != nil {
			c.emit(Reply{ID: id + RequestID(i), Err: err})
		}
	}
	return nil
}

// propose proposes a framework's store write to the quorum (R5, R17).
func (action StoreWrite) propose(c *Core, id RequestID, by rights.Scope) *api.Error {
	var op string
	var framework api.FrameworkID
	var session uint64
	switch change := action.Change.(type) {
	case registry.PutEntry:
		op, framework, session = "store.put", change.Framework, change.Session
		// The limit goes with the write, so that all masters decide alike.
		if limit := c.config.StoreBytesMax; limit > 0 {
			change.AllMax = uint64(limit)
			action.Change = change
		}
	case registry.DeleteEntry:
		op, framework, session = "store.delete", change.Framework, change.Session
	default:
		return api.E("store.write", api.Invalid, "", errors.New("only writes and deletes of a key are store writes"))
	}
	if known, there := c.registry.Frameworks[framework]; there && !by.Holds(known.Framework.Principal) {
		return api.E(op, api.Denied, framework, fmt.Errorf("its store is that of principal %q, not of %q", known.Framework.Principal, by.Who))
	}
	client := registry.StoreClient(action.Instance, action.Lane)
	if last, known := c.registry.Clients[client]; !known || action.Counter > last.Counter { // not a repeated write
		if kind, err := c.checkWriter(framework, session, action.Instance); err != nil {
			return api.E(op, kind, framework, err)
		}
	}
	c.proposals.proposeAs(client, action.Counter, action.Change, answerWriter{id})
	return nil
}

// checkWriter refuses a write that does not come from the framework's current session and instance, so that nobody else
// can make the registry remember anything (R34). Apply checks the session again.
func (c *Core) checkWriter(id api.FrameworkID, session uint64, instance api.Nonce) (api.Kind, error) {
	framework, known := c.registry.Frameworks[id]
	switch {
	case !known:
		return api.NotFound, errors.New("no such framework")
	case !framework.Removed.IsZero():
		return api.Removed, fmt.Errorf("it was removed: %s", framework.Why)
	case session > framework.Session:
		return api.Invalid, fmt.Errorf("session %d was never given; the current one is %d", session, framework.Session)
	case session < framework.Session:
		return api.Fenced, fmt.Errorf("session %d is over; session %d has taken its place", session, framework.Session)
	case instance != framework.Instance:
		return api.Fenced, fmt.Errorf("session %d is another instance's", session)
	}
	return 0, nil
}

func marksText(marks api.Mark) string {
	if marks == 0 {
		return "nothing"
	}
	return strings.Join(marks.Strings(), ", ")
}

// ReserveOn reserves resources of an agent for a role, makes a volume, or undoes either, for an operator. Frameworks do
// the same with accepts (R26).
type ReserveOn struct {
	Agent     string // whole ID or whole hostname
	Role      api.Role
	Operation api.Operation // any kind that is not a launch
}

// request changes what is reserved of what is free on the agent once its offers are rescinded. Until the registry has
// answered, the agent is not offered, so that nobody takes resources whose label is about to change.
func (action ReserveOn) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	const op = "agent.reserve"
	a, err := c.findAgent(op, action.Agent)
	if err != nil {
		return err
	}
	if object := (rights.Object{Agent: a.id, Hostname: a.info.Hostname, Role: action.Role}); !by.Covers(object) {
		return rights.RefuseAction("reserve", by.Who, object)
	}
	if err := action.Role.Check(); err != nil {
		return api.E(op, api.Invalid, a.id, err)
	}
	switch {
	case !a.phase.Reported():
		return api.E(op, api.Unavailable, a.id, fmt.Errorf("the agent is %s: what is free on it is not known", a.state))
	case a.reserving || len(a.accepts) > 0:
		return api.E(op, api.Unavailable, a.id, errors.New("what is reserved on the agent is being changed at this moment; try again"))
	}
	if is, err := c.orphanRequested(id, a, action); err != nil {
		return api.E(op, api.Invalid, a.id, err)
	} else if is {
		return nil
	}
	saw := c.registry.Agents[a.id].Reserved
	after := reserving.New(action.Role, a.Total.Without(a.Used), saw, a.orphans)
	if err := after.Apply(action.Operation); err != nil {
		return api.E(op, api.Invalid, a.id, err)
	}
	c.offers.rescindAll(a.offers, "an operator changes what is reserved")
	a.reserving = true
	c.agents.standing.restate(a)
	change := registry.SetReserved{ID: a.id, Saw: saw, Reserved: after.Reserved}
	c.proposals.propose(change, reserveForOperator{id, a.id, action})
	return nil
}

// orphanRequested handles an operator's action about an orphaned volume: it may be destroyed, and no other volume of
// its ID may be made. is says that the action is about an orphan.
func (c *Core) orphanRequested(id RequestID, a *agent, action ReserveOn) (is bool, err error) {
	o := a.orphans[action.Operation.Volume]
	switch {
	case o == nil:
		return false, nil
	case action.Operation.Kind == api.OpCreate:
		return true, o.InTheWay()
	case action.Operation.Kind != api.OpDestroy:
		return false, nil
	case o.Volume.Reserved != action.Role:
		return true, fmt.Errorf("the orphaned volume %s is of role %s; name that role", o.Volume.Volume, o.Volume.Reserved)
	}
	if user := a.userOf(o.Volume.Volume); user != "" {
		return true, fmt.Errorf("task %s uses the orphaned volume %s; end it first", user, o.Volume.Volume)
	}
	c.proposeFor(id, "agent.reserve", string(a.id), registry.DestroyOrphan{ID: a.id, Volume: o.Volume, Generation: o.Generation},
		fmt.Sprintf("agent %s: the orphaned volume %s is being destroyed", a.id, o.Volume.Volume))
	return true, nil
}

// reservedByOperator continues when the registry has answered.
func (c *Core) reservedByOperator(r reserveForOperator, result registry.Result) {
	if a := c.agentByID[r.agent]; a != nil {
		if result.Err == nil {
			c.volumeByOperator(a, r.action)
		}
		a.reserving = false
		c.agents.standing.restate(a)
	}
	if result.Err != nil {
		c.emit(Reply{ID: r.request, Err: api.E("agent.reserve", result.Err.Kind, r.agent, result.Err.Err)})
		return
	}
	c.emit(Reply{ID: r.request, Answer: fmt.Sprintf("agent %s: %s for role %s is done", r.agent, operationText(r.action.Operation), r.action.Role)})
}

func operationText(operation api.Operation) string {
	switch operation.Kind {
	case api.OpCreate:
		return fmt.Sprintf("create volume %s of %v MB", operation.Volume, operation.Size)
	case api.OpDestroy:
		return fmt.Sprintf("destroy volume %s", operation.Volume)
	}
	return fmt.Sprintf("%s %v", operation.Kind, operation.Resources)
}

// volumeByOperator tells the agent about the volume, as an accept would.
func (c *Core) volumeByOperator(a *agent, action ReserveOn) {
	operation := action.Operation
	switch operation.Kind {
	case api.OpCreate:
		c.inventory.createVolume(a, operation.Volume)
	case api.OpDestroy:
		c.inventory.destroyVolume(a, operation.Volume)
	}
	c.info("operation done", field("operation", operation.Kind.String()), field("agent", a.id), field("role", action.Role),
		field("by", "an operator"))
}
