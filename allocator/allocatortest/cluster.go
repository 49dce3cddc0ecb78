package allocatortest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// T has the methods of *testing.T and *rapid.T that the suite needs.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Cluster plays the master's core and the frameworks around an allocator. It keeps a ledger of its own, and fails the
// test as soon as the allocator breaks a rule. Time passes only by Sleep.
type Cluster struct {
	T
	Policy allocator.Allocator
	Now    time.Time

	Agents     map[api.AgentID]allocator.Agent
	Frameworks map[api.FrameworkID]allocator.Framework
	Roles      map[api.Role]allocator.Role
	Offers     []allocator.Claim // open, in the order in which they were made
	Tasks      []allocator.Claim // running
	Inverse    []allocator.Inverse
	Spared     []allocator.Claim // tasks that were asked back and then no longer needed
	TookBack   []allocator.Claim // offers that were kept by their framework and asked back

	suppressed map[string]bool
	filters    []filter
	shown      map[string]shown
	mixed      map[string]bool           // by pairKey; see noteLaunch
	offeredAt  map[api.AgentID]time.Time // when the agent was last offered, to any framework
	demand     map[string][]api.Shape    // what is left of the demand, as counted here and told to the policy
	restated   map[string]bool           // the demand was stated anew, or met in another way, while offers were open
	tasks      int
	held       bool
	compiled   map[string]*constraint.Program
}

// NewCluster makes an empty cluster around the policy.
func NewCluster(t T, policy allocator.Allocator) *Cluster {
	return &Cluster{
		T: t, Policy: policy, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Agents:     make(map[api.AgentID]allocator.Agent),
		Frameworks: make(map[api.FrameworkID]allocator.Framework),
		Roles:      make(map[api.Role]allocator.Role),
		suppressed: make(map[string]bool),
		demand:     make(map[string][]api.Shape),
		restated:   make(map[string]bool),
		compiled:   make(map[string]*constraint.Program),
		shown:      make(map[string]shown),
		mixed:      make(map[string]bool),
		offeredAt:  make(map[api.AgentID]time.Time),
	}
}

// R parses resources; a mistake fails the test.
func (c *Cluster) R(text string) api.Resources {
	c.Helper()
	resources, err := api.ParseResources(text)
	if err != nil {
		c.Fatalf("%v", err)
	}
	return resources
}

// Agent adds an agent, or changes its total.
func (c *Cluster) Agent(id api.AgentID, total string) {
	c.Helper()
	c.SetAgent(allocator.Agent{ID: id, Hostname: string(id) + ".example.com", Total: c.R(total), Offerable: true})
}

// SetAgent adds or changes an agent. When the agent is no longer offerable, its offers are rescinded, as the core does.
// When its attributes, region or zone change, the filters of it are forgotten.
func (c *Cluster) SetAgent(a allocator.Agent) {
	c.Logf("agent %s %s zone=%s offerable=%v", a.ID, a.Total, a.Zone, a.Offerable)
	was := c.Agents[a.ID]
	c.Agents[a.ID] = a
	c.Policy.SetAgent(a)
	if !a.Offerable {
		c.rescind(func(o allocator.Claim) bool { return o.Agent == a.ID })
	}
	other := was.Zone != a.Zone || was.Region != a.Region || !maps.Equal(was.Attributes, a.Attributes)
	c.dropFilters(func(f filter) bool { return other && f.claim.Agent == a.ID })
}

// RemoveAgent forgets an agent and everything on it.
func (c *Cluster) RemoveAgent(id api.AgentID) {
	c.Logf("remove agent %s", id)
	on := func(claim allocator.Claim) bool { return claim.Agent == id }
	c.Offers = slices.DeleteFunc(c.Offers, on)
	c.Tasks = slices.DeleteFunc(c.Tasks, on)
	c.dropFilters(func(f filter) bool { return f.claim.Agent == id })
	delete(c.Agents, id)
	delete(c.offeredAt, id)
	c.Policy.RemoveAgent(id)
}

