package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// BenchmarkLives measures one task's whole life in the core and the allocator: offered,
// launched, running, finished, both acknowledged.
func BenchmarkLives(b *testing.B) {
	for _, agents := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) { benchLives(b, agents) })
	}
}

// mill is a world reduced to what costs nothing: agents and one framework that answer at
// once.
type mill struct {
	core    *core.Core
	now     time.Time
	offers  []api.Offer
	launch  []core.ToAgent
	commits []registry.Command
	calls   uint64
	tasks   int
	conns   map[core.Conn]api.AgentID
}

func (m *mill) step(what core.Happening) { m.take(m.core.Step(core.Event{At: m.now, What: what})) }

func (m *mill) take(effects []core.Effect) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case core.Propose:
			m.commits = append(m.commits, effect.Command)
		case core.ToAgent:
			switch event := effect.Event.(type) {
			case protocol.LaunchTask:
				m.launch = append(m.launch, effect)
			case protocol.AgentRegistered:
				m.conns[effect.Conn] = event.Agent
			default: // the others mean nothing here
			}
		case core.ToScheduler:
			if offers, ok := effect.Event.(protocol.Offers); ok {
				m.offers = append(m.offers, offers.Offers...)
			}
		default: // other effects do not matter here
		}
	}
}

func (m *mill) settle() {
	for len(m.commits) > 0 {
		commands := m.commits
		m.commits = nil
		m.step(core.Committed{Commands: commands})
	}
	m.take(m.core.Allocate(m.now))
}

func newMill(agents int) *mill { return newMillOf(agents, rights.All()) }

// newMillOf is newMill with a framework that belongs to a principal.
func newMillOf(agents int, by rights.Scope) *mill {
	state := registry.New()
	state.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
	m := &mill{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), conns: make(map[core.Conn]api.AgentID)}
	m.core = core.New(core.Config{Master: "m1"}, state, api.Term{Number: 1}, policyNamed("fairshare")(), m.now)
	for i := range agents {
		conn := core.Conn(i + 1)
		m.step(core.AgentOpened{Conn: conn, First: protocol.RegisterAgent{Agent: api.Agent{Hostname: fmt.Sprint("h", i), Resources: api.Scalars(4, 4096)},
			Nonce: api.Nonce(fmt.Sprint("n", i))}})
		m.settle()
		m.step(core.AgentCalled{Conn: conn, Calls: []protocol.AgentCall{protocol.AgentHeartbeat{}}})
	}
	m.step(core.SchedulerOpened{Conn: 1 << 32, By: by, Subscribe: protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: "i"}})
	m.settle()
	return m
}

func (m *mill) call(calls ...protocol.SchedulerCall) {
	numbered := make([]protocol.NumberedCall, len(calls))
	for i, call := range calls {
		m.calls++
		numbered[i] = protocol.NumberedCall{Number: m.calls, Call: call}
	}
	m.step(core.SchedulerCalled{Conn: 1 << 32, Calls: numbered})
}

// round answers all offers with as many tasks as fit and lets them live.
func (m *mill) round(perOffer int) int {
	offers := m.offers
	m.offers, m.launch = nil, m.launch[:0]
	for _, offer := range offers {
		tasks := make([]api.Task, perOffer)
		for i := range tasks {
			m.tasks++
			tasks[i] = api.Task{ID: api.TaskID(fmt.Sprint("t", m.tasks)), Resources: api.Scalars(0.5, 32), Command: &api.Command{Shell: "true"}}
		}
		m.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: tasks}}, Filter: api.NoFilter})
	}
	return m.endLaunched()
}

// endLaunched lets all tasks that were launched run and end, and says how many there were.
func (m *mill) endLaunched() int {
	launched := append([]core.ToAgent(nil), m.launch...)
	m.launch = m.launch[:0]
	for number, state := range []api.TaskState{api.TaskRunning, api.TaskFinished} {
		for _, to := range launched {
			task := to.Event.(protocol.LaunchTask)
			status := api.Status{Framework: task.Framework.ID, Task: task.Task.ID, Number: uint64(number + 1), State: state, Source: api.MoverExecutor,
				Launch: api.LaunchID{Term: api.Term{Number: 1}, Number: task.Number}}
			m.step(core.AgentCalled{Conn: to.Conn, Calls: []protocol.AgentCall{protocol.StatusUpdate{Status: status}}})
			m.call(protocol.Acknowledge{Items: []protocol.Acknowledgement{{Task: task.Task.ID, Agent: m.conns[to.Conn], Number: uint64(number + 1)}}})
		}
	}
	m.turn()
	return len(launched)
}

// turn lets a moment pass, after which what was given back is offered again.
func (m *mill) turn() {
	m.now = m.now.Add(time.Millisecond)
	m.step(core.Woken{})
	m.settle()
}

func benchLives(b *testing.B, agents int) {
	m := newMill(agents)
	b.ReportAllocs()
	b.ResetTimer()
	lives := 0
	for b.Loop() {
		lives += m.round(4)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(lives), "us/life")
	b.ReportMetric(float64(lives)/b.Elapsed().Seconds(), "lives/s")
}

