package allocatortest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// properties runs random histories. Every proposal is checked against the ledger (see check). After every allocation
// nothing may be left that could be offered to a framework.
func properties(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{Cluster: NewCluster(t, fresh()), t: t}
		h.run(rapid.IntRange(10, 120).Draw(t, "steps"))
	})
}

// determinism runs random histories on two allocators at once.
func determinism(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{Cluster: NewCluster(t, newTwins(t, fresh(), fresh())), t: t}
		h.run(rapid.IntRange(10, 60).Draw(t, "steps"))
	})
}

// history is a random sequence of changes of a small cluster.
type history struct {
	*Cluster
	t *rapid.T
}

var (
	historyRoles      = []api.Role{"a", "a/x", "a/y", "b", "c"}
	historyFrameworks = []api.FrameworkID{"f1", "f2", "f3", "f4"}
	historyAgents     = []api.AgentID{"s1", "s2", "s3", "s4"}
	historyTotals     = []string{
		"cpus:4;mem:4096", "cpus:1;mem:512", "cpus:2;mem:1024;ports:[1-5]", "cpus:8;mem:128;gpus:2",
		"cpus:2;mem:1024;cpus(a):2;mem(a):512", "cpus:2;mem:1024;cpus(a/x):1;mem(b):512", "cpus:1;mem:100;disk:50;disk(b,volume=v1):10",
		"cpus:2;mem:512;cpus(revocable):4", "cpus:1;mem:512;cpus(revocable):2;mem(revocable):1024",
	}
	historyGaps    = []string{"", "cpus(revocable):1", "cpus(revocable):4;mem(revocable):256"}
	historyTasks   = []string{"cpus:1;mem:128", "cpus:0.5;mem:512", "mem:64", "cpus:2;mem:1024", "cpus:1;gpus:1", "cpus:1;ports:[2]", "cpus(revocable):1", "cpus(revocable):2;mem(revocable):256", "mem:64;cpus(revocable):1"}
	historyQuotas  = []string{"", "", "cpus:2", "cpus:3;mem:1024", "mem:700", "ports:[1-2]", "cpus:5;gpus:1"}
	historyFilters = []time.Duration{0, time.Second, 5 * time.Second, time.Hour}
)

// pick draws one of the values.
func pick[V any](h *history, name string, from []V) V {
	return from[rapid.IntRange(0, len(from)-1).Draw(h.t, name)]
}

func (h *history) run(steps int) {
	h.Framework("f1", "a/x")
	h.Agent("s1", historyTotals[0])
	for range steps {
		h.step()
		if rapid.Bool().Draw(h.t, "allocate") {
			before := h.spare()
			h.settled(h.Allocate(), before)
		}
	}
}

// step makes one random change of the cluster.
func (h *history) step() {
	switch rapid.IntRange(0, 21).Draw(h.t, "what") {
	case 0, 1:
		h.setAgent()
	case 2:
		if id := pick(h, "agent", historyAgents); h.Agents[id].ID != "" {
			h.RemoveAgent(id)
		}
	case 3, 4:
		h.setFramework()
	case 5:
		if id := pick(h, "framework", historyFrameworks); h.Frameworks[id].ID != "" && rapid.IntRange(0, 3).Draw(h.t, "really") == 0 {
			h.RemoveFramework(id)
		}
	case 6:
		h.Suppress(h.framework())
	case 7, 8:
		h.Revive(h.framework())
	case 9, 10:
		h.setDemand()
	case 11:
		h.setRole()
	case 12:
		h.Hold(rapid.IntRange(0, 2).Draw(h.t, "hold") == 0)
	case 13:
		h.Sleep(pick(h, "time", []time.Duration{time.Second, 5 * time.Second, time.Hour}))
	case 14:
		h.take()
	case 15, 16:
		if len(h.Tasks) > 0 {
			h.Finish(pick(h, "task", h.Tasks))
		}
	default:
		h.answer()
	}
}

