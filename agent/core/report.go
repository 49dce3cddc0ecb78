package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// pageBytes is how much of a report goes into one page by a generous estimate. The
// largest single item (a task of api.TaskBytesMax and its status) still fits a message.
const pageBytes = api.MessageBytesMax / 2

// report lists what this core has stepped, in pages: the cut of R2.
func (c *Core) report() {
	p := &pager{core: c, page: protocol.AgentReport{Session: c.leader.session, Rebooted: c.state.identity.Rebooted}}
	for _, id := range slices.Sorted(maps.Keys(c.state.frameworks)) {
		f := c.state.frameworks[id].Framework
		p.room(f.Bytes())
		p.page.Frameworks = append(p.page.Frameworks, f)
	}
	for _, e := range c.state.executorsInOrder() {
		item := protocol.ReportedExecutor{
			Executor: e.starting.Executor, Framework: e.ref().Framework, Role: e.starting.Role, Resources: e.starting.Resources,
		}
		p.room(protocol.ExecutorBytes(&item.Executor) + item.Resources.Bytes())
		p.page.Executors = append(p.page.Executors, item)
	}
	for _, t := range c.state.tasksInOrder() {
		p.room(protocol.TaskBytes(&t.launch.Task) + t.launch.Resources.Bytes() + protocol.StatusBytes(t.latest))
		p.page.Tasks = append(p.page.Tasks, protocol.ReportedTask{
			Task: t.launch.Task, Framework: t.ref.Framework, Role: t.launch.Role, Resources: t.launch.Resources, Status: t.latest,
			LaunchTerm: t.launch.Term, LaunchNumber: t.launch.Number, Ended: t.ended(), LaunchedAt: t.launch.At,
		})
	}
	for _, stub := range c.state.stubs {
		p.room(len(stub.Name) + protocol.StatusBytes(stub.Status))
		p.page.Stubs = append(p.page.Stubs, stub)
	}
	var volumes []api.Resource
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		volumes = append(volumes, c.state.volumes[id])
	}
	kept := api.NewResources(volumes...)
	p.room(3 * kept.Bytes())
	p.page.Volumes = kept
	if c.usage != nil {
		usage := c.usageToTell()
		p.room(protocol.UsageBytes(usage)) // with many tasks a page of its own
		p.page.Usage = &usage
	}
	p.page.Last = true
	c.tell(p.page)
}

type pager struct {
	core *Core
	page protocol.AgentReport
	used int
}

// room sends the page that is full before something of that size.
func (p *pager) room(bytes int) {
	if p.used > 0 && p.used+bytes > pageBytes {
		p.core.tell(p.page)
		p.page = protocol.AgentReport{Session: p.page.Session, Rebooted: p.page.Rebooted}
		p.used = 0
	}
	p.used += bytes
}

// usageItemsMax is how many executors and tasks one heartbeat speaks of, each with the
// longest IDs, so that it fits a message. Of more tasks each heartbeat takes the next
// ones in turn; the total is always that of all.
const usageItemsMax = 1500

func (c *Core) usageToTell() protocol.UsageReport {
	if c.usage == nil {
		return protocol.UsageReport{}
	}
	usage := *c.usage
	room := max(usageItemsMax-len(usage.Executors), 0)
	if len(usage.Tasks) <= room {
		return usage
	}
	refs := slices.SortedFunc(maps.Keys(usage.Tasks), compareRefs)
	begin, _ := slices.BinarySearchFunc(refs, c.usageNext, compareRefs)
	usage.Tasks = make(map[api.TaskRef]api.Usage, room)
	for i := range room {
		ref := refs[(begin+i)%len(refs)]
		usage.Tasks[ref] = c.usage.Tasks[ref]
	}
	c.usageNext = refs[(begin+room)%len(refs)]
	return usage
}

func compareRefs(a, b api.TaskRef) int {
	return cmp.Or(cmp.Compare(a.Framework, b.Framework), cmp.Compare(a.Task, b.Task))
}

// sample asks for fresh numbers, unless the last question is still open.
func (c *Core) sample() {
	if c.sampling {
		return
	}
	var targets []Target
	for _, e := range c.state.executorsInOrder() {
		if e.started.Process.PID == 0 || e.phase == phaseEnding {
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
	c.sampling = true
	c.emit(Sample{targets})
}
