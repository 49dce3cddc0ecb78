package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/ledger"
	"github.com/tenderhq/tender/master/core/meter"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// inventory keeps what agents have and say about themselves, as the registry knows it, and which agents are on which
// host. It compares volumes with what agents report. Volumes that the registry does not know are kept until somebody
// destroys them by name (R22).
type inventory struct {
	*base
	proposals *proposals
	standing  *standing
	offers    *offers

	hosts    map[string]map[api.AgentID]bool // agents by hostname
	reserved ledger.Tally                    // what all agents have for each role, by name and role alone, to be shown to people
}

// newAgent adds an admitted agent that has not connected yet.
func (r *inventory) newAgent(id api.AgentID) *agent {
	a := &agent{
		id:        id,
		tasks:     make(map[api.TaskRef]*task),
		executors: make(map[api.ExecutorRef]*executor),
		offers:    make(map[api.OfferID]*offer),
	}
	a.state, a.since, a.policyStale = api.AgentDisconnected, r.now, true
	a.meter, a.counted = meter.New(), r.accounts.Unrecorded(time.Time{})
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
	r.showDestroying(a)
	r.resize(a, known.Total())
}

// resize replaces the agent's total, and counts what is reserved of it.
func (r *inventory) resize(a *agent, total api.Resources) {
	r.reserved.Sub(reservedOf(a.Total))
	r.reserved.Add(reservedOf(total))
	a.Resize(total)
}

// reservedOf returns the scalars that are reserved, whoever has made the reservation, and whatever is on them.
func reservedOf(total api.Resources) api.Resources {
	var items []api.Resource
	for _, item := range total.Items() {
		if item.Reserved != "" && item.Scalar > 0 {
			items = append(items, api.Resource{Label: api.Label{Name: item.Name, Reserved: item.Reserved}, Scalar: item.Scalar})
		}
	}
	return api.NewResources(items...)
}