func (h *history) framework() api.FrameworkID { return pick(h, "framework", historyFrameworks) }

func (h *history) setAgent() {
	a := allocator.Agent{
		ID: pick(h, "agent", historyAgents), Total: h.R(pick(h, "total", historyTotals)),
		Zone: pick(h, "zone", []string{"z1", "z2"}), Offerable: rapid.IntRange(0, 4).Draw(h.t, "away") > 0, Why: "draining",
	}
	if old := h.Agents[a.ID]; old.ID != "" && h.holds(a.ID) {
		// While something is held on an agent, the core changes nothing of its total but the gap.
		gap := h.R(pick(h, "gap", historyGaps))
		h.shrink(a.ID, gap)
		a.Total = old.Total.Firm().Plus(gap)
	}
	h.SetAgent(a)
}

// shrink rescinds the youngest offers, until no more revocable resources are held on the agent than the new gap.
func (h *history) shrink(id api.AgentID, gap api.Resources) {
	for _, offer := range slices.Backward(slices.Clone(h.Offers)) {
		var held api.Resources
		for _, claim := range slices.Concat(h.Offers, h.Tasks) {
			if claim.Agent == id {
				held = held.Plus(claim.Resources.Revocable())
			}
		}
		if offer.Agent == id && !held.Without(gap).Intersect(offer.Resources).IsZero() {
			h.giveBack(offer)
		}
	}
}

func (h *history) holds(id api.AgentID) bool {
	on := func(c allocator.Claim) bool { return c.Agent == id }
	return slices.ContainsFunc(h.Offers, on) || slices.ContainsFunc(h.Tasks, on)
}

func (h *history) setFramework() {
	f := allocator.Framework{Framework: api.Framework{ID: h.framework(), Revocable: rapid.Bool().Draw(h.t, "revocable")}, Active: rapid.IntRange(0, 5).Draw(h.t, "active") > 0}
	f.Withheld = pick(h, "withheld", []string{"", "", "", "", "", "too many filters"})
	f.Roles = []api.Role{pick(h, "role", historyRoles)}
	if second := pick(h, "role", historyRoles); second != f.Roles[0] && rapid.Bool().Draw(h.t, "two roles") {
		f.Roles = append(f.Roles, second)
	}
	f.Constraint = pick(h, "constraint", []string{"", "", "", `zone == "z1"`, `id != "s2"`})
	f.MaxOffer = h.R(pick(h, "cap", []string{"", "", "", "cpus:1", "cpus:2;mem:512"}))
	f.MinOffer = h.R(pick(h, "minimum", []string{"", "", "", "cpus:1"}))
	for _, role := range h.Frameworks[f.ID].Roles {
		if !slices.Contains(f.Roles, role) {
			for _, task := range slices.Clone(h.Tasks) {
				if task.Framework == f.ID && task.Role == role {
					h.Finish(task)
				}
			}
			delete(h.demand, key(f.ID, role))
			delete(h.suppressed, key(f.ID, role))
		}
	}
	h.SetFramework(f)
}

func (h *history) setDemand() {
	id := h.framework()
	for _, role := range h.Frameworks[id].Roles {
		if rapid.IntRange(0, 3).Draw(h.t, "stated") == 0 {
			h.NoDemand(id, role)
			continue
		}
		var shapes []api.Shape
		for range rapid.IntRange(0, 2).Draw(h.t, "shapes") {
			s := h.Shape(pick(h, "shape", historyTasks), int64(rapid.IntRange(1, 5).Draw(h.t, "count")))
			s.Constraint = pick(h, "constraint", []string{"", "", `zone == "z1"`})
			if rapid.IntRange(0, 4).Draw(h.t, "prefers") == 0 {
				s.Preferred, s.OnlyPreferred = []api.AgentID{"s2", "s3"}, rapid.Bool().Draw(h.t, "only")
			}
			if by := pick(h, "spread", []api.Place{"", "", "", api.ByAgent, api.ByZone}); by != "" {
				s.Spread = []api.Spread{{By: by}}
			}
			shapes = append(shapes, s)
		}
		h.Demand(id, role, shapes...)
	}
}

