package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Finding is something that does not fit together.
type Finding struct {
	// Rule is the rule of docs/protocol.md, or the promise of docs/architecture.md, that is broken.
	Rule string `json:"rule"`
	// What is whom it is about, such as "agent agent-3" or "task fw-1/t-7".
	What string `json:"what"`
	// Wrong says what does not fit. It names what was compared, so that two looks find the same only if nothing of it
	// has changed in between.
	Wrong string `json:"wrong"`
	// Since is since when it has been so, as far as anybody has said; otherwise when it was first seen.
	Since time.Time `json:"since"`
	// Waits says that it is kept as it is until a person decides about it: nothing has gone wrong meanwhile.
	Waits bool `json:"waits"`

	// launch tells a task from an earlier one of the same ID.
	launch time.Time
}

// String returns the finding as a sentence.
func (f Finding) String() string { return fmt.Sprintf("%s %s (%s)", f.What, f.Wrong, f.Rule) }

// same says whether two looks have found the same.
func (f Finding) same(g Finding) bool {
	return f.Rule == g.Rule && f.What == g.What && f.Wrong == g.Wrong && f.launch.Equal(g.launch)
}

// Check returns everything in a look that does not fit together, sorted. Some of it may be only in flight.
func Check(look Look) []Finding {
	c := newChecker(look)
	c.masters()
	for i := range look.Agents {
		c.agent(&look.Agents[i])
	}
	c.tasks()
	c.sums()
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.Wrong, b.Wrong))
	})
	return c.found
}

// checker holds one look, by names.
type checker struct {
	look       Look
	agents     map[api.AgentID]*Agent
	frameworks map[api.FrameworkID]*Framework
	known      map[api.TaskRef]*Task         // that the leader lists
	on         map[api.AgentID][]*Task       // the same by agent
	offered    map[api.AgentID]api.Resources // sums of the open offers
	reported   map[api.TaskRef][]api.AgentID // the agents that say that they have a task that has not ended
	found      []Finding
}

func newChecker(look Look) *checker {
	c := &checker{
		look: look, agents: map[api.AgentID]*Agent{}, frameworks: map[api.FrameworkID]*Framework{}, known: map[api.TaskRef]*Task{},
		on: map[api.AgentID][]*Task{}, offered: map[api.AgentID]api.Resources{}, reported: map[api.TaskRef][]api.AgentID{},
	}
	for i := range look.Agents {
		c.agents[look.Agents[i].ID] = &look.Agents[i]
		if said := look.Agents[i].Said; said != nil {
			for _, t := range said.Tasks {
				if !t.State.Terminal() {
					c.reported[t.Ref] = append(c.reported[t.Ref], look.Agents[i].ID)
				}
			}
		}
	}
	for i := range look.Frameworks {
		c.frameworks[look.Frameworks[i].ID] = &look.Frameworks[i]
	}
	for i := range look.Tasks {
		t := &look.Tasks[i]
		c.known[t.Ref] = t
		c.on[t.Agent] = append(c.on[t.Agent], t)
	}
	for _, offer := range look.Offers {
		c.offered[offer.Agent] = c.offered[offer.Agent].Plus(offer.Resources)
	}
	return c
}

func (c *checker) add(rule, what string, since time.Time, format string, args ...any) {
	c.found = append(c.found, Finding{Rule: rule, What: what, Since: since, Wrong: fmt.Sprintf(format, args...)})
}

func (c *checker) addTask(rule string, t *Task, format string, args ...any) {
	c.add(rule, "task "+t.Ref.String(), t.Since, format, args...)
	c.found[len(c.found)-1].launch = t.Launched
}

// masters checks that one of them leads and that all of them keep the same.
func (c *checker) masters() {
	leads, hashes := "", map[uint64]Master{}
	for _, m := range c.look.Masters {
		what := "master " + m.Name
		if first := c.look.Masters[0]; m.Cluster != first.Cluster && m.Cluster != "" && first.Cluster != "" {
			c.add("R51", what, time.Time{}, "belongs to cluster %s, and master %s to %s", m.Cluster, first.Name, first.Cluster)
			continue
		}
		if m.Folder != m.Member {
			c.add("R51", what, time.Time{}, "answers from the folder %s, and the quorum counts the folder %s", m.Folder, m.Member)
		}
		if m.Why != "" {
			c.add("R51", what, time.Time{}, "is not well: %s", m.Why)
		}
		if m.Leads && leads != "" {
			c.add("promise 4", what, time.Time{}, "says that it leads, and so does master %s", leads)
		}
		if m.Leads {
			leads = m.Name
		}
		if other, is := hashes[m.Index]; is && other.Hash != m.Hash && m.Hash != "" {
			c.add("promise 5", what, time.Time{}, "keeps another registry than master %s at the same place of the log", other.Name)
		} else if m.Hash != "" {
			hashes[m.Index] = m
		}
	}
	if leads == "" && len(c.look.Masters) > 0 {
		c.add("promise 5", "the quorum", time.Time{}, "has no master that leads")
	}
}