// Framework subscribes a framework in the roles.
func (c *Cluster) Framework(id api.FrameworkID, roles ...api.Role) {
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Name: string(id), Roles: roles}, Active: true})
}

// SetFramework adds or changes a framework. When the framework becomes inactive, its offers are rescinded and its
// filters are forgotten.
func (c *Cluster) SetFramework(f allocator.Framework) {
	c.Logf("framework %+v", f)
	was := c.Frameworks[f.ID]
	c.Frameworks[f.ID] = f
	c.Policy.SetFramework(f)
	gone := func(claim allocator.Claim) bool {
		return claim.Framework == f.ID && (!f.Active || !slices.Contains(f.Roles, claim.Role))
	}
	c.rescind(gone)
	c.dropFilters(func(one filter) bool {
		return gone(one.claim) || one.claim.Framework == f.ID && (was.Active && !f.Active || was.TakesOther(f))
	})
}

// RemoveFramework removes a framework. What it held is returned first.
func (c *Cluster) RemoveFramework(id api.FrameworkID) {
	c.Logf("remove framework %s", id)
	c.rescind(func(o allocator.Claim) bool { return o.Framework == id })
	for _, task := range slices.Clone(c.Tasks) {
		if task.Framework == id {
			c.Finish(task)
		}
	}
	c.Policy.RemoveFramework(id)
	for _, role := range c.Frameworks[id].Roles {
		delete(c.demand, key(id, role))
		delete(c.suppressed, key(id, role))
	}
	c.dropFilters(func(f filter) bool { return f.claim.Framework == id })
	delete(c.Frameworks, id)
}

// Role sets the weight, priority and quota of a role.
func (c *Cluster) Role(r allocator.Role) {
	c.Logf("role %+v", r)
	c.Roles[r.Role] = r
	c.Policy.SetRole(r)
}

// Suppress stops offers to the framework in the roles; without roles, in all its roles.
func (c *Cluster) Suppress(id api.FrameworkID, roles ...api.Role) {
	c.Logf("suppress %s %v", id, roles)
	for _, role := range c.rolesOf(id, roles) {
		c.suppressed[key(id, role)] = true
	}
	c.Policy.Suppress(id, roles)
}

// Revive undoes Suppress and forgets the filters in the roles.
func (c *Cluster) Revive(id api.FrameworkID, roles ...api.Role) {
	c.Logf("revive %s %v", id, roles)
	for _, role := range c.rolesOf(id, roles) {
		delete(c.suppressed, key(id, role))
		c.dropFilters(func(f filter) bool { return f.claim.Framework == id && f.claim.Role == role })
	}
	c.Policy.Revive(id, roles)
}

func (c *Cluster) rolesOf(id api.FrameworkID, roles []api.Role) []api.Role {
	if len(roles) == 0 {
		roles = c.Frameworks[id].Roles
	}
	return roles
}

// Demand states what the framework wants in the role. Without shapes it wants nothing.
func (c *Cluster) Demand(id api.FrameworkID, role api.Role, shapes ...api.Shape) {
	c.Logf("demand %s %s %+v", id, role, shapes)
	if shapes == nil {
		shapes = []api.Shape{}
	}
	if !slices.Contains(c.Frameworks[id].Roles, role) {
		return
	}
	before, stated := c.demand[key(id, role)]
	c.demandChanged(id, role, before, stated, shapes)
	if c.offered(id, role) {
		c.restated[key(id, role)] = true
	}
	c.demand[key(id, role)] = shapes
	c.Policy.SetDemand(id, role, shapes)
}

// NoDemand takes the framework's demand in the role back.
func (c *Cluster) NoDemand(id api.FrameworkID, role api.Role) {
	c.Logf("no demand %s %s", id, role)
	if _, stated := c.demand[key(id, role)]; stated {
		c.dropFilters(func(f filter) bool { return f.claim.Framework == id && f.claim.Role == role })
	}
	delete(c.demand, key(id, role))
	c.Policy.SetDemand(id, role, nil)
}