func (h *history) setRole() {
	r := allocator.Role{Role: pick(h, "role", historyRoles), Weight: float64(rapid.IntRange(0, 3).Draw(h.t, "weight")), Priority: rapid.IntRange(-1, 2).Draw(h.t, "priority")}
	r.Limit, r.Guarantee = h.R(pick(h, "limit", historyQuotas)), h.R(pick(h, "guarantee", historyQuotas))
	h.Role(r)
}

// take adds a task that an agent reports.
func (h *history) take() {
	id, agent := h.framework(), pick(h, "agent", historyAgents)
	f, known := h.Frameworks[id]
	if !known || h.Agents[agent].ID == "" {
		return
	}
	taken, _, fits := h.Free(agent).UsableBy(f.Roles[0]).Carve(h.R(pick(h, "task", historyTasks)))
	if !fits {
		return
	}
	h.tasks++
	task := allocator.Claim{Framework: id, Role: f.Roles[0], Agent: agent, Resources: taken, Task: api.TaskID(fmt.Sprintf("t%d", h.tasks)), Since: h.Now}
	h.Tasks = append(h.Tasks, task)
	h.Policy.Take(task)
}

// answer accepts or declines an open offer.
func (h *history) answer() {
	if len(h.Offers) == 0 {
		return
	}
	offer := pick(h, "offer", h.Offers)
	var launch []api.Resources
	rest := offer.Resources
	for range rapid.IntRange(0, 3).Draw(h.t, "tasks") {
		ask := h.R(pick(h, "task", historyTasks))
		if _, left, fits := rest.Carve(ask); fits {
			launch, rest = append(launch, ask), left
		}
	}
	h.Accept(offer, pick(h, "refuse", historyFilters), launch...)
}

// settled checks what must hold after an allocation.
func (h *history) settled(offers []allocator.Claim, before map[string]int64) {
	h.promisesKept(offers, before)
	h.guaranteesMet()
	if again := h.Allocate(); len(again) > 0 {
		h.Fatalf("nothing has changed, and yet: %s", h.Words(again))
	}
	h.sharesAreFirm()
	for _, id := range historyFrameworks {
		for _, agent := range historyAgents {
			h.explained(id, agent)
			h.nothingLeftLying(id, agent)
		}
		h.explained(id, "")
	}
}

// sharesAreFirm fails if a share counts revocable resources.
func (h *history) sharesAreFirm() {
	total, held := make(map[string]int64), make(map[api.FrameworkID]map[string]int64)
	for _, a := range h.Agents { // order: irrelevant because it is a sum
		for _, item := range a.Total.Firm().Items() {
			total[item.Name] += size(item)
		}
	}
	for _, claim := range slices.Concat(h.Offers, h.Tasks) {
		for _, item := range claim.Resources.Firm().Items() {
			if held[claim.Framework] == nil {
				held[claim.Framework] = make(map[string]int64)
			}
			held[claim.Framework][item.Name] += size(item)
		}
	}
	shares := h.Policy.Shares().Frameworks
	for _, id := range historyFrameworks {
		want := 0.0
		for name, x := range held[id] { // order: irrelevant because it is the largest
			if total[name] > 0 {
				want = max(want, float64(x)/float64(total[name]))
			}
		}
		if got := shares[id]; got < want-1e-9 || got > want+1e-9 {
			h.Fatalf("%s holds %v of %v: its share is %v and is told to be %v", id, held[id], total, want, got)
		}
	}
}

