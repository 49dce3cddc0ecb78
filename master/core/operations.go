package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
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
	x.session.framework.results.wait(x.operations)
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
	after := newConversion(x.agent, x.role, x.held, saw)
	x.faults = make([]*api.Error, len(x.operations))
	for i, operation := range x.operations {
		if operation.Kind.Launches() {
			continue
		}
		if err := after.apply(operation); err != nil {
			x.faults[i] = api.E("offer."+operation.Kind.String(), api.Invalid, operation.ID, err)
		}
	}
	change := registry.SetReserved{ID: x.agent.id, Saw: saw, Reserved: after.reserved}
	if r.registry.Knows(registry.FormatOperations) {
		change.Framework, change.Done = x.session.framework.id, x.feasible()
	}
	if after.reserved.Equal(saw) && len(change.Done) == 0 {
		r.reserved(x, registry.Result{})
		return
	}
	x.after, x.destroyed = after.left, after.destroyed
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
	x.session.framework.results.stopWait(x.operations)
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
	why := &fault{api.TaskDropped, api.ReasonAgentDisconnected, "agent " + string(x.agent.id) + " was lost while the accept waited for the quorum"}
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

// conversion is what is left of the offers and what is reserved on the agent, as
// operations change both.
type conversion struct {
	role     api.Role
	left     api.Resources
	reserved api.Resources

	orphans   map[api.VolumeID]*orphan // of the agent: not to be changed
	destroyed map[api.VolumeID]api.Resource
}

func newConversion(a *agent, role api.Role, left, reserved api.Resources) *conversion {
	return &conversion{role: role, left: left, reserved: reserved, orphans: a.orphans, destroyed: make(map[api.VolumeID]api.Resource)}
}

func (v *conversion) label(name string, volume api.VolumeID) api.Label {
	return api.Label{Name: name, Reserved: v.role, Dynamic: true, Volume: volume}
}

func (v *conversion) apply(operation api.Operation) error {
	switch operation.Kind {
	case api.OpReserve:
		return v.reserve(operation.Resources, false)
	case api.OpUnreserve:
		return v.reserve(operation.Resources, true)
	case api.OpCreate:
		return v.create(operation.Volume, operation.Size)
	case api.OpDestroy:
		return v.destroy(operation.Volume)
	}
	return fmt.Errorf("there is no operation %v", operation.Kind)
}

// reserve moves plain resources under the role's label, or back.
func (v *conversion) reserve(wanted api.Resources, back bool) error {
	if err := wanted.Check(); err != nil {
		return err
	}
	free := wanted.Plain()
	items := slices.Clone(free.Items())
	for i := range items {
		items[i].Label = v.label(items[i].Name, "")
	}
	ours := api.NewResources(items...)
	if free.IsZero() {
		return fmt.Errorf("it names no resources")
	}
	if back {
		if !v.left.Contains(ours) {
			return v.notFree(ours)
		}
		return v.exchange(ours, free, ours, api.Resources{})
	}
	return v.exchange(free, ours, api.Resources{}, ours)
}

// notFree says why what is reserved can't be let go.
func (v *conversion) notFree(wanted api.Resources) error {
	for _, item := range wanted.Without(v.left).Items() {
		static := api.Label{Name: item.Name, Reserved: v.role}
		if _, is := v.left.Find(static); is {
			return fmt.Errorf("%s is reserved for role %s by the agent itself, by its --resources: it changes with a restart of the agent", item.Name, v.role)
		}
	}
	free := v.left.Filter(func(l api.Label) bool { return l.Reserved == v.role && l.Dynamic && l.Volume == "" })
	if free.IsZero() {
		return fmt.Errorf("nothing that is reserved for role %s is free; what tasks use or volumes hold stays reserved", v.role)
	}
	return fmt.Errorf("of what is reserved for role %s only %v is free; what tasks use or volumes hold stays reserved", v.role, free)
}

// create makes a volume of disk that is reserved for the role.
func (v *conversion) create(id api.VolumeID, size api.Milli) error {
	if err := api.CheckID("volume", string(id)); err != nil {
		return err
	}
	if size <= 0 || size > api.MilliMax {
		return fmt.Errorf("a volume of %v MB can't be made", size)
	}
	for _, item := range v.reserved.Items() {
		if item.Volume == id {
			return fmt.Errorf("the agent has a volume %s already", id)
		}
	}
	if o := v.orphans[id]; o != nil {
		return o.inTheWay()
	}
	if _, before := v.destroyed[id]; before {
		return (&orphan{view.OrphanedVolume{Volume: v.destroyed[id]}, true}).inTheWay()
	}
	disk := api.NewResources(api.Resource{Label: v.label("disk", ""), Scalar: size})
	volume := api.NewResources(api.Resource{Label: v.label("disk", id), Scalar: size})
	if !v.left.Contains(disk) {
		return fmt.Errorf("a volume is made of disk that is reserved for its role, and %v is left; reserve disk:%v for role %s first", v.left, size, v.role)
	}
	return v.exchange(disk, volume, disk, volume)
}

// destroy makes reserved disk of a volume again.
func (v *conversion) destroy(id api.VolumeID) error {
	item, found := v.left.Find(v.label("disk", id))
	if !found || id == "" {
		return fmt.Errorf("there is no volume %q that nobody uses", id)
	}
	volume := api.NewResources(item)
	disk := api.NewResources(api.Resource{Label: v.label("disk", ""), Scalar: item.Scalar})
	v.destroyed[id] = item
	return v.exchange(volume, disk, volume, disk)
}

// exchange swaps one kind of resources for another, in the offers and in what is reserved; all of it or nothing.
func (v *conversion) exchange(give, get, unreserve, reserve api.Resources) error {
	left, ok := v.left.Minus(give)
	if !ok {
		return fmt.Errorf("it needs %v, but only %v is left", give, v.left)
	}
	reserved, ok := v.reserved.Minus(unreserve)
	if !ok {
		return fmt.Errorf("%v is not reserved on the agent", unreserve)
	}
	v.left, v.reserved = left.Plus(get), reserved.Plus(reserve)
	return nil
}
