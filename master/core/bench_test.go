package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
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
			}
		case core.ToScheduler:
			if offers, ok := effect.Event.(protocol.Offers); ok {
				m.offers = append(m.offers, offers.Offers...)
			}
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

func newMill(agents int) *mill {
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
	m.step(core.SchedulerOpened{Conn: 1 << 32, Subscribe: protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: "i"}})
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
	launched := append([]core.ToAgent(nil), m.launch...)
	for number, state := range []api.TaskState{api.TaskRunning, api.TaskFinished} {
		for _, to := range launched {
			task := to.Event.(protocol.LaunchTask)
			status := api.Status{Framework: task.Framework.ID, Task: task.Task.ID, Number: uint64(number + 1), State: state, Source: api.MoverExecutor}
			m.step(core.AgentCalled{Conn: to.Conn, Calls: []protocol.AgentCall{protocol.StatusUpdate{Status: status}}})
			m.call(protocol.Acknowledge{Items: []protocol.Acknowledgement{{Task: task.Task.ID, Agent: m.conns[to.Conn], Number: uint64(number + 1)}}})
		}
	}
	m.now = m.now.Add(time.Millisecond)
	m.step(core.Woken{})
	m.settle()
	return len(launched)
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
