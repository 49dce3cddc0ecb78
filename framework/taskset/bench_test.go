package taskset

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// prompt is a cluster that does at once what a set asks for: each task runs when it is launched, and ends when it is
// killed.
type prompt struct {
	set    *Set
	wanted int64
	kills  []api.TaskID
	offers int
	tasks  map[api.TaskID]api.Task
}

func (p *prompt) Roles() []api.Role                        { return []api.Role{""} }
func (p *prompt) Teardown() error                          { return nil }
func (p *prompt) AnswerInverse(bool, ...api.OfferID) error { return nil }

func (p *prompt) Demand(d api.Demand) error {
	p.wanted = 0
	for _, shape := range d.Shapes {
		p.wanted += shape.Count
	}
	return nil
}

func (p *prompt) Kill(id api.TaskID, _ ...framework.KillOption) error {
	p.kills = append(p.kills, id)
	return nil
}

func (p *prompt) tell(b *testing.B, id api.TaskID, state api.TaskState) {
	status := api.Status{Task: id, Agent: "agent-1", State: state, Whereabouts: api.Whereabouts{Labels: p.tasks[id].Labels}}
	if err := p.set.Update(b.Context(), status); err != nil {
		b.Fatal(err)
	}
}

// serve launches and kills tasks until the set asks for nothing more.
func (p *prompt) serve(b *testing.B) {
	for p.wanted > 0 || len(p.kills) > 0 {
		kills := p.kills
		p.kills = nil
		for _, id := range kills {
			p.tell(b, id, api.TaskKilled)
			delete(p.tasks, id)
		}
		if p.wanted == 0 {
			continue
		}
		p.offers++
		offer := api.Offer{ID: api.OfferID(fmt.Sprint("offer-", p.offers)), Agent: "agent-1", Resources: api.Scalars(1e6, 1e6)}
		for _, answer := range p.set.Offers(b.Context(), []api.Offer{offer}) {
			for _, operation := range answer.Operations {
				for _, task := range operation.Tasks {
					p.tasks[task.ID] = task
					p.tell(b, task.ID, api.TaskRunning)
				}
			}
		}
	}
}

// BenchmarkService runs the life of a service with n tasks: it is begun, changed to another version a hundredth at a
// time, and removed. Divided by n, the cost should not depend on n.
func BenchmarkService(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			like := func(version string) Item {
				return Item{Task: api.Task{Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "serve"}, Labels: map[string]string{VersionLabel: version}}}
			}
			var scaled, rolled, dropped time.Duration
			for b.Loop() {
				p := &prompt{tasks: map[api.TaskID]api.Task{}}
				p.set = New(Config{Pause: -1})
				p.set.client = p
				p.set.Settled(b.Context())
				began := time.Now()
				if err := p.set.Scale(context.Background(), "web", like("v1"), n); err != nil {
					b.Fatal(err)
				}
				p.serve(b)
				scaled += time.Since(began)
				began = time.Now()
				if err := p.set.Roll(context.Background(), "web", like("v2"), Rolling{AtOnce: max(n/100, 1), Proof: -1}); err != nil {
					b.Fatal(err)
				}
				for p.serve(b); !p.set.Services()[0].Rolling.Done; p.serve(b) {
					p.set.ringTimer()
				}
				rolled += time.Since(began)
				began = time.Now()
				if err := p.set.Scale(context.Background(), "web", like("v2"), 0); err != nil {
					b.Fatal(err)
				}
				p.serve(b)
				dropped += time.Since(began)
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / float64(n) }
			b.ReportMetric(per(scaled), "ns/scaled")
			b.ReportMetric(per(rolled), "ns/rolled")
			b.ReportMetric(per(dropped), "ns/dropped")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLives measures a task of a service that ends and is launched again, by how many other tasks the service has.
func BenchmarkLives(b *testing.B) {
	for _, n := range []int{10, 2000} {
		b.Run(fmt.Sprint("tasks=", n), func(b *testing.B) {
			p := &prompt{tasks: map[api.TaskID]api.Task{}}
			p.set = New(Config{Pause: -1, PauseMax: 1}) // each attempt is long enough to end a row, so that the only agent is not avoided
			p.set.client = p
			p.set.Settled(b.Context())
			item := Item{Task: api.Task{Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "serve"}}}
			if err := p.set.Scale(context.Background(), "web", item, n); err != nil {
				b.Fatal(err)
			}
			p.serve(b)
			b.ReportAllocs()
			for b.Loop() {
				for id := range p.tasks {
					p.tell(b, id, api.TaskFinished)
					delete(p.tasks, id)
					break
				}
				p.serve(b)
			}
			if len(p.tasks) != n {
				b.Fatalf("%d tasks of %d", len(p.tasks), n)
			}
		})
	}
}
