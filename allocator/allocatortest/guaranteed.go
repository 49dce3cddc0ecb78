package allocatortest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// guaranteed: whatever the others take, hold and give back, a role that begins to want its guarantee is offered it at
// once, if the cluster has it.
func guaranteed(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{Cluster: NewCluster(t, fresh()), t: t}
		total := 0
		for i := range rapid.IntRange(1, 5).Draw(t, "agents") {
			cpus := rapid.IntRange(1, 4).Draw(t, "cpus")
			total += cpus
			h.Agent(api.AgentID(fmt.Sprintf("a%d", i)), fmt.Sprintf("cpus:%d;mem:%d", cpus, 512*cpus))
		}
		least := rapid.IntRange(0, total).Draw(t, "guarantee")
		if least > 0 {
			h.Role(allocator.Role{Role: "g", Guarantee: api.Scalars(float64(least), float64(512*least))})
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "others") {
			h.Framework(api.FrameworkID(fmt.Sprintf("f%d", i)), pick(h, "role", []api.Role{"b", "c"}))
		}
		h.othersLive(rapid.IntRange(0, 15).Draw(t, "rounds"))
		want := rapid.IntRange(0, 2*total).Draw(t, "demand")
		if want == 0 {
			return
		}
		h.Framework("late", "g")
		h.Demand("late", "g", h.Shape("cpus:1;mem:512", int64(want)))
		h.Allocate()
		if got, due := h.Used("g", "cpus"), int64(1000*min(want, least)); got < due {
			t.Fatalf("the role has %d of the %d that it is guaranteed and wants", got, due)
		}
	})
}

// guaranteedByKind: three roles want the same small tasks without end, and the first role is guaranteed some cpus. It
// may also lack a guaranteed resource of another kind, of which its tasks take little or nothing. That must bring it no
// more cpus: of a kind of which the guarantee is met, the role gets no more than its share.
func guaranteedByKind(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		life := threeRoles{
			T: t, agents: rapid.IntRange(1, 6).Draw(t, "agents"), rounds: rapid.IntRange(1, 8).Draw(t, "rounds"),
			ends: rapid.IntRange(1, 8).Draw(t, "ends"),
		}
		met := fmt.Sprintf("cpus:%d", rapid.IntRange(1, 4*life.agents).Draw(t, "guaranteed"))
		lacks := met + rapid.SampledFrom([]string{";mem:1024", ";gpus:1", ";mem:512;gpus:1"}).Draw(t, "lacking")
		want, got := life.run(fresh(), met), life.run(fresh(), lacks)
		if !slices.Equal(got, want) {
			t.Fatalf("guaranteed %s the role holds, round by round, %d thousandths of cpus; guaranteed %s it holds %d", met, want, lacks, got)
		}
	})
}

// threeRoles is the size of a history of three roles with the same endless demand.
type threeRoles struct {
	T
	agents, rounds int
	ends           int // how many tasks end in each round, the oldest first
}

// run gives the first role the guarantee, and returns how many cpus the role holds after each round.
func (t threeRoles) run(policy allocator.Allocator, guarantee string) []int64 {
	c := NewCluster(quiet{t.T}, policy)
	for i := range t.agents {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:4;mem:4096;gpus:1")
	}
	c.Role(allocator.Role{Role: "g", Guarantee: c.R(guarantee)})
	task := c.R("cpus:1;mem:32")
	for _, role := range []api.Role{"g", "h", "i"} {
		c.Framework(api.FrameworkID("of-"+role), role)
		c.Demand(api.FrameworkID("of-"+role), role, api.Shape{Resources: task, Count: 1000})
	}
	var held []int64
	for range t.rounds {
		for offers := c.Allocate(); len(offers) > 0; offers = c.Allocate() {
			for _, offer := range offers {
				c.Accept(offer, 0, c.split(offer.Resources, task)...)
			}
		}
		held = append(held, c.Used("g", "cpus"))
		for range min(t.ends, len(c.Tasks)) {
			c.Finish(c.Tasks[0])
		}
	}
	return held
}

// split returns as many copies of the task as fit into the resources.
func (c *Cluster) split(rest, task api.Resources) []api.Resources {
	var tasks []api.Resources
	for {
		_, left, fits := rest.Carve(task)
		if !fits {
			return tasks
		}
		rest, tasks = left, append(tasks, task)
	}
}

// othersLive lets the frameworks launch, decline and finish tasks at random.
func (h *history) othersLive(rounds int) {
	for range rounds {
		h.Allocate()
		for len(h.Offers) > 0 {
			offer := h.Offers[0]
			var launch []api.Resources
			for rest := offer.Resources; rapid.IntRange(0, 4).Draw(h.t, "one more") > 0; {
				_, left, fits := rest.Carve(h.R("cpus:1;mem:512"))
				if !fits {
					break
				}
				rest, launch = left, append(launch, h.R("cpus:1;mem:512"))
			}
			h.Accept(offer, pick(h, "refuse", historyFilters), launch...)
		}
		if len(h.Tasks) > 0 && rapid.Bool().Draw(h.t, "finishes") {
			h.Finish(pick(h, "task", h.Tasks))
		}
		h.Sleep(time.Second)
	}
}

// guaranteesMet fails if only one role has a guarantee, and cpus that it lacks are free while a framework in this role
// would take them.
func (h *history) guaranteesMet() {
	var r allocator.Role
	n := 0
	for _, one := range h.Roles { // order: irrelevant because it counts
		if !one.Guarantee.IsZero() {
			r, n = one, n+1
		}
	}
	lacks, _ := r.Guarantee.Find(api.Label{Name: "cpus"})
	if n != 1 || len(h.Inverse) > 0 || h.limited(r.Role) || int64(lacks.Scalar) <= h.Used(r.Role, "cpus") {
		return
	}
	for _, id := range historyFrameworks {
		f := h.Frameworks[id]
		if _, stated := h.demand[key(id, r.Role)]; stated || !f.Active || !slices.Contains(f.Roles, r.Role) || h.suppressed[key(id, r.Role)] ||
			f.Withheld != "" || f.Constraint != "" || !f.MaxOffer.IsZero() || !f.MinOffer.IsZero() {
			continue
		}
		for _, agent := range historyAgents {
			filtered := slices.ContainsFunc(h.filters, func(one filter) bool {
				return one.of(id, r.Role, agent) && one.hides(h.usable(id, r.Role, h.Free(agent)), h.Now)
			})
			free := h.Free(agent).Filter(func(l api.Label) bool { return l.Reserved == "" && !l.Revocable })
			if h.Agents[agent].Offerable && !filtered && free.Scalar("cpus") >= 10 {
				h.Fatalf("%s lacks cpus of its guarantee %s, %s has %s free, and %s is not offered it", r.Role, r.Guarantee, agent, free, id)
			}
		}
	}
}
