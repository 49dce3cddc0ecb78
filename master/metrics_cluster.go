package master

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/tally"
	"github.com/tenderhq/tender/master/registry/spent"
	"github.com/tenderhq/tender/master/view"
)

// What a cluster is run by: how much there is, who has how much of it, what becomes of offers and tasks, and how each
// master does. Amounts are in base units: cores, bytes, and of other resources what they are counted in.
var (
	buildGauge    = gauge("tender_build_info", "1; what this master is.", "version", "goversion", "allocator")
	certGauge     = gauge("tender_certificate_expires_timestamp_seconds", "When this master's certificate ends.")
	renewGauge    = gauge("tender_certificate_renewal_timestamp_seconds", "When it should be renewed: at half of its life.")
	snapshotGauge = gauge("tender_raft_snapshot_timestamp_seconds", "When the newest snapshot of this master's registry was made; 0: there is none yet.")
	savedGauge    = gauge("tender_snapshot_saved_timestamp_seconds", "When a snapshot was last saved as --snapshot-every says; 0: never.")
	roomGauge     = gauge("tender_data_free_bytes", "How much more the disk of this master's data folder can hold.")
	inodesGauge   = gauge("tender_data_free_inodes", "How many more files it can hold; absent where there is no such limit.")

	capacityGauge  = gauge("tender_resource_capacity", "What all agents have that are not taken for dead, on the leader.", "resource")
	reservedGauge  = gauge("tender_resource_reserved", "What of it is reserved for roles.", "resource")
	allocatedGauge = gauge("tender_resource_allocated", "What of it tasks and executors hold.", "resource")
	offeredGauge   = gauge("tender_resource_offered", "What of it is offered now.", "resource")
	usedGauge      = gauge("tender_resource_used", "What is really used, as agents last reported.", "resource")
	gapGauge       = gauge("tender_resource_revocable", "What tasks leave unused and may be offered as revocable.", "resource")
	gapUsedGauge   = gauge("tender_resource_revocable_allocated", "What tasks hold of it.", "resource")
	markedGauge    = gauge("tender_agents_marked", "Agents that are marked by operators or by --gone-after, on the leader.", "mark")

	roleAllocated = gauge("tender_role_allocated", "What is held in a role and in those below it, on the leader.", "role", "resource")
	roleOffered   = gauge("tender_role_offered", "What is offered there now.", "role", "resource")
	roleGuarantee = gauge("tender_role_guarantee", "What the role is guaranteed.", "role", "resource")
	roleLimit     = gauge("tender_role_limit", "The most that the role may hold.", "role", "resource")
	roleShare     = gauge("tender_role_dominant_share", "The largest of the role's shares of any resource, from 0 to 1.", "role")
	roleWeight    = gauge("tender_role_weight", "The role's weight.", "role")
	rolePriority  = gauge("tender_role_priority", "The role's priority.", "role")

	frameworkInfo      = gauge("tender_framework_info", "1; who a framework is that has lines of its own.", "framework", "name", "principal")
	frameworkTasks     = gauge("tender_framework_tasks", "Tasks of a framework that hold resources, on the leader.", "framework")
	frameworkAllocated = gauge("tender_framework_allocated", "What they and its executors hold.", "framework", "resource")
	frameworkWanted    = gauge("tender_framework_wanted_tasks", "Tasks that the framework has asked for and was not able to launch yet.", "framework")

	frameworkOffers   = gauge("tender_framework_offers_total", "Offers to a framework, by what has become of them, since this master leads.", "framework", "outcome")
	frameworkSince    = gauge("tender_framework_wanted_since_timestamp_seconds", "From when on a framework has always wanted more than it was able to launch; absent while it wants nothing.", "framework")
	jobWanted         = gauge("tender_job_wanted_tasks", "Tasks of a job that wait for resources, as its manager says.", "job")
	jobSince          = gauge("tender_job_wanted_since_timestamp_seconds", "From when on some of its tasks have always waited; absent while none does.", "job")
	frameworkLaunches = gauge("tender_framework_launches_total", "Tasks that a framework has launched, since this master leads.", "framework")
	jobLaunches       = gauge("tender_job_launches_total", "Tasks of a job that were launched, since this master leads.", "job")
	frameworkWaits    = gauge("tender_framework_wait_seconds", "From when a framework asked for a task until it was RUNNING, since this master leads.", "framework")
	jobWaits          = gauge("tender_job_wait_seconds", "From when a job's manager asked for a task of it until it was RUNNING, since this master leads.", "job")
	frameworkEnds     = gauge("tender_framework_tasks_ended_total", "Tasks of a framework that have ended, since this master leads.", "framework", "state", "reason")
	jobEnds           = gauge("tender_job_tasks_ended_total", "Tasks of a job that have ended, since this master leads.", "job", "state", "reason")
)