// nothingLeftLying fails if the agent has something free that the framework would take, unless a rule of the ledger
// forbids the offer.
func (h *history) nothingLeftLying(id api.FrameworkID, agent api.AgentID) {
	f, a := h.Frameworks[id], h.Agents[agent]
	if !f.Active || f.Withheld != "" || !a.Offerable || f.Constraint != "" || !f.MaxOffer.IsZero() || !f.MinOffer.IsZero() || len(h.Inverse) > 0 {
		return
	}
	for _, r := range h.Roles { // order: irrelevant because one is enough
		if !r.Guarantee.IsZero() {
			return
		}
	}
	for _, role := range f.Roles {
		free := h.Free(agent).UsableBy(role).Filter(func(l api.Label) bool { return f.Revocable || !l.Revocable })
		if h.suppressed[key(id, role)] || h.limited(role) || !h.takes(f, role, free) {
			continue
		}
		filtered := slices.ContainsFunc(h.filters, func(one filter) bool {
			return one.of(id, role, agent) && one.hides(free, h.Now)
		})
		if !filtered {
			h.Fatalf("%s of %s lies there, and %s would take it in role %s", free, agent, id, role)
		}
	}
}

func (h *history) takes(f allocator.Framework, role api.Role, free api.Resources) bool {
	shapes, stated := h.demand[key(f.ID, role)]
	if !stated {
		return free.Scalar("cpus") >= 10 || free.Scalar("mem") >= 32_000
	}
	if h.offered(f.ID, role) {
		return false // its demand may be in those offers
	}
	return slices.ContainsFunc(shapes, func(s api.Shape) bool {
		_, _, fits := free.Carve(s.Resources)
		return fits && s.Count > 0 && s.Constraint == "" && !s.OnlyPreferred
	})
}

// spare sums what is free and unreserved on all agents that are offerable.
func (h *history) spare() map[string]int64 {
	sum := make(map[string]int64)
	for id, a := range h.Agents { // order: irrelevant because it is a sum
		if a.Offerable {
			for _, item := range h.Free(id).Items() {
				if item.Reserved == "" && !item.Revocable {
					sum[item.Name] += size(item)
				}
			}
		}
	}
	return sum
}

// promisesKept fails if a role outside of all guarantees was offered what top-level roles lack of theirs.
func (h *history) promisesKept(offers []allocator.Claim, before map[string]int64) {
	lacks := make(map[string]int64)
	for name, r := range h.Roles { // order: irrelevant because it is a sum
		if name.Parent() != "" {
			continue
		}
		for _, item := range r.Guarantee.Items() {
			lacks[item.Name] += max(0, size(item)-h.Used(name, item.Name))
		}
	}
	after := h.spare()
	for _, o := range offers {
		top := api.Role(strings.SplitN(string(o.Role), "/", 2)[0])
		if slices.ContainsFunc(historyRoles, func(r api.Role) bool { return r.Within(top) && !h.Roles[r].Guarantee.IsZero() }) {
			continue
		}
		for _, item := range o.Resources.Items() {
			if item.Reserved == "" && !item.Revocable && after[item.Name] < lacks[item.Name] {
				h.Fatalf("%s was offered %s although roles lack %d of their guarantees and only %d of %d are left",
					o.Framework, item.Label, lacks[item.Name], after[item.Name], before[item.Name])
			}
		}
	}
}

// twins are two allocators that must give the same answers. Calls go to both, and questions to the first.
type twins struct {
	inputs.Calls
	inputs.Answers
	other allocator.Allocator
	t     T
}

func newTwins(t T, one, other allocator.Allocator) *twins {
	both := func(input inputs.Input) {
		input.Apply(one)
		input.Apply(other)
	}
	return &twins{Calls: both, Answers: inputs.Answers{Allocator: one}, other: other, t: t}
}

// Allocate compares the answers of both.
func (w *twins) Allocate(now time.Time) allocator.Allocation {
	one, other := w.Allocator.Allocate(now), w.other.Allocate(now)
	if !reflect.DeepEqual(one, other) {
		w.t.Fatalf("the same calls gave\n%v\nand\n%v", one, other)
	}
	return one
}
