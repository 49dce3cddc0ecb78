package core_test

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/view"
)

// fill launches tasks on every agent that is offered, and lets them run.
func (m *mill) fill(perOffer int) {
	offers := m.offers
	m.offers, m.launch = nil, m.launch[:0]
	for _, offer := range offers {
		tasks := make([]api.Task, perOffer)
		for i := range tasks {
			m.tasks++
			tasks[i] = api.Task{ID: api.TaskID(fmt.Sprint("t", m.tasks)), Resources: api.Scalars(0.4, 400), Command: &api.Command{Shell: "true"}}
		}
		m.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: tasks}}, Filter: api.NoFilter})
	}
	for _, to := range m.launch {
		task := to.Event.(protocol.LaunchTask)
		status := api.Status{Framework: task.Framework.ID, Task: task.Task.ID, Number: 1, State: api.TaskRunning, Source: api.MoverExecutor,
			Launch: api.LaunchID{Term: api.Term{Number: 1}, Number: task.Number}}
		m.step(core.AgentCalled{Conn: to.Conn, Calls: []protocol.AgentCall{protocol.StatusUpdate{Status: status}}})
	}
}

// BenchmarkPage reads a page of the noted tasks, by how many there are.
func BenchmarkPage(b *testing.B) {
	for _, tasks := range []int{1000, 20_000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) {
			m := newMill(tasks / 10)
			for m.tasks < tasks {
				m.fill(10)
				m.settle()
			}
			rows := view.TaskList(m.core.View(), view.Query{})
			rows.Sort()
			b.ReportAllocs()
			for b.Loop() {
				page, query := view.Page[view.Task]{}, view.Query{Limit: 50}
				rows.Read(m.core.View(), &query, tasks/2, &page)
				if len(page.Items) != 50 {
					b.Fatal(len(page.Items))
				}
			}
		})
	}
}

// BenchmarkPages reads what people ask for, of 10,000 agents that run 100,000 tasks.
func BenchmarkPages(b *testing.B) {
	m := newMill(10_000)
	for m.tasks < 100_000 && len(m.offers) > 0 {
		m.fill(10)
		m.settle()
	}
	if got := m.core.View().Counts().Tasks[api.TaskRunning]; got != 100_000 {
		b.Fatalf("%d tasks run", got)
	}
	for _, page := range []struct {
		name string
		read func() int
	}{
		{"agents", func() int { return len(view.PageOf(m.core.View(), view.AgentList, view.Query{Limit: 100}).Items) }},
		{"agents_all", func() int { return len(view.PageOf(m.core.View(), view.AgentList, view.Query{}).Items) }},
		{"agents_state", func() int {
			return len(view.PageOf(m.core.View(), view.AgentList, view.Query{Limit: 100, States: []string{"BUSY"}}).Items) + 1
		}},
		{"tasks", func() int { return len(view.PageOf(m.core.View(), view.TaskList, view.Query{Limit: 100}).Items) }},
		{"tasks_state", func() int {
			return len(view.PageOf(m.core.View(), view.TaskList, view.Query{Limit: 100, States: []string{"KILLING"}}).Items) + 1
		}},
		{"tasks_agent", func() int { return len(view.PageOf(m.core.View(), view.TaskList, view.Query{Agent: "agent-77"}).Items) }},
		{"frameworks", func() int { return len(view.PageOf(m.core.View(), view.FrameworkList, view.Query{}).Items) }},
		{"roles", func() int { return len(view.PageOf(m.core.View(), view.RoleList, view.Query{}).Items) }},
		{"counts", func() int { return m.core.View().Counts().Frameworks.All }},
		{"explain", func() int {
			explained, err := m.core.View().Explain("f", "", m.now)
			if err != nil {
				b.Fatal(err)
			}
			return len(explained.Agents)
		}},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if page.read() == 0 {
					b.Fatal("the page is empty")
				}
			}
		})
	}
}
