package core

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/core/meter"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/view"
)

// inventory keeps what agents have and say about themselves, as the registry knows it, and which agents are on which
// host. It compares volumes with what agents report. Volumes that the registry does not know are kept until somebody
// destroys them by name (R22).
type inventory struct {
	*base
	standing *standing
	offers   *offers

	hosts map[string]map[api.AgentID]bool // agents by hostname
}

// newAgent adds an admitted agent that has not connected yet.
func (r *inventory) newAgent(id api.AgentID) *agent {
	a := &agent{
		id:         id,
		agentTasks: agentTasks{tasks: make(map[api.TaskRef]*task)},
		executors:  make(map[api.ExecutorRef]*executor),
		offers:     make(map[api.OfferID]*offer),
	}
	a.state, a.since, a.policyStale = api.AgentDisconnected, r.now, true
	a.meter = meter.New()
	a.clock, a.asked = newDeadline(agentSilent{a}), newDeadline(predecessorSilent{a})
	a.window.turn, a.meterStale = newDeadline(maintenanceTurn{a}), newDeadline(usageOutdated{a})
	r.agentByID[id] = a
	r.describeAgent(a)
	a.marked = r.marks(a)
	return a
}

// describeAgent takes over the registry's description of the agent.
func (r *inventory) describeAgent(a *agent) {
	known, host := r.registry.Agents[a.id], a.info.Hostname
	a.info = known.Agent
	r.moveHost(a, host)
	a.Resize(known.Total())
}

// agentChanged follows a change of the agent's description in the registry.
func (r *inventory) agentChanged(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	before := a.Total
	r.describeAgent(a)
	if !a.Total.Equal(before) && a.Over {
		r.offers.rescindAll(a.offers, "the agent's resources have changed")
		a.Recheck()
	}
	a.policyStale = true
	r.standing.restate(a)
}

// moveHost records the agent's new hostname in hosts.
func (r *inventory) moveHost(a *agent, from string) {
	if from != a.info.Hostname {
		r.leaveHost(a, from)
	}
	if a.info.Hostname == "" {
		return
	}
	if r.hosts[a.info.Hostname] == nil {
		r.hosts[a.info.Hostname] = make(map[api.AgentID]bool)
	}
	r.hosts[a.info.Hostname][a.id] = true
}

// leaveHost removes the agent from a hostname in hosts.
func (r *inventory) leaveHost(a *agent, host string) {
	of := r.hosts[host]
	if delete(of, a.id); len(of) == 0 {
		delete(r.hosts, host)
	}
}

// backAs returns the agent that an absent agent has become; "" when there is none. It is a connected agent on the same
// host that has a later ID, and that was either admitted after this one had left or has the same address. The hostname
// alone proves nothing, because several agents may share a host.
func (r *inventory) backAs(a *agent) api.AgentID {
	known := r.registry.Agents[a.id]
	if a.link != nil || known.Marks.Has(api.MarkGone) || known.Marks.Has(api.MarkDrained) {
		return ""
	}
	for _, id := range sortedKeys(r.hosts[a.info.Hostname]) {
		b, other := r.agentByID[id], r.registry.Agents[id]
		if b == nil || b.link == nil || words.CompareNatural(string(id), string(a.id)) <= 0 {
			continue
		}
		left := !a.leftAt.IsZero() && other.Admitted.After(a.leftAt)
		if left || a.info.Address != "" && a.info.Address == b.info.Address {
			return id
		}
	}
	return ""
}

// warnOfOthers logs which absent agents of the same host the new agent may have been.
func (r *inventory) warnOfOthers(a *agent) {
	for _, id := range sortedKeys(r.hosts[a.info.Hostname]) {
		if old := r.agentByID[id]; old != nil && old != a && r.backAs(old) == a.id {
			r.warn("a host is back as another agent", field("agent", id), field("now", a.id), field("host", a.info.Hostname))
		}
	}
}