// agentChanged follows a change of the agent's description in the registry.
func (r *inventory) agentChanged(id api.AgentID) {
	a := r.agentByID[id]
	if a == nil {
		return
	}
	before := a.Total
	r.noteAgent(a, change.Figures, "")
	r.describeAgent(a)
	if lacks := r.registry.Agents[id].Uncovered(); !lacks.IsZero() && !a.Total.Equal(before) {
		r.warn("agent has less than is reserved on it", field("agent", id), field("lacks", lacks.String()))
	}
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

// forgetAgent no longer counts what an agent has.
func (r *inventory) forgetAgent(a *agent) {
	r.leaveHost(a, a.info.Hostname)
	r.reserved.Sub(reservedOf(a.Total))
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
// the agent was not connected, so the agent is told to create it; or it was destroyed, and is gone.
func (r *inventory) checkVolumes(a *agent, got *report) {
	a.orphans = nil
	r.showDestroying(a)
	reported := make(map[volumeKey]bool)
	for _, volume := range got.volumes {
		key := volumeKey{volume.Volume, volume.Generation}
		reported[key] = true
		if _, is := r.knownVolume(a, key); !is {
			a.orphaned(registry.Volume{Resource: volume.Resource, Generation: volume.Generation}, "the registry does not know it")
			r.noteVolume(a.id, volume.Volume, change.Orphaned, "the registry does not know it")
			r.info("volume is orphaned", field("agent", a.id), field("volume", volume.Volume))
		}
	}
	for _, v := range r.registry.Agents[a.id].Volumes {
		switch key := (volumeKey{v.Resource.Volume, v.Generation}); {
		case v.Destroying && reported[key]:
			r.tellAgent(a, protocol.DestroyVolume{Volume: key.id, Generation: key.generation})
		case v.Destroying:
			r.proposals.propose(registry.VolumeGone{ID: a.id, Volume: key.id, Generation: key.generation})
		case !reported[key]:
			r.tellAgent(a, protocol.CreateVolume{Volume: protocol.Volume{Resource: v.Resource, Generation: v.Generation}})
		}
	}
}

// volumeKey tells a volume of an agent from all others that were ever there.
type volumeKey struct {
	id         api.VolumeID
	generation uint64
}

// knownVolume returns a volume of the agent as the registry has it.
func (r *inventory) knownVolume(a *agent, key volumeKey) (registry.Volume, bool) {
	for _, v := range r.registry.Agents[a.id].Volumes {
		if v.Resource.Volume == key.id && v.Generation == key.generation {
			return v, true
		}
	}
	return registry.Volume{}, false
}

// showDestroying adds the volumes that the registry remembers as destroyed to those that are in the way of others.
func (r *inventory) showDestroying(a *agent) {
	for _, v := range r.registry.Agents[a.id].Volumes {
		if o := a.orphans[v.Resource.Volume]; v.Destroying && (o == nil || !o.Destroying) {
			a.orphaned(v, "it is being destroyed").Destroying = true
		}
	}
}

// orphaned adds a volume to those that are in the way of others of their ID.
func (a *agent) orphaned(volume registry.Volume, why string) *reserving.Orphan {
	if a.orphans == nil {
		a.orphans = make(map[api.VolumeID]*reserving.Orphan)
	}
	o := &reserving.Orphan{OrphanedVolume: view.OrphanedVolume{Volume: volume.Resource, Why: why}, Generation: volume.Generation}
	a.orphans[volume.Resource.Volume] = o
	return o
}

// createVolume tells the agent to make a volume that the registry has added, unless the same change has destroyed it.
func (r *inventory) createVolume(a *agent, id api.VolumeID) {
	for _, v := range r.registry.Agents[a.id].Volumes {
		if v.Resource.Volume == id && !v.Destroying {
			r.noteVolume(a.id, id, change.Created, "for role "+string(v.Resource.Reserved))
			r.tellAgent(a, protocol.CreateVolume{Volume: protocol.Volume{Resource: v.Resource, Generation: v.Generation}})
		}
	}
}

// destroyVolume tells the agent to delete a volume that the registry remembers as destroyed.
func (r *inventory) destroyVolume(a *agent, id api.VolumeID) {
	for _, v := range r.registry.Agents[a.id].Volumes {
		if v.Resource.Volume == id && v.Destroying {
			r.noteVolume(a.id, id, change.Destroying, "")
			r.tellAgent(a, protocol.DestroyVolume{Volume: id, Generation: v.Generation})
		}
	}
}

// volumeDone handles the answer to DestroyVolume. A volume that could not be deleted is to be deleted as before: its agent
// is told again in its next session, or when an operator destroys the volume once more.
func (r *inventory) volumeDone(a *agent, done protocol.VolumeDone) {
	r.info("volume destroyed", field("agent", a.id), field("volume", done.Volume), Field{Name: "error", Value: done.Err})
	o := a.orphans[done.Volume]
	switch {
	case o == nil || o.Generation != done.Generation:
	case done.Err == "":
		r.proposals.propose(registry.VolumeGone{ID: a.id, Volume: done.Volume, Generation: done.Generation})
	default:
		o.Why = "the agent could not delete it: " + done.Err
		r.noteVolume(a.id, done.Volume, change.Failed, o.Why)
	}
}

// volumeGone follows the registry, which has forgotten a volume whose data is gone.
func (r *inventory) volumeGone(gone registry.VolumeGone) {
	r.noteVolume(gone.ID, gone.Volume, change.Destroyed, "")
	a := r.agentByID[gone.ID]
	if a == nil {
		return
	}
	if o := a.orphans[gone.Volume]; o != nil && o.Generation == gone.Generation {
		delete(a.orphans, gone.Volume)
	}
}

// orphanDestroyed follows the registry, which remembers now that an orphan is to be deleted.
func (r *inventory) orphanDestroyed(destroy registry.DestroyOrphan) {
	if a := r.agentByID[destroy.ID]; a != nil {
		r.showDestroying(a)
		r.destroyVolume(a, destroy.Volume.Volume)
	}
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