var (
	usageAllocated = gauge("tender_usage_allocated_seconds_total", "Resources that were held, times the seconds, since this master leads, by role, principal, framework and job.", "by", "name", "resource")
	usageUsed      = gauge("tender_usage_used_seconds_total", "Resources that were really used, likewise, as agents have measured them.", "by", "name", "resource")
)

// rolesMax is how many roles have lines of their own: those with the largest shares.
const rolesMax = 100

type putter = func(desc *prometheus.Desc, value float64, labels ...string)

// collectOwn puts what each master says of itself, whether it leads or not.
func (c collector) collectOwn(put, count putter) {
	if log := c.config.Log.Written; log != nil {
		count(droppedTotal, float64(log.Dropped()))
	}
	count(refusedTotal, float64(c.intake.Refused.Load()))
	put(unreadGauge, float64(c.intake.Peers.Unread.Bytes.Load()))
	count(unreadTotal, float64(c.intake.Peers.Unread.Closed.Load()))
	if h := c.watches.history; h != nil {
		put(historyGauge, float64(h.Counts.Notable.Load()), "notable")
		put(historyGauge, float64(h.Counts.Routine.Load()), "routine")
		count(historyLost, float64(h.Counts.Lost.Load()))
	}
	status := c.raft.Members.Status()
	put(termGauge, float64(status.Term))
	put(appliedGauge, float64(status.Applied))
	put(lastGauge, float64(status.Last))
	put(diskGauge, oneIf(c.raft.Disk() != ""))
	put(buildGauge, 1, c.config.Version, runtime.Version(), c.config.Allocator)
	put(snapshotGauge, unixSeconds(c.raft.Snapshots.Newest().At))
	if holder := c.proof.holder; holder != nil && holder.Pass().IsSigned() {
		put(certGauge, unixSeconds(holder.Pass().Ends()))
		put(renewGauge, unixSeconds(holder.Pass().RenewAt()))
	}
	if c.config.DataDir == "" {
		return
	}
	if c.config.Snapshots.Every > 0 {
		put(savedGauge, float64(c.saver.saved.Load())/1e9)
	}
	if room, err := datafolder.RoomOf(c.config.DataDir); err == nil {
		put(roomGauge, float64(room.Free))
		if room.Inodes > 0 {
			put(inodesGauge, float64(room.InodesFree))
		}
	}
}

// unixSeconds returns a moment as metrics have it.
func unixSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}

// inBase returns an amount of a resource in base units: mem and disk are kept in MB.
func inBase(resource string, amount api.Milli) float64 {
	if resource == "mem" || resource == "disk" {
		return amount.Float() * (1 << 20)
	}
	return amount.Float()
}

func putAmounts(put putter, desc *prometheus.Desc, amounts view.Amounts, labels ...string) {
	for name, amount := range amounts { // order: irrelevant because the registry sorts
		put(desc, inBase(name, amount), append(slices.Clone(labels), name)...)
	}
}

func amountsOf(resources api.Resources) view.Amounts {
	amounts := make(view.Amounts)
	amounts.Add(resources)
	return amounts
}

// collectCapacity puts how much there is, and how much of it is held, offered and used.
func collectCapacity(put putter, counts view.Counts) {
	has := counts.Capacity
	for name, all := range has.All { // order: irrelevant because the registry sorts
		put(capacityGauge, inBase(name, all), name)
		put(reservedGauge, inBase(name, has.Reserved[name]), name)
		put(allocatedGauge, inBase(name, has.Allocated[name]), name)
		put(offeredGauge, inBase(name, has.Offered[name]), name)
	}
	putAmounts(put, usedGauge, has.Used)
	for _, name := range []string{"cpus", "mem"} {
		put(gapGauge, inBase(name, counts.Revocable.Scalar(name)), name)
		put(gapUsedGauge, inBase(name, counts.RevocableUsed.Scalar(name)), name)
	}
	for _, mark := range (api.MarkDraining | api.MarkDrained | api.MarkDeactivated | api.MarkGone).Strings() {
		put(markedGauge, float64(counts.Marked[mark]), mark)
	}
}

// collectRoles puts what roles hold and may hold.
func collectRoles(put putter, roles []view.Role) {
	slices.SortStableFunc(roles, func(a, b view.Role) int { return cmp.Compare(b.DominantShare, a.DominantShare) })
	for _, role := range roles[:min(len(roles), rolesMax)] {
		name := string(role.Role)
		putAmounts(put, roleAllocated, amountsOf(role.Allocated), name)
		putAmounts(put, roleOffered, amountsOf(role.Offered), name)
		putAmounts(put, roleGuarantee, amountsOf(role.Guarantee), name)
		putAmounts(put, roleLimit, amountsOf(role.Limit), name)
		put(roleShare, role.DominantShare, name)
		put(roleWeight, role.Weight, name)
		put(rolePriority, float64(role.Priority), name)
	}
}