// Hold begins or ends the recovery hold (R20).
func (c *Cluster) Hold(on bool) {
	c.Logf("hold %v", on)
	c.held = on
	c.Policy.Hold(on)
}

// Shape makes a shape of a demand.
func (c *Cluster) Shape(resources string, count int64) api.Shape {
	c.Helper()
	return api.Shape{Resources: c.R(resources), Count: count}
}

func key(id api.FrameworkID, role api.Role) string { return string(id) + " " + string(role) }

// Sleep lets time pass.
func (c *Cluster) Sleep(d time.Duration) {
	c.Logf("sleep %s", d)
	c.Now = c.Now.Add(d)
}

// Allocate runs the policy, checks every proposal and returns the new offers. When the policy asks kept offers back,
// these are rescinded and the policy runs once more, as the core does.
func (c *Cluster) Allocate() []allocator.Claim {
	c.Helper()
	before := len(c.TookBack)
	offers := c.allocate()
	if len(c.TookBack) > before {
		offers = append(offers, c.allocate()...)
	}
	return offers
}

func (c *Cluster) allocate() []allocator.Claim {
	c.Helper()
	free := make(map[api.AgentID]api.Resources)
	for id := range c.Agents { // order: irrelevant because it goes into a map
		free[id] = c.Free(id)
	}
	allocation := c.Policy.Allocate(c.Now)
	c.Logf("allocate: %s; %d inverse", strings.ReplaceAll(c.Words(allocation.Offers), "\n", ", "), len(allocation.Inverse))
	for _, offer := range allocation.Offers {
		c.check(offer, free[offer.Agent])
		c.show(offer, free[offer.Agent])
		offer.Since = c.Now
		c.Offers = append(c.Offers, offer)
	}
	c.spare(allocation.Spared)
	for _, inverse := range allocation.Inverse {
		if inverse = c.takeBack(inverse); len(inverse.Victims) > 0 {
			c.checkInverse(inverse)
			c.Inverse = append(c.Inverse, inverse)
		}
	}
	return allocation.Offers
}

// Words writes offers as "f1 a1 cpus:4;mem:4096", one a line.
func (c *Cluster) Words(offers []allocator.Claim) string {
	var words []string
	for _, o := range offers {
		words = append(words, fmt.Sprintf("%s %s %s", o.Framework, o.Agent, o.Resources))
	}
	return strings.Join(words, "\n")
}