// BenchmarkLife measures the life of a single task, by what exists beside it: agents, frameworks that want nothing, and
// tasks of its framework that run.
func BenchmarkLife(b *testing.B) {
	for _, beside := range []struct{ agents, frameworks, tasks int }{{10, 10, 10}, {10_000, 10, 10}, {10, 1000, 10}, {10, 10, 2000}} {
		b.Run(fmt.Sprintf("agents=%d,frameworks=%d,tasks=%d", beside.agents, beside.frameworks, beside.tasks), func(b *testing.B) {
			m := newMill(beside.agents)
			for i := range beside.frameworks {
				name := fmt.Sprint("other-", i)
				m.step(core.SchedulerOpened{Conn: core.Conn(1<<32 + 1 + i), By: rights.All(), Subscribe: protocol.Subscribe{
					Framework: api.Framework{Name: name, Roles: []api.Role{"default"}}, Instance: api.Nonce(name), Suppressed: []api.Role{"default"}}})
				m.settle()
			}
			for range beside.tasks {
				m.begin(0.001)
			}
			m.launch = m.launch[:0]
			b.ReportAllocs()
			for b.Loop() {
				m.begin(0.5)
				m.endLaunched()
			}
		})
	}
}

// BenchmarkShown reads what the end of a task makes out of date for those who watch, its framework and its agent, by the
// tasks that both have.
func BenchmarkShown(b *testing.B) {
	for _, tasks := range []int{10, 2000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) {
			m := newMill(1)
			for range tasks {
				m.begin(0.001)
			}
			agents := view.PageOf(m.core.View(), view.AgentList, view.Query{}).Items
			framework := view.PageOf(m.core.View(), view.FrameworkList, view.Query{}).Items[0].Framework.ID
			b.ReportAllocs()
			for b.Loop() {
				c := m.core.View()
				agent, _ := c.OneAgent(agents[0].Agent.ID)
				shown, _ := c.OneFramework(framework, c.Leader.Shares())
				if agent.Tasks != tasks || shown.Tasks != tasks {
					b.Fatalf("%d and %d of %d tasks", agent.Tasks, shown.Tasks, tasks)
				}
			}
		})
	}
}

// BenchmarkRoles reads the roles, which watchers are told once a second while anything changes, by how many agents there
// are.
func BenchmarkRoles(b *testing.B) {
	for _, agents := range []int{10, 10_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			m := newMill(agents)
			b.ReportAllocs()
			for b.Loop() {
				if len(view.PageOf(m.core.View(), view.RoleList, view.Query{}).Items) == 0 {
					b.Fatal("there is no role")
				}
			}
		})
	}
}

// begin launches a task from the newest offer.
func (m *mill) begin(cpus float64) {
	offer := m.offers[len(m.offers)-1]
	m.offers = m.offers[:len(m.offers)-1]
	m.tasks++
	task := api.Task{ID: api.TaskID(fmt.Sprint("t", m.tasks)), Resources: api.Scalars(cpus, 1), Command: &api.Command{Shell: "true"}}
	m.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}},
		Filter: api.NoFilter})
	m.turn()
}

// BenchmarkReturn measures an agent with ten tasks whose stream has broken and that comes back, by how many agents there
// are.
func BenchmarkReturn(b *testing.B) {
	for _, agents := range []int{10, 10_000, 100_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			m, infos := takeOver(agents, api.Scalars(16, 65536))
			for i := range infos {
				m.comeBack(infos, i, core.Conn(i+1), tasksBack)
			}
			m.settle()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				i := n % agents
				m.step(core.AgentClosed{Conn: core.Conn(n + 1)})
				m.comeBack(infos, i, core.Conn(agents+n+1), tasksBack)
				m.settle()
			}
		})
	}
}

// BenchmarkHeartbeat measures one agent's sign of life with the use of its tasks, by how many agents there are.
func BenchmarkHeartbeat(b *testing.B) {
	for _, agents := range []int{10, 10_000, 100_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) { benchHeartbeat(b, agents) })
	}
}

func benchHeartbeat(b *testing.B, agents int) {
	m := newMill(agents)
	ref := api.ExecutorRef{Framework: "framework-1", Executor: api.CommandExecutor}
	usage := protocol.UsageReport{Executors: map[api.ExecutorRef]api.Usage{ref: {CPU: 1500, Mem: 100_000}}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.step(core.AgentCalled{Conn: core.Conn(i%agents + 1), Calls: []protocol.AgentCall{protocol.AgentHeartbeat{Usage: usage}}})
		if i%agents == agents-1 {
			m.now = m.now.Add(time.Second)
		}
	}
}

// BenchmarkFailover measures a new leader that takes agents with ten tasks each back,
// their framework subscribed: until all have reported and what is free is offered.
func BenchmarkFailover(b *testing.B) {
	for _, agents := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) { benchFailover(b, agents) })
	}
}