// collectAgents puts how agents and their tasks do.
func collectAgents(put, count putter, counts view.Counts) {
	for state := api.AgentIniting; state <= api.AgentTombstone; state++ {
		put(agentsGauge, float64(counts.Agents[state]), state.String())
	}
	for state := api.TaskStaging; state <= api.TaskUnreachable; state++ {
		put(tasksGauge, float64(counts.Tasks[state]), state.String())
	}
	for _, illness := range view.Illnesses {
		put(illGauge, float64(counts.Ill[illness]), string(illness))
	}
	count(voicesTotal, float64(counts.Voices))
	put(apartGauge, float64(counts.Apart))
	count(givenTotal, float64(counts.Given))
	put(overdueGauge, float64(counts.Overdue))
	count(versionTotal, float64(counts.Versions.Count))
}

// collectFrameworks puts what frameworks have and want. Those without lines of their own are summed.
func collectFrameworks(put, count putter, counts view.Counts, nameOf func(api.FrameworkID) string) {
	put(frameworks, float64(counts.Frameworks.All))
	put(activeGauge, float64(counts.Frameworks.Active))
	put(detachedGauge, float64(counts.Frameworks.Detached))
	for id, placed := range counts.Placed { // order: irrelevant because the registry sorts
		count(placedTotal, float64(placed.Node), string(id), "node")
		count(placedTotal, float64(placed.Near), string(id), "near")
		count(placedTotal, float64(placed.Any), string(id), "any")
		count(placedWait, placed.Waited.Seconds(), string(id))
		count(placedIdle, placed.Idle.Seconds(), string(id))
	}
	sums := make(map[string]view.Standing)
	for id, standing := range counts.Standings { // order: irrelevant because it sums
		name := nameOf(id)
		sum, known := sums[name]
		if !known {
			sum.Allocated = make(view.Amounts)
		}
		sum.Tasks, sum.Wanted = sum.Tasks+standing.Tasks, sum.Wanted+standing.Wanted
		for resource, amount := range standing.Allocated { // order: irrelevant because it sums
			sum.Allocated[resource] += amount
		}
		sums[name] = sum
		if name != guard.Others {
			put(frameworkInfo, 1, name, standing.Name, standing.Principal)
		}
	}
	for name, sum := range sums { // order: irrelevant because the registry sorts
		put(frameworkTasks, float64(sum.Tasks), name)
		put(frameworkWanted, float64(sum.Wanted), name)
		putAmounts(put, frameworkAllocated, sum.Allocated, name)
	}
}

// collectTally puts what was counted since this master leads.
func collectTally(put, count putter, sum func(desc *prometheus.Desc, starts tally.Starts, label string), counted tally.Counts) {
	for key, n := range counted.Offers { // order: irrelevant because the registry sorts
		count(frameworkOffers, float64(n), key.Framework, string(key.Outcome))
	}
	for name, starts := range counted.Starts { // order: irrelevant because the registry sorts
		count(frameworkLaunches, float64(starts.Launched), name)
		sum(frameworkWaits, starts, name)
	}
	for name, starts := range counted.JobStarts { // order: irrelevant because the registry sorts
		count(jobLaunches, float64(starts.Launched), name)
		sum(jobWaits, starts, name)
	}
	for name, since := range counted.WantsSince { // order: irrelevant because the registry sorts
		put(frameworkSince, unixSeconds(since), name)
	}
	for name, wants := range counted.JobWants { // order: irrelevant because the registry sorts
		put(jobWanted, float64(wants.Tasks), name)
		put(jobSince, unixSeconds(wants.Since), name)
	}
	for key, n := range counted.Ends { // order: irrelevant because the registry sorts
		count(frameworkEnds, float64(n), key.Of, key.State.String(), key.Reason.String())
	}
	for key, n := range counted.JobEnds { // order: irrelevant because the registry sorts
		count(jobEnds, float64(n), key.Of, key.State.String(), key.Reason.String())
	}
}

// collectUsage puts who has held and used how much, summed in four ways. What belongs to no principal or no job is not
// among those.
func collectUsage(count putter, rows []spent.Row) {
	type sum struct{ by, name, resource string }
	held, used := make(map[sum]float64), make(map[sum]float64)
	for _, row := range rows {
		for by, name := range map[string]string{ // order: irrelevant because it sums
			"role": string(row.Role), "principal": row.Principal, "framework": string(row.Framework), "job": row.Job,
		} {
			for _, s := range row.Sums {
				if name != "" {
					held[sum{by, name, s.Resource}] += inBase(s.Resource, api.Milli(s.Held))
					used[sum{by, name, s.Resource}] += inBase(s.Resource, api.Milli(s.Used))
				}
			}
		}
	}
	for of, amount := range held { // order: irrelevant because the registry sorts
		count(usageAllocated, amount, of.by, of.name, of.resource)
	}
	for of, amount := range used { // order: irrelevant because the registry sorts
		if amount > 0 {
			count(usageUsed, amount, of.by, of.name, of.resource)
		}
	}
}