// Names of the states and marks that the checks ask for.
const (
	running, busy        = "RUNNING", "BUSY"
	draining, drained    = "draining", "drained"
	deactivated, gone    = "deactivated", "gone"
	active, disconnected = "active", "disconnected"
)

// Here says whether the leader takes the agent to be there.
func (a *Agent) Here() bool { return a.State == running || a.State == busy }

// Oversold says whether an offer of the agent holds what is not there. Its tasks may hold more than it has, if it came
// back with less, and more revocable resources than are left unused now.
func (a *Agent) Oversold() bool {
	firm, revocable := a.Offered.Firm(), a.Offered.Revocable()
	return !firm.IsZero() && !a.Total.Plain().Contains(firm.Plus(a.Allocated.Firm()).Plain()) ||
		!revocable.IsZero() && !a.Revocable.Plain().Contains(revocable.Plus(a.Allocated.Revocable()).Plain())
}

// Gone says whether the agent was given up.
func (a *Agent) Gone() bool { return a.marked(gone) }

func (a *Agent) marked(mark string) bool { return slices.Contains(a.Marks, mark) }

func (a *Agent) what() string { return "agent " + string(a.ID) }

// agent checks what the leader says of an agent, and then what the agent says.
func (c *checker) agent(a *Agent) {
	if a.marked(drained) && !a.marked(draining) {
		c.add("R31", a.what(), a.Since, "is marked drained and does not drain")
	}
	if a.marked(drained) && len(c.on[a.ID]) > 0 {
		c.add("R31", a.what(), a.Since, "is marked drained, and %s is on it", c.on[a.ID][0].Ref)
	}
	if why := a.closed(); why != "" && !c.offered[a.ID].IsZero() {
		c.add("R30", a.what(), a.Since, "is %s, and %v of it is offered", why, c.offered[a.ID])
	}
	if a.Oversold() {
		c.add("promise 1", a.what(), time.Time{}, "has %v and lends %v; %v of it is allocated and %v offered", a.Total, a.Revocable, a.Allocated, a.Offered)
	}
	for _, v := range a.Orphaned {
		if !strings.Contains(v.Why, beingDestroyed) {
			c.add("R22", a.what(), time.Time{}, "has volume %s, which the registry does not know: %s", v.ID, v.Why)
			c.found[len(c.found)-1].Waits = true
		}
	}
	for _, task := range a.Apart {
		c.add("R40", a.what(), time.Time{}, "reports task %s, which no leader has launched there", task)
		c.found[len(c.found)-1].Waits = true
	}
	if a.Here() {
		for i := range c.look.Agents {
			if b := &c.look.Agents[i]; b.ID < a.ID && b.Here() && b.Address == a.Address && a.Address != "" {
				c.add("R7", a.what(), a.Since, "is at %s, and so is agent %s", a.Address, b.ID)
			}
		}
	}
	if a.Said != nil {
		c.said(a, a.Said)
	}
}

// beingDestroyed is in the reason of a volume whose data is being deleted.
const beingDestroyed = "being destroyed"

// closed returns why nothing of an agent may be offered; "" when it may.
func (a *Agent) closed() string {
	for _, mark := range []string{draining, deactivated, gone} {
		if a.marked(mark) {
			return mark
		}
	}
	if !a.Here() {
		return a.State
	}
	return ""
}

// said compares the leader's picture of an agent with the agent's own.
func (c *checker) said(a *Agent, said *Said) {
	if said.Agent != a.ID {
		c.add("R7", a.what(), a.Since, "is expected at %s, where agent %s answers", a.Address, cmp.Or(said.Agent, "without an ID"))
		return
	}
	if a.Here() != said.Registered {
		c.add("R30", a.what(), a.Since, "is %s, and says itself that it is %s", a.State, registered(said.Registered))
		return
	}
	if !a.Here() {
		return // nobody can tell what is on its way
	}
	if a.Gone() {
		c.add("R16", a.what(), a.Since, "is marked gone and has a session")
	}
	if own := unreserved(a.Total); !said.Resources.IsZero() && !own.Equal(said.Resources.Plain()) && a.Why == "" {
		c.add("R25", a.what(), a.Since, "is booked with %v, and has %v", own, said.Resources.Plain())
	}
	c.volumes(a, said)
	c.tasksOn(a, said)
	c.held(a, said)
}

func registered(is bool) string {
	if is {
		return "registered"
	}
	return "not registered"
}

