package allocatortest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// spreads: a demand that is spread is offered nothing in a place that would then have two tasks more than another place
// that could have taken it. No place gets more than most. And nothing is left free that fits.
func spreads(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		s := &spreadHistory{Cluster: NewCluster(quiet{t}, fresh()), t: t}
		s.build()
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			s.round()
		}
	})
}

// spreadHistory is a random history of a framework that spreads groups of tasks, beside one that takes anything.
type spreadHistory struct {
	*Cluster
	t      *rapid.T
	shapes []api.Shape
}

const spreading, greedy = api.FrameworkID("f1"), api.FrameworkID("f2")

func (s *spreadHistory) build() {
	for i := range rapid.IntRange(1, 8).Draw(s.t, "agents") {
		s.SetAgent(allocator.Agent{
			ID: api.AgentID(fmt.Sprintf("a%d", i)), Offerable: true,
			Total: s.R(fmt.Sprintf("cpus:%d;mem:200000", rapid.IntRange(1, 6).Draw(s.t, "cpus"))),
			Zone:  fmt.Sprintf("z%d", rapid.IntRange(1, 3).Draw(s.t, "zone")), Region: "eu",
			Attributes: map[string]string{"rack": fmt.Sprintf("r%d", rapid.IntRange(1, 4).Draw(s.t, "rack"))},
		})
	}
	s.Framework(spreading, "r")
	if rapid.Bool().Draw(s.t, "beside another") {
		s.Framework(greedy, "r")
	}
	places := []api.Place{api.ByAgent, api.ByZone, api.ByRegion, api.ByAttribute("rack")}
	for i := range rapid.IntRange(1, 2).Draw(s.t, "groups") {
		shape := s.Shape([]string{"cpus:1;mem:100", "cpus:1;mem:10000"}[i], 0) // mem tells how many of each an offer is for
		shape.Group = fmt.Sprintf("g%d", i)
		for range rapid.IntRange(1, 2).Draw(s.t, "kinds of places") {
			most := rapid.Int64Range(0, 3).Draw(s.t, "most")
			shape.Spread = append(shape.Spread, api.Spread{By: rapid.SampledFrom(places).Draw(s.t, "by"), Most: most})
		}
		s.shapes = append(s.shapes, shape)
	}
}

// round states the demand anew, lets some tasks end, and accepts what is offered.
func (s *spreadHistory) round() {
	for len(s.Tasks) > 0 && rapid.IntRange(0, 2).Draw(s.t, "one ends") > 0 {
		s.Finish(s.Tasks[rapid.IntRange(0, len(s.Tasks)-1).Draw(s.t, "which")])
	}
	if rapid.Bool().Draw(s.t, "states") {
		var wanted []api.Shape
		for _, shape := range s.shapes {
			if shape.Count = rapid.Int64Range(0, 12).Draw(s.t, "count"); shape.Count > 0 {
				wanted = append(wanted, shape)
			}
		}
		s.Demand(spreading, "r", wanted...)
	}
	before := make([]map[string]int64, len(s.shapes))
	for i, shape := range s.shapes {
		before[i] = s.counts(shape)
	}
	for range 4 { // the tasks of the first shape may leave room that was offered for the second
		offers := s.Allocate()
		for _, o := range offers {
			s.answer(o)
		}
	}
	for i, shape := range s.shapes {
		s.checkSpread(shape, before[i])
	}
}

// answer launches as many tasks of the shapes that are still wanted as the offer has room for.
func (s *spreadHistory) answer(o allocator.Claim) {
	var tasks []api.Resources
	rest := o.Resources
	if o.Framework == spreading {
		shapes := slices.Clone(s.demand[key(spreading, "r")])
		slices.SortFunc(shapes, func(a, b api.Shape) int { return strings.Compare(b.Group, a.Group) })
		for _, shape := range shapes {
			for range shape.Count {
				_, left, fits := rest.Carve(shape.Resources)
				if !fits {
					break
				}
				tasks, rest = append(tasks, shape.Resources), left
			}
		}
	} else {
		tasks = append(tasks, o.Resources) // all of it, until it ends: what it gave back, others could not have taken before
	}
	s.Accept(o, 0, tasks...)
}

// counts returns how many tasks of the shape's group run in each place of the first kind that the shape names.
func (s *spreadHistory) counts(shape api.Shape) map[string]int64 {
	counts := make(map[string]int64)
	for _, task := range s.Tasks {
		if task.Framework == spreading && task.Group == shape.Group {
			counts[s.place(shape.Spread[0].By, task.Agent)]++
		}
	}
	return counts
}

func (s *spreadHistory) place(by api.Place, id api.AgentID) string {
	a := s.Agents[id]
	return by.Of(a.ID, a.Region, a.Zone, a.Attributes)
}

// checkSpread compares what was added with what the other places could have taken. Only places that have room now
// count.
func (s *spreadHistory) checkSpread(shape api.Shape, before map[string]int64) {
	after := s.counts(shape)
	wanted := false
	for _, left := range s.demand[key(spreading, "r")] {
		wanted = wanted || left.Group == shape.Group
	}
	for id := range s.Agents { // order: irrelevant because any one is enough
		if _, _, fits := s.Free(id).Carve(shape.Resources); !fits || s.full(shape, id) {
			continue
		}
		if wanted {
			s.Fatalf("%s of %s lies there, and more of group %s is wanted", s.Free(id), id, shape.Group)
		}
		other := s.place(shape.Spread[0].By, id)
		for place, n := range after { // order: irrelevant because any one is enough
			if n > before[place] && n-after[other] > 1 {
				s.Fatalf("group %s has %d in %s and %d in %s, where %s could have taken it", shape.Group, n, place, after[other], other, id)
			}
		}
	}
	for i, one := range shape.Spread {
		for place, n := range s.countsBy(shape, i) { // order: irrelevant because any one is enough
			if one.Most > 0 && n > one.Most {
				s.Fatalf("group %s has %d in %s, at most %d are wanted", shape.Group, n, place, one.Most)
			}
		}
	}
}

func (s *spreadHistory) countsBy(shape api.Shape, kind int) map[string]int64 {
	shape.Spread = shape.Spread[kind:]
	return s.counts(shape)
}

func (s *spreadHistory) full(shape api.Shape, id api.AgentID) bool {
	for i, one := range shape.Spread {
		if one.Most > 0 && s.countsBy(shape, i)[s.place(one.By, id)] >= one.Most {
			return true
		}
	}
	return false
}
