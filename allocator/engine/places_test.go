package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// racks makes this many agents in this many racks, and a framework that spreads over them.
func racks(agents, racks int) *Engine {
	e := New(allocator.Config{}, byShare)
	for i := range agents {
		e.SetAgent(allocator.Agent{
			ID: api.AgentID(fmt.Sprintf("a%d", i)), Total: api.Scalars(4, 4096), Offerable: true,
			Attributes: map[string]string{"rack": fmt.Sprintf("r%d", i*racks/agents)},
		})
	}
	e.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f", Roles: []api.Role{"r"}}, Active: true})
	return e
}

func byRack(count int64) []api.Shape {
	return []api.Shape{{Resources: api.Scalars(1, 128), Count: count, Spread: []api.Spread{{By: api.ByAttribute("rack")}}}}
}

// perRack returns how many cpus are offered in each rack.
func perRack(e *Engine, offers []allocator.Claim) map[string]int {
	counts := make(map[string]int)
	for _, o := range offers {
		counts[e.books.AgentOf(o.Agent).Spec.Attributes["rack"]] += int(o.Resources.Scalar("cpus") / 1000)
	}
	return counts
}

// Five thousand agents are in 100 racks, and 300 tasks are spread over 25 of these: each gets twelve.
func TestSpreadOverEligibleRacks(t *testing.T) {
	e := racks(5000, 100)
	shapes := byRack(300)
	shapes[0].Constraint = `attributes["rack"] in ["r1"` + func() (text string) {
		for i := 2; i <= 25; i++ {
			text += fmt.Sprintf(", %q", fmt.Sprintf("r%d", i))
		}
		return text + "]"
	}()
	e.SetDemand("f", "r", shapes)
	counts := perRack(e, e.Allocate(time.Unix(0, 0)).Offers)
	for rack, n := range counts {
		if n != 12 {
			t.Errorf("%d in %s", n, rack)
		}
	}
	if len(counts) != 25 {
		t.Errorf("the tasks are in %d racks", len(counts))
	}
}

// How many agents are looked at for a demand that is spread depends on what has changed, not on the size of the
// cluster.
func TestSpreadCostsWhatChanged(t *testing.T) {
	e := racks(500, 25)
	e.SetDemand("f", "r", byRack(10_000))
	now := time.Unix(0, 0)
	var tasks []allocator.Claim
	for i, offer := range e.Allocate(now).Offers {
		offer.Task = api.TaskID(fmt.Sprintf("t%d", i))
		e.Launch(offer)
		tasks = append(tasks, offer)
	}
	e.SetDemand("f", "r", byRack(8000))
	e.Allocate(now)
	for _, task := range tasks[:10] {
		before := e.server.number
		e.Return(task)
		if offers := e.Allocate(now).Offers; len(offers) != 1 || offers[0].Agent != task.Agent {
			t.Fatalf("%s ended on %s, and was followed by %v", task.Task, task.Agent, offers)
		}
		if turns := e.server.number - before; turns > 8 {
			t.Errorf("one task ended, and %d agents were looked at", turns)
		}
	}
}

func BenchmarkSpread(bench *testing.B) {
	for _, count := range []int64{300, 10_000} {
		for _, places := range []int{3, 100, 5000} {
			bench.Run(fmt.Sprintf("%d tasks over %d places of 5000 agents", count, places), func(bench *testing.B) {
				for bench.Loop() {
					bench.StopTimer()
					e := racks(5000, places)
					e.SetDemand("f", "r", byRack(count))
					bench.StartTimer()
					e.Allocate(time.Unix(0, 0))
				}
			})
		}
	}
}