// Expect runs the policy and compares its offers with these, in this order.
func (c *Cluster) Expect(want ...string) {
	c.Helper()
	if got := c.Words(c.Allocate()); got != strings.Join(want, "\n") {
		c.Fatalf("offers:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// ExpectAll is Expect for offers in any order.
func (c *Cluster) ExpectAll(want ...string) {
	c.Helper()
	got := strings.Split(c.Words(c.Allocate()), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.Fatalf("offers:\n%s\nwant, in any order:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Offer finds the framework's open offer of the agent.
func (c *Cluster) Offer(id api.FrameworkID, agent api.AgentID) allocator.Claim {
	c.Helper()
	for _, o := range c.Offers {
		if o.Framework == id && o.Agent == agent {
			return o
		}
	}
	c.Fatalf("%s has no offer of %s; there are:\n%s", id, agent, c.Words(c.Offers))
	return allocator.Claim{}
}

// Accept launches tasks from the offer, and declines the rest with a filter that lasts for refuse (0 = no filter). It
// returns the tasks.
func (c *Cluster) Accept(offer allocator.Claim, refuse time.Duration, tasks ...api.Resources) []allocator.Claim {
	c.Helper()
	c.Logf("accept %s %s %s %s: %s, filter %s", offer.Framework, offer.Role, offer.Agent, offer.Resources, tasks, refuse)
	c.close(offer)
	if len(tasks) > 0 {
		c.noteLaunch(offer)
	}
	var launched []allocator.Claim
	rest := offer.Resources
	groups := c.countDown(offer, tasks)
	for i, ask := range tasks {
		taken, left, ok := rest.Carve(ask)
		if !ok {
			c.Fatalf("%s does not fit %s", ask, rest)
		}
		c.tasks++
		task := offer
		task.Resources, task.Task, task.Since = taken, api.TaskID(fmt.Sprintf("t%d", c.tasks)), c.Now
		task.Group = groups[i]
		c.Policy.Launch(task)
		c.launchShown(task)
		c.Tasks = append(c.Tasks, task)
		launched = append(launched, task)
		rest = left
	}
	if shapes, stated := c.demand[key(offer.Framework, offer.Role)]; stated && len(tasks) > 0 {
		c.Policy.SetDemand(offer.Framework, offer.Role, shapes)
	}
	if !rest.IsZero() {
		if len(tasks) > 0 {
			c.restated[key(offer.Framework, offer.Role)] = true // they met less than the offer was made for, or something else
		}
		offer.Resources = rest
		c.Policy.Return(offer)
		c.refuse(offer, refuse, len(tasks) == 0)
	}
	return launched
}

// countDown subtracts launched tasks from what their framework wants, as the core does. It returns the group of each
// task: that of the shape that the task meets. (Protocol rule R38.)
func (c *Cluster) countDown(offer allocator.Claim, tasks []api.Resources) (groups []string) {
	who := key(offer.Framework, offer.Role)
	shapes, stated := c.demand[who]
	shapes = slices.Clone(shapes)
	for _, ask := range tasks {
		at := protocol.CountDown(shapes, &api.Task{Resources: ask}, func(s *api.Shape) bool {
			return (!s.OnlyPreferred || slices.Contains(s.Preferred, offer.Agent)) && c.meets(s.Constraint, offer.Agent, offer.Role)
		})
		group := ""
		if at >= 0 {
			group = shapes[at].Group
		}
		groups = append(groups, group)
	}
	if stated {
		c.demand[who] = protocol.Wanted(shapes)
	}
	return groups
}

// Decline gives the offer back, with a filter that lasts for refuse (0 = no filter).
func (c *Cluster) Decline(offer allocator.Claim, refuse time.Duration) {
	c.Helper()
	c.Accept(offer, refuse)
}

// Finish ends a task.
func (c *Cluster) Finish(task allocator.Claim) {
	c.Helper()
	c.Logf("finish %s of %s: %s on %s", task.Task, task.Framework, task.Resources, task.Agent)
	before := len(c.Tasks)
	c.Tasks = slices.DeleteFunc(c.Tasks, func(t allocator.Claim) bool { return t.Task == task.Task })
	if len(c.Tasks) == before {
		c.Fatalf("%s is not running", task.Task)
	}
	c.Policy.Return(task)
	c.lift(task)
}

func (c *Cluster) close(offer allocator.Claim) {
	c.Helper()
	for i, o := range c.Offers {
		if o.Framework == offer.Framework && o.Role == offer.Role && o.Agent == offer.Agent && o.Resources.Equal(offer.Resources) {
			c.Offers = slices.Delete(c.Offers, i, i+1)
			return
		}
	}
	c.Fatalf("there is no such offer: %s", c.Words([]allocator.Claim{offer}))
}

// giveBack returns an offer that its framework has not answered.
func (c *Cluster) giveBack(o allocator.Claim) {
	c.Helper()
	c.close(o)
	c.Policy.Return(o)
}

func (c *Cluster) rescind(which func(allocator.Claim) bool) {
	for _, o := range slices.Clone(c.Offers) {
		if which(o) {
			c.giveBack(o)
		}
	}
}

// Reasons returns the sentences of Explain, one a line.
func (c *Cluster) Reasons(id api.FrameworkID, agent api.AgentID) string {
	return strings.Join(c.Policy.Explain(id, agent, c.Now).Reasons, "\n")
}

// Because fails unless one of the reasons of Explain contains this text.
func (c *Cluster) Because(id api.FrameworkID, agent api.AgentID, want string) {
	c.Helper()
	if got := c.Reasons(id, agent); !strings.Contains(got, want) {
		c.Fatalf("%s on %q: explained by %q, want %q in it", id, agent, got, want)
	}
}