// unreserved returns what an agent has, whoever it is reserved for.
func unreserved(total api.Resources) api.Resources { return total.Firm().Plain() }

// volumes compares the volumes of the registry with those that the agent has.
func (c *checker) volumes(a *Agent, said *Said) {
	has := map[api.VolumeID]Volume{}
	for _, v := range said.Volumes {
		has[v.ID] = v
		_, known := a.Volumes[v.ID]
		if !known && !slices.ContainsFunc(a.Orphaned, func(o OrphanedVolume) bool { return o.ID == string(v.ID) }) {
			c.add("R22", a.what(), time.Time{}, "has volume %s, of which the leader does not know", v.ID)
		}
		if v.Lost {
			c.add("R22", a.what(), time.Time{}, "has volume %s, and no folder with its data", v.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.Volumes)) {
		switch v, is := has[id]; {
		case !is:
			c.add("R22", a.what(), time.Time{}, "does not have volume %s, which is booked there", id)
		case v.Generation != a.Volumes[id]:
			c.add("R22", a.what(), time.Time{}, "has generation %d of volume %s, and generation %d is booked there", v.Generation, id, a.Volumes[id])
		}
	}
	for _, item := range a.Total.Items() {
		if _, known := a.Volumes[item.Volume]; item.Volume != "" && !known {
			c.add("R22", a.what(), time.Time{}, "is booked with volume %s, which the registry does not have", item.Volume)
		}
	}
}

// tasksOn compares the tasks that the leader lists on an agent with those that the agent has.
func (c *checker) tasksOn(a *Agent, said *Said) {
	has := map[api.TaskRef]AgentTask{}
	for _, own := range said.Tasks {
		has[own.Ref] = own
		t, what := c.known[own.Ref], "task "+own.Ref.String()
		switch {
		case own.State.Terminal() || slices.Contains(a.Apart, own.Ref.String()):
		case t == nil:
			c.add("promise 7", what, time.Time{}, "is %s on agent %s, and the leader does not know it", own.State, a.ID)
		case t.Agent != a.ID:
			c.addTask("R9", t, "is on agent %s as the leader says, and %s on agent %s", t.Agent, own.State, a.ID)
		case t.State != own.State:
			c.addTask("promise 7", t, "is %s as the leader says, and %s as agent %s says", t.State, own.State, a.ID)
		case !t.Resources.Equal(own.Resources):
			c.addTask("R25", t, "is booked with %v, and agent %s gives it %v", t.Resources, a.ID, own.Resources)
		}
	}
	for _, t := range c.on[a.ID] {
		own, is := has[t.Ref]
		switch {
		case !is:
			c.addTask("promise 7", t, "is %s on agent %s as the leader says, and the agent does not have it", t.State, a.ID)
		case own.State.Terminal() && !t.State.Terminal():
			c.addTask("promise 3", t, "is %s as the leader says, and has ended %s on agent %s", t.State, own.State, a.ID)
		}
	}
	for _, e := range said.Executors {
		if f := c.frameworks[e.Ref.Framework]; (f == nil || f.State != active && f.State != disconnected) && len(a.Apart) == 0 {
			c.add("R21", "executor "+e.Ref.String(), time.Time{}, "is on agent %s, and its framework is removed or nobody knows it", a.ID)
		}
	}
}

// held compares what the leader counts as used with what the agent's tasks and executors hold.
func (c *checker) held(a *Agent, said *Said) {
	if len(a.Apart) > 0 {
		return // what is set apart is not counted
	}
	var sum api.Resources
	for _, t := range said.Tasks {
		if !t.State.Terminal() {
			sum = sum.Plus(t.Resources)
		}
	}
	for _, e := range said.Executors {
		sum = sum.Plus(e.Resources)
	}
	if !sum.Equal(a.Allocated) {
		c.add("R25", a.what(), time.Time{}, "is booked with %v in use, and its tasks and executors hold %v", a.Allocated, sum)
	}
}

// tasks checks each task that the leader lists, beyond what its agent says of it.
func (c *checker) tasks() {
	for i := range c.look.Tasks {
		t := &c.look.Tasks[i]
		a, f := c.agents[t.Agent], c.frameworks[t.Ref.Framework]
		switch {
		case a == nil && t.Agent != "":
			c.addTask("promise 3", t, "is %s on agent %s, which nobody knows", t.State, t.Agent)
		case a != nil && a.Here() && t.State == api.TaskUnreachable:
			c.addTask("R30", t, "is UNREACHABLE, and its agent %s is %s", t.Agent, a.State)
		}
		if f == nil {
			c.addTask("R21", t, "is %s, and nobody knows its framework", t.State)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.reported), api.TaskRef.Compare) {
		if on := c.reported[ref]; len(on) > 1 {
			c.add("R9", "task "+ref.String(), time.Time{}, "is on agents %s and %s at once", on[0], on[1])
		}
	}
}

// sums checks the leader's sums against its own lists.
func (c *checker) sums() {
	for i := range c.look.Agents {
		a := &c.look.Agents[i]
		if own := c.offered[a.ID]; !own.Equal(a.Offered) {
			c.add("R25", a.what(), time.Time{}, "is booked with %v offered, and its offers hold %v", a.Offered, own)
		}
		living := 0
		for _, t := range c.on[a.ID] {
			living += t.living()
		}
		if a.Tasks != living && a.Here() {
			c.add("R25", a.what(), time.Time{}, "is booked with %d tasks, and %d are listed", a.Tasks, living)
		}
	}
	c.frameworkSums()
	c.roleSums()
}

// living counts the task, unless it has ended: an end is listed as long as the task's framework, which may be away for
// long, has not acknowledged it, and the sums leave it out.
func (t *Task) living() int {
	if t.State.Terminal() {
		return 0
	}
	return 1
}

func (c *checker) frameworkSums() {
	offers, offered, tasks := map[api.FrameworkID]int{}, map[api.FrameworkID]api.Resources{}, map[api.FrameworkID]int{}
	for _, o := range c.look.Offers {
		offers[o.Framework]++
		offered[o.Framework] = offered[o.Framework].Plus(scalars(o.Resources))
		if f := c.frameworks[o.Framework]; f == nil || f.State != active {
			c.add("R30", "offer "+string(o.ID), o.Since, "is held by framework %s, which has no session", o.Framework)
		}
	}
	for i := range c.look.Tasks {
		if t := &c.look.Tasks[i]; t.Role != "" {
			tasks[t.Ref.Framework] += t.living()
		}
	}
	for i := range c.look.Frameworks {
		f := &c.look.Frameworks[i]
		what := "framework " + string(f.ID)
		if f.Tasks != tasks[f.ID] {
			c.add("R25", what, time.Time{}, "is booked with %d tasks, and %d are listed", f.Tasks, tasks[f.ID])
		}
		if f.Offers != offers[f.ID] || !f.Offered.Equal(offered[f.ID]) {
			c.add("R25", what, time.Time{}, "is booked with %d offers of %v, and %d of %v are listed", f.Offers, f.Offered, offers[f.ID], offered[f.ID])
		}
		for _, d := range f.Demand {
			if d.Count <= 0 || !slices.Contains(f.Roles, d.Role) {
				c.add("R38", what, time.Time{}, "wants %d tasks in role %s, and is in %v", d.Count, d.Role, f.Roles)
			}
		}
	}
}

// scalars leaves ranges and sets out, as the leader does in the sums of frameworks and roles, because those of several
// agents can't be added up.
func scalars(resources api.Resources) api.Resources {
	var items []api.Resource
	for _, item := range resources.Items() {
		if len(item.Ranges) == 0 && len(item.Set) == 0 {
			items = append(items, item)
		}
	}
	return api.NewResources(items...)
}

// roleSums checks what roles hold against their frameworks and agents, and against their limits.
func (c *checker) roleSums() {
	reserved, roots := map[api.Role]api.Resources{}, api.Resources{}
	for i := range c.look.Agents {
		for _, item := range c.look.Agents[i].Total.Items() {
			for role := item.Reserved; role != "" && item.Scalar > 0; role = role.Parent() {
				reserved[role] = reserved[role].Plus(api.NewResources(item).Plain())
			}
		}
	}
	for _, r := range c.look.Roles {
		what := "role " + string(r.Role)
		if !r.Reserved.Equal(reserved[r.Role]) {
			c.add("R25", what, time.Time{}, "is booked with %v reserved, and on its agents %v is", r.Reserved, reserved[r.Role])
		}
		if over := above(r); over != "" {
			c.add("R29", what, time.Time{}, "has the limit %v; %v is allocated and %v offered", r.Limit, r.Allocated, r.Offered)
		}
		if r.Role.Parent() == "" {
			roots = roots.Plus(r.Allocated)
		}
	}
	var held api.Resources
	for i := range c.look.Frameworks {
		held = held.Plus(c.look.Frameworks[i].Allocated)
	}
	if !held.Equal(roots) && len(c.look.Roles) > 0 {
		c.add("R25", "the roles", time.Time{}, "are booked with %v in use, and their frameworks with %v", roots, held)
	}
}

// above returns which resource is offered to a role beyond its limit; "" if none is.
func above(r Role) string {
	used := r.Allocated.Plus(r.Offered).Firm().Plain()
	for _, item := range r.Limit.Items() {
		if used.Scalar(item.Name) > item.Scalar && r.Offered.Firm().Plain().Scalar(item.Name) > 0 {
			return item.Name
		}
	}
	return ""
}
