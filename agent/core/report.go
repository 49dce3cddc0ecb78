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
		p.room(frameworkBytes(f))
		p.page.Frameworks = append(p.page.Frameworks, f)
	}
	for _, e := range c.state.executorsInOrder() {
		item := protocol.ReportedExecutor{
			Executor: e.starting.Executor, Framework: e.ref().Framework, Role: e.starting.Role, Resources: e.starting.Resources,
		}
		p.room(executorBytes(&item.Executor) + resourcesBytes(item.Resources))
		p.page.Executors = append(p.page.Executors, item)
	}
	for _, t := range c.state.tasksInOrder() {
		p.room(taskBytes(t))
		p.page.Tasks = append(p.page.Tasks, protocol.ReportedTask{
			Task: t.launch.Task, Framework: t.ref.Framework, Role: t.launch.Role, Resources: t.launch.Resources, Status: t.latest,
			LaunchTerm: t.launch.Term, LaunchNumber: t.launch.Number, Ended: t.ended(), LaunchedAt: t.launch.At,
		})
	}
	for _, stub := range c.state.stubs {
		p.room(itemBytes + len(stub.Name) + statusBytes(stub.Status))
		p.page.Stubs = append(p.page.Stubs, stub)
	}
	var volumes []api.Resource
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		volumes = append(volumes, c.state.volumes[id])
	}
	p.room(len(volumes) * 3 * itemBytes)
	p.page.Volumes = api.NewResources(volumes...)
	if c.usage != nil {
		usage := c.usageToTell()
		p.room(usageBytes(usage)) // with many tasks a page of its own
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

// The estimates count texts as they are and something for all that stands around them.

const itemBytes = 320

func taskBytes(t *task) int {
	task := t.launch.Task
	bytes := itemBytes + len(task.ID) + len(task.Name) + len(task.Data) + mapBytes(task.Labels) + 32*len(task.Ports) +
		resourcesBytes(task.Resources) + resourcesBytes(t.launch.Resources) + statusBytes(t.latest)
	for name := range task.Ports { // order: irrelevant because it is a sum
		bytes += len(name)
	}
	if task.Command != nil {
		bytes += commandBytes(*task.Command)
	}
	if task.Executor != nil {
		bytes += executorBytes(task.Executor)
	}
	return bytes
}

func executorBytes(e *api.Executor) int {
	return itemBytes + commandBytes(e.Command) + len(e.Data) + mapBytes(e.Labels) + resourcesBytes(e.Resources)
}

func commandBytes(command api.Command) int {
	bytes := len(command.Shell) + mapBytes(command.Env)
	for _, arg := range command.Argv {
		bytes += len(arg) + 8
	}
	for _, uri := range command.URIs {
		bytes += len(uri.Source) + len(uri.Name) + 96
	}
	return bytes
}

func frameworkBytes(f api.Framework) int {
	return itemBytes + len(f.Name) + len(f.Principal) + len(f.Constraint) + 264*len(f.Roles) + mapBytes(f.Labels) +
		mapBytes(f.Endpoints) + resourcesBytes(f.MinOffer) + resourcesBytes(f.MaxOffer)
}

func statusBytes(status api.Status) int {
	return itemBytes + len(status.Task) + len(status.Message) + len(status.Data)
}

func usageBytes(usage protocol.UsageReport) int {
	bytes := itemBytes
	for ref := range usage.Executors { // order: irrelevant because it is a sum
		bytes += len(ref.Framework) + len(ref.Executor) + 128
	}
	for ref := range usage.Tasks { // order: irrelevant because it is a sum
		bytes += len(ref.Framework) + len(ref.Task) + 128
	}
	return bytes
}

func mapBytes(words map[string]string) int {
	bytes := 0
	for name, value := range words { // order: irrelevant because it is a sum
		bytes += len(name) + len(value) + 16
	}
	return bytes
}

func resourcesBytes(resources api.Resources) int {
	bytes := 0
	for _, item := range resources.Items() {
		bytes += 64 + len(item.Name) + len(item.Reserved) + len(item.Volume) + 24*len(item.Ranges)
		for _, word := range item.Set {
			bytes += len(word) + 8
		}
	}
	return bytes
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