func benchFailover(b *testing.B, agents int) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m, infos := takeOver(agents, api.Scalars(16, 65536))
		b.StartTimer()
		for i := range infos {
			m.comeBack(infos, i, core.Conn(i+1), tasksBack)
			if i%100 == 0 {
				m.settle()
			}
		}
		m.settle()
		if len(m.offers) < agents {
			b.Fatalf("%d offers of %d agents", len(m.offers), agents)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*agents*tasksBack), "us/task")
}

// tasksBack is how many tasks an agent has that comes back.
const tasksBack = 10

// takeOver makes a new leader of a cluster with agents that have not come back yet, and a framework that has.
func takeOver(agents int, each api.Resources) (*mill, []api.Agent) {
	state := registry.New()
	state.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
	subscribe := protocol.Subscribe{Framework: api.Framework{Name: "f", Roles: []api.Role{"default"}}, Instance: "i"}
	state.Apply(registry.Command{Change: registry.Subscribe{Framework: subscribe.Framework, Instance: subscribe.Instance}})
	infos := make([]api.Agent, agents)
	for i := range infos {
		infos[i] = api.Agent{Hostname: fmt.Sprint("h", i), Resources: each}
		infos[i].ID = state.Apply(registry.Command{Change: registry.AdmitAgent{Agent: infos[i], Nonce: api.Nonce(fmt.Sprint("n", i))}}).Agent
	}
	subscribe.Framework.ID = "framework-1"
	m := &mill{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), conns: make(map[core.Conn]api.AgentID)}
	m.core = core.New(core.Config{Master: "m1"}, state, api.Term{Number: 2}, policyNamed("fairshare")(), m.now)
	m.step(core.SchedulerOpened{Conn: 1 << 32, By: rights.All(), Subscribe: subscribe})
	m.settle()
	return m, infos
}

// comeBack lets an agent come back with so many tasks, and returns its report.
func (m *mill) comeBack(infos []api.Agent, i int, conn core.Conn, tasks int) protocol.AgentReport {
	page := reportOf(infos[i].ID, i, tasks)
	m.step(core.AgentOpened{Conn: conn, First: protocol.ReregisterAgent{Cluster: "tender", Agent: infos[i], Nonce: api.Nonce(fmt.Sprint("n", i))}})
	m.step(core.AgentCalled{Conn: conn, Calls: []protocol.AgentCall{page}})
	return page
}

func reportOf(id api.AgentID, agent, tasks int) protocol.AgentReport {
	page := protocol.AgentReport{Last: true}
	for i := range tasks {
		task := api.Task{ID: api.TaskID(fmt.Sprintf("t%d-%d", agent, i)), Resources: api.Scalars(1, 1024), Command: &api.Command{Shell: "true"}}
		page.Tasks = append(page.Tasks, protocol.ReportedTask{Task: task, Framework: "framework-1", Role: "default", Resources: task.Resources,
			Status: api.Status{Framework: "framework-1", Task: task.ID, Agent: id, Number: 1, State: api.TaskRunning,
				Launch: api.LaunchID{Number: 1}}})
	}
	return page
}

// BenchmarkHeartbeatOfTasks measures heartbeats of agents that run a hundred tasks each and tell the use of every one,
// while no framework takes revocable resources.
func BenchmarkHeartbeatOfTasks(b *testing.B) {
	const agents, tasks = 1000, 100
	m, infos := takeOver(agents, api.Scalars(tasks, tasks*1024))
	usages := make([]protocol.UsageReport, agents)
	for i := range infos {
		usages[i] = usageOf(m.comeBack(infos, i, core.Conn(i+1), tasks))
	}
	m.settle()
	beat := func(i int) {
		usage := usages[i%agents]
		usage.Total.At = m.now
		m.step(core.AgentCalled{Conn: core.Conn(i%agents + 1), Calls: []protocol.AgentCall{protocol.AgentHeartbeat{Usage: usage}}})
		if i%agents == agents-1 {
			m.now = m.now.Add(time.Second)
		}
	}
	for i := range 15 * agents { // until all tasks have run for long enough to be judged
		beat(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		beat(i)
	}
}

// usageOf is a sample in which each task uses half of what it asked for.
func usageOf(page protocol.AgentReport) protocol.UsageReport {
	usage := protocol.UsageReport{Executors: make(map[api.ExecutorRef]api.Usage), Tasks: make(map[api.TaskRef]api.Usage)}
	for _, t := range page.Tasks {
		use := api.Usage{CPU: t.Resources.Scalar("cpus") / 2, Mem: t.Resources.Scalar("mem") / 2}
		usage.Tasks[api.TaskRef{Framework: t.Framework, Task: t.Task.ID}] = use
		ref := api.ExecutorRef{Framework: t.Framework, Executor: t.Task.ExecutorID()}
		sum := usage.Executors[ref]
		usage.Executors[ref] = api.Usage{CPU: sum.CPU + use.CPU, Mem: sum.Mem + use.Mem}
	}
	return usage
}
