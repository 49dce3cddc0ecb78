package core

import (
	"maps"
	"slices"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// reports is the room for what the leader is told about the agent as a whole: the report that opens a session (R2),
// heartbeats with what is really used, and whether anything can be started at all. It never changes a task or an
// executor.
type reports struct {
	*base
	leader   *leader
	diskLack string                // why nothing can be started on the disk; "" = there is room
	usage    *protocol.UsageReport // the last sample; nil = none yet
	sampling bool                  // a sample was asked for and has not come yet
	// usageNext is the task at which the usage of the next heartbeat begins, if not all tasks fit into one.
	usageNext api.TaskRef
}

// pageBytes is how much of a report goes into one page, by an estimate that is rather too high. The largest single item
// (a task of api.TaskBytesMax with its status) still fits into a message.
const pageBytes = api.MessageBytesMax / 2

// sendReport lists, in pages, everything that this core knows: the cut of R2. It contains launches and executors that
// are not on disk yet, but no statuses that are not.
func (r *reports) sendReport() {
	p := &pager{page: protocol.AgentReport{Session: r.leader.session, Rebooted: r.state.identity.Rebooted}}
	for _, id := range slices.Sorted(maps.Keys(r.state.frameworks)) {
		f := r.state.frameworks[id].Framework
		p.makeRoom(f.Bytes())
		p.page.Frameworks = append(p.page.Frameworks, f)
	}
	for _, e := range r.state.executorsInOrder() {
		item := protocol.ReportedExecutor{
			Executor: e.starting.Executor, Framework: e.ref().Framework, Role: e.starting.Role, Resources: e.starting.Resources,
			LaunchTerm: e.starting.LaunchTerm, LaunchNumber: e.starting.LaunchNumber, Receipt: e.starting.Receipt,
		}
		p.makeRoom(protocol.ExecutorBytes(&item.Executor) + item.Resources.Bytes())
		p.page.Executors = append(p.page.Executors, item)
	}
	for _, t := range r.state.tasksInOrder() {
		status := t.reported()
		p.makeRoom(protocol.TaskBytes(&t.launch.Task) + t.launch.Resources.Bytes() + protocol.StatusBytes(status))
		p.page.Tasks = append(p.page.Tasks, protocol.ReportedTask{
			Task: t.launch.Task, Framework: t.ref.Framework, Role: t.launch.Role, Resources: t.launch.Resources, Status: status,
			Ended: status.State.Terminal(), LaunchedAt: t.launch.At,
			Receipt: t.launch.Receipt,
		})
	}
	for _, stub := range r.state.stubs {
		p.makeRoom(len(stub.Name) + protocol.StatusBytes(stub.Status) + stub.Resources.Bytes() + len(stub.Job))
		p.page.Stubs = append(p.page.Stubs, stub)
	}
	for _, id := range slices.Sorted(maps.Keys(r.state.volumes)) {
		volume := r.state.volumes[id]
		p.makeRoom(64 + len(volume.Name) + len(volume.Reserved) + len(id))
		p.page.Volumes = append(p.page.Volumes, volume)
	}
	if r.usage != nil {
		usage := r.usageToTell()
		p.makeRoom(protocol.UsageBytes(usage)) // with many tasks this is a page of its own
		p.page.Usage = &usage
	}
	p.page.Last = true
	for _, page := range append(p.full, p.page) {
		r.leader.tell(page)
	}
}

// pager collects the pages of a report.
type pager struct {
	full []protocol.AgentReport
	page protocol.AgentReport // the one that is being filled
	used int                  // the bytes in it
}

// makeRoom begins a new page if an item of that size does not fit into the current one.
func (p *pager) makeRoom(bytes int) {
	if p.used > 0 && p.used+bytes > pageBytes {
		p.full = append(p.full, p.page)
		p.page = protocol.AgentReport{Session: p.page.Session, Rebooted: p.page.Rebooted}
		p.used = 0
	}
	p.used += bytes
}

// takeSample keeps what is really used, for the next heartbeat.
func (r *reports) takeSample(usage *protocol.UsageReport) { r.usage, r.sampling = usage, false }

// noteDisk notes how full the disk is, and tells the leader at once if launches are accepted again, or no more.
func (r *reports) noteDisk(room DiskRoom) {
	lack := room.lack()
	if lack == r.diskLack {
		return
	}
	r.diskLack = lack
	r.log("disk", field("full", map[bool]string{true: "yes", false: "no"}[room.Full]))
	r.tellUnable()
}

// heartbeatDue sends a heartbeat, as often as the leader wants it, and asks for a sample for the next one.
func (r *reports) heartbeatDue(conn Conn) {
	if conn != r.leader.conn || !r.leader.registered {
		return
	}
	r.sendHeartbeat()
	r.wakeIn(r.leader.interval, timer{kind: timerHeartbeat, conn: conn})
	r.askSample()
}

// sendHeartbeat sends what is used, and whether anything can be started.
func (r *reports) sendHeartbeat() {
	r.leader.heartbeat(r.usageToTell(), r.unable())
}

// tellUnable sends a heartbeat at once if whether something can be started has changed.
func (r *reports) tellUnable() {
	if r.leader.registered && r.leader.unable != r.unable() {
		r.sendHeartbeat()
	}
}

// unable says why nothing at all can be started; "" = something can. While there is a reason the leader offers nothing
// of this agent. Otherwise it would offer the same again after each refusal.
func (r *reports) unable() string {
	switch r.whyUnable() {
	case api.ReasonDiskFull:
		return r.diskLack
	case api.ReasonAgentFailed:
		return "the agent holds as many tasks as it can keep, " + strconv.Itoa(r.config.TasksMax)
	}
	return ""
}

// lack says why nothing can be started on the disk; "" if there is room.
func (d DiskRoom) lack() string {
	switch {
	case d.NoInodes:
		return "the agent's disk has no inodes left (df -i), so it can hold no more files; what is left is kept for the tasks that run"
	case d.Full:
		return "the agent's disk is full; what is left is kept for the tasks that run"
	}
	return ""
}

// whyUnable is the reason with which launches are refused while nothing at all can be started.
func (r *reports) whyUnable() api.Reason {
	switch {
	case r.diskLack != "":
		return api.ReasonDiskFull
	case len(r.state.tasks) >= r.config.TasksMax:
		return api.ReasonAgentFailed
	}
	return api.ReasonNone
}

// usageItemsMax is how many executors and tasks one heartbeat lists, each with the longest IDs, so that it fits into a
// message. If there are more tasks, each heartbeat lists the next ones in turn. The total is always that of all tasks.
const usageItemsMax = 1500

// usageToTell returns the last sample, or as much of it as fits into a message.
func (r *reports) usageToTell() protocol.UsageReport {
	if r.usage == nil {
		return protocol.UsageReport{}
	}
	usage := *r.usage
	room := max(usageItemsMax-len(usage.Executors), 0)
	if len(usage.Tasks) <= room {
		return usage
	}
	refs := slices.SortedFunc(maps.Keys(usage.Tasks), api.TaskRef.Compare)
	begin, _ := slices.BinarySearchFunc(refs, r.usageNext, api.TaskRef.Compare)
	usage.Tasks = make(map[api.TaskRef]api.Usage, room)
	for i := range room {
		ref := refs[(begin+i)%len(refs)]
		usage.Tasks[ref] = r.usage.Tasks[ref]
	}
	r.usageNext = refs[(begin+room)%len(refs)]
	return usage
}

// askSample asks for a new sample, unless one has been asked for already.
func (r *reports) askSample() {
	if r.sampling {
		return
	}
	var targets []Target
	for _, e := range r.state.executorsInOrder() {
		if e.started.Process.PID == 0 || e.ending() {
			continue
		}
		target := Target{Executor: e.ref(), Leader: e.started.Process}
		for _, t := range e.tasksInOrder() {
			if t.group.PID != 0 {
				target.Tasks = append(target.Tasks, TargetTask{t.ref.Task, t.group})
			}
		}
		targets = append(targets, target)
	}
	r.sampling = true
	r.emit(Sample{targets})
}
