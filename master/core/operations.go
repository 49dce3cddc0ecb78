package core

import (
	"maps"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/launching"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// operations are what accepts do with offers: reserve and make volumes, which the quorum has to agree to first (R26), and
// launch tasks.
type operations struct {
	*base
	proposals *proposals
	standing  *standing
	offers    *offers
	limits    *limits
	kills     *kills
	executors *executors
	tasks     *tasks
	demands   *demands
	inventory *inventory
	volumes   *volumes

	launched uint64 // tasks of this term
}

// sessionAccepts are a session's accepts that wait for the registry (R26).
type sessionAccepts struct {
	waits  map[api.TaskID]*acceptance // by their tasks
	asking int                        // the registry was asked about
	line   []*acceptance              // wait for that
}

// waitForRegistry lets an accept with reservations or volumes wait until the quorum has agreed to them; only then its
// tasks are launched (R26). Accepts of one agent go one after the other, as each change names what it has seen. What
// the accept takes stays booked as offered meanwhile.
func (r *operations) waitForRegistry(x *acceptance) {
	a := x.agent
	x.held, x.kills = x.left, make(map[api.TaskID]protocol.KillGraces)
	x.session.framework.results.Wait(x.operations)
	a.Hold(x.held)
	a.accepts = append(a.accepts, x)
	for _, operation := range x.operations {
		for _, task := range operation.Tasks {
			x.session.waits[task.ID] = x
		}
	}
	if len(a.accepts) == 1 {
		r.reserve(x)
	}
}

// acceptsAskedMax is about how many accepts of one session may ask the registry at the same time; the others wait for
// their turn. So somebody who reserves on thousands of agents leaves room in the queue to the quorum for all others.
const acceptsAskedMax = 64

// reserveLined goes on with the accepts of a session whose turn has come.
func (r *operations) reserveLined(s *session) {
	for len(s.line) > 0 && s.asking < acceptsAskedMax {
		x := s.line[0]
		s.line = s.line[1:]
		r.reserve(x)
	}
}

// reserve turns the operations into one change of what is reserved.
func (r *operations) reserve(x *acceptance) {
	s := x.session
	if s.asking >= acceptsAskedMax {
		s.line = append(s.line, x)
		return
	}
	saw := r.registry.Agents[x.agent.id].Reserved
	after := reserving.New(x.role, x.held, saw, x.agent.orphans)
	x.faults = make([]*api.Error, len(x.operations))
	for i, operation := range x.operations {
		if operation.Kind.Launches() {
			continue
		}
		if err := after.Apply(operation); err != nil {
			x.faults[i] = api.E("offer."+operation.Kind.String(), api.Invalid, operation.ID, err)
		}
	}
	change := registry.SetReserved{ID: x.agent.id, Saw: saw, Reserved: after.Reserved}
	if r.registry.Knows(registry.FormatOperations) {
		change.Framework, change.Done = x.session.framework.id, x.feasible()
	}
	if after.Reserved.Equal(saw) && len(change.Done) == 0 {
		r.reserved(x, registry.Result{})
		return
	}
	x.after, x.destroyed = after.Left, after.Destroyed
	s.asking++
	r.proposals.propose(change, reserveForAccept{x})
}

// reserveAnswered goes on when the registry has answered, and lets the session's next accept ask.
func (r *operations) reserveAnswered(x *acceptance, result registry.Result) {
	x.session.asking--
	r.reserved(x, result)
	r.reserveLined(x.session)
}

// feasible are the operations whose results must outlive this leader: those that have an ID and are done once the
// registry agrees.
func (x *acceptance) feasible() []api.OperationID {
	var done []api.OperationID
	for i, operation := range x.operations {
		if operation.ID != "" && !operation.Kind.Launches() && x.faults[i] == nil {
			done = append(done, operation.ID)
		}
	}
	return done
}

// reservationApplied changes the labels of what the accept holds with those of the
// agent's total. The policy's books are between two labels until the operations have
// run, which they do before it is asked again.
func (r *operations) reservationApplied(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil || len(a.accepts) == 0 || a.accepts[0].after.IsZero() {
		r.inventory.agentChanged(id)
		return
	}
	x := a.accepts[0]
	a.Unoffer(id, x.held)
	if !x.lost {
		r.offers.giveBack(x.claim(x.held))
	}
	x.loose = true
	r.inventory.agentChanged(id)
	x.held, x.left = x.after, x.after
	a.Hold(x.held)
	a.Recheck()
}

// reserved goes on when the registry has answered.
func (r *operations) reserved(x *acceptance, result registry.Result) {
	a := x.agent
	a.accepts = a.accepts[1:]
	a.Unoffer(a.id, x.held)
	x.session.framework.results.StopWait(x.operations)
	maps.DeleteFunc(x.session.waits, func(_ api.TaskID, other *acceptance) bool { return other == x })
	for i, operation := range x.operations {
		if result.Err != nil && !operation.Kind.Launches() && x.faults[i] == nil {
			x.faults[i] = api.E("offer."+operation.Kind.String(), result.Err.Kind, operation.ID, result.Err.Err)
		}
	}
	if fw := x.session.framework; fw.session == x.session && !x.lost {
		x.aboveLimit = r.limits.limitAbove(x.role, x.left)
		r.runOperations(x)
		for _, id := range sortedKeys(x.kills) {
			if t := fw.tasks[id]; t != nil {
				for _, grace := range x.kills[id].Each() {
					r.kills.wishKill(t, grace, api.ReasonKilledByFramework)
				}
			}
		}
	} else {
		r.reservedForNobody(x)
	}
	r.standing.restate(a)
	if len(a.accepts) > 0 {
		r.reserve(a.accepts[0])
	}
}

// reservedForNobody ends an accept that has nobody to go on for. Either its session has left, and the framework hears
// of its tasks when it asks (R8); or the agent was taken for dead, and the framework hears now that they are dropped.
// What was committed holds all the same.
func (r *operations) reservedForNobody(x *acceptance) {
	did := view.Decision{Why: "the framework or the agent was lost before the quorum agreed"}
	for i, operation := range x.operations {
		if operation.Kind.Launches() {
			did.Refused += len(operation.Tasks)
			r.launchedOnNothing(x, operation)
			continue
		}
		if x.faults[i] == nil {
			did.Done++
			r.volumeEvent(x, operation)
		} else {
			did.Failed++
		}
		r.operationDone(x, operation, x.faults[i])
	}
	r.reportRefused(x)
	r.answered(x, did)
	if !x.lost && !x.loose {
		r.offers.giveBack(x.claim(x.left))
	}
}

// launchedOnNothing ends the tasks of an accept whose agent was lost while it waited.
func (r *operations) launchedOnNothing(x *acceptance, operation api.Operation) {
	if x.session.framework.session != x.session {
		return
	}
	why := launching.Dropped(api.ReasonAgentDisconnected, "agent "+string(x.agent.id)+" was lost while the accept waited for the quorum")
	for _, task := range operation.Tasks {
		r.refuseTask(x, task, why)
	}
	r.operationDone(x, operation, nil)
}

// volumeEvent tells the agent of a volume that the registry has or has no more.
func (r *operations) volumeEvent(x *acceptance, operation api.Operation) {
	switch operation.Kind {
	case api.OpCreate:
		volume := api.Resource{Label: x.label("disk", operation.Volume), Scalar: operation.Size}
		r.tellAgent(x.agent, protocol.CreateVolume{Volume: volume})
	case api.OpDestroy:
		r.volumes.destroyVolume(x.agent, x.destroyed[operation.Volume])
	}
	r.info("operation done", Field{"operation", operation.Kind.String()}, field("agent", x.agent.id), field("role", x.role),
		field("resources", operation.Resources.String()), field("volume", operation.Volume))
}

func (x *acceptance) label(name string, volume api.VolumeID) api.Label {
	return api.Label{Name: name, Reserved: x.role, Dynamic: true, Volume: volume}
}