// checkVolumes compares the volumes that the agent reports with those in the registry. A volume that only the agent has
// is kept, because only a Destroy that names it may delete it (R22). A volume that only the registry has was made while
// the agent was not connected, so the agent is told to create it.
func (r *inventory) checkVolumes(a *agent, got *report) {
	before := a.orphans
	a.orphans = nil
	reported := make(map[api.VolumeID]bool)
	known := r.volumesOf(a)
	for _, item := range got.volumes.Items() {
		reported[item.Volume] = true
		if _, is := known[item.Volume]; is || item.Volume == "" {
			continue
		}
		if old := before[item.Volume]; old != nil && old.Destroying {
			a.orphaned(item, old.Why).Destroying = true
			r.tellAgent(a, protocol.DestroyVolume{Volume: item.Volume})
			continue
		}
		a.orphaned(item, "the registry does not know it")
		r.info("volume is orphaned", field("agent", a.id), field("volume", item.Volume))
	}
	for _, id := range sortedKeys(known) {
		if !reported[id] {
			r.tellAgent(a, protocol.CreateVolume{Volume: known[id]})
		}
	}
}

// volumesOf returns the agent's volumes as the registry has them.
func (r *inventory) volumesOf(a *agent) map[api.VolumeID]api.Resource {
	known := make(map[api.VolumeID]api.Resource)
	for _, item := range r.registry.Agents[a.id].Reserved.Items() {
		if item.Volume != "" {
			known[item.Volume] = item
		}
	}
	return known
}

func (a *agent) orphaned(volume api.Resource, why string) *reserving.Orphan {
	if a.orphans == nil {
		a.orphans = make(map[api.VolumeID]*reserving.Orphan)
	}
	o := &reserving.Orphan{OrphanedVolume: view.OrphanedVolume{Volume: volume, Why: why}}
	a.orphans[volume.Volume] = o
	return o
}

// destroyVolume tells the agent to delete a volume that the registry no longer has.
func (r *inventory) destroyVolume(a *agent, volume api.Resource) {
	a.orphaned(volume, "it is being destroyed").Destroying = true
	r.tellAgent(a, protocol.DestroyVolume{Volume: volume.Volume})
}

// volumeDone handles the answer to DestroyVolume. A volume that could not be deleted stays an orphan, which may be
// destroyed again.
func (r *inventory) volumeDone(a *agent, done protocol.VolumeDone) {
	r.info("volume destroyed", field("agent", a.id), field("volume", done.Volume), Field{Name: "error", Value: done.Err})
	o := a.orphans[done.Volume]
	switch {
	case o == nil:
	case done.Err == "":
		delete(a.orphans, done.Volume)
	default:
		o.Destroying, o.Why = false, "the agent could not delete it: "+done.Err
	}
}

// orphanRequested handles an operator's action about an orphaned volume: it may be destroyed, and no other volume of
// its ID may be made. It returns an empty answer when the action is not about an orphan.
func (r *inventory) orphanRequested(a *agent, action ReserveOn) (answer string, err error) {
	o := a.orphans[action.Operation.Volume]
	switch {
	case o == nil:
		return "", nil
	case action.Operation.Kind == api.OpCreate:
		return "", o.InTheWay()
	case action.Operation.Kind != api.OpDestroy:
		return "", nil
	case o.Volume.Reserved != action.Role:
		return "", fmt.Errorf("the orphaned volume %s is of role %s; name that role", o.Volume.Volume, o.Volume.Reserved)
	}
	if user := a.userOf(o.Volume.Volume); user != "" {
		return "", fmt.Errorf("task %s uses the orphaned volume %s; end it first", user, o.Volume.Volume)
	}
	r.destroyVolume(a, o.Volume)
	return fmt.Sprintf("agent %s: the orphaned volume %s is being destroyed", a.id, o.Volume.Volume), nil
}

// userOf names a task that uses the volume, itself or through its executor; "" when there is none.
func (a *agent) userOf(volume api.VolumeID) string {
	for _, t := range a.sortedTasks() {
		if t.held && hasVolume(t.resources, volume) {
			return t.ref.String()
		}
		x := a.executors[api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()}]
		if t.held && x != nil && hasVolume(x.resources, volume) {
			return t.ref.String()
		}
	}
	return ""
}

func hasVolume(resources api.Resources, volume api.VolumeID) bool {
	return slices.ContainsFunc(resources.Items(), func(item api.Resource) bool { return item.Volume == volume })
}

// showOrphans lists the orphaned volumes by ID.
func (a *agent) showOrphans() []view.OrphanedVolume {
	var shown []view.OrphanedVolume
	for _, id := range sortedKeys(a.orphans) {
		shown = append(shown, a.orphans[id].OrphanedVolume)
	}
	return shown
}
