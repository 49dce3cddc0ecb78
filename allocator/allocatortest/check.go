package allocatortest

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
)

// check checks an offer against the ledger: it fails the test if the offer breaks a rule that every policy must keep.
// free is what the offer's agent had free before this round.
func (c *Cluster) check(o allocator.Claim, free api.Resources) {
	c.Helper()
	words := c.Words([]allocator.Claim{o})
	a, known := c.Agents[o.Agent]
	f, subscribed := c.Frameworks[o.Framework]
	switch {
	case !known || !a.Offerable:
		c.Fatalf("offered an agent that is away: %s", words)
	case !subscribed || !f.Active || !slices.Contains(f.Roles, o.Role):
		c.Fatalf("offered to a framework that is not subscribed in role %s: %s", o.Role, words)
	case f.Withheld != "":
		c.Fatalf("offered to a framework that is to be offered nothing, %s: %s", f.Withheld, words)
	case c.suppressed[key(o.Framework, o.Role)]:
		c.Fatalf("offered to a framework that suppressed: %s", words)
	case !c.meets(f.Constraint, o.Agent, o.Role):
		c.Fatalf("offered an agent that fails the constraint %s: %s", f.Constraint, words)
	case o.Resources.IsZero():
		c.Fatalf("offered nothing: %s", words)
	case o.Resources.HasRevocable() && !f.Revocable:
		c.Fatalf("offered revocable resources to a framework that does not take them: %s", words)
	case o.Task != "":
		c.Fatalf("an offer is no task: %s", words)
	case !c.Free(o.Agent).Contains(o.Resources):
		c.Fatalf("offered what is not free: %s; free is %s", words, c.Free(o.Agent))
	case !o.Resources.UsableBy(o.Role).Equal(o.Resources):
		c.Fatalf("offered what is reserved for others than %s: %s", o.Role, words)
	case c.held && c.limited(o.Role):
		c.Fatalf("offered to a role under a limit during the recovery hold: %s", words)
	}
	c.checkFilters(o, free, words)
	c.checkDemand(o, words)
	c.checkCap(f, o, words)
	c.checkLimits(o, words)
}

// Free returns what nobody holds on the agent.
func (c *Cluster) Free(id api.AgentID) api.Resources {
	free := c.Agents[id].Total
	for _, claim := range slices.Concat(c.Offers, c.Tasks) {
		if claim.Agent == id {
			free = free.Without(claim.Resources)
		}
	}
	return free
}

func (c *Cluster) limited(role api.Role) bool {
	for ; role != ""; role = role.Parent() {
		if !c.Roles[role].Limit.IsZero() {
			return true
		}
	}
	return false
}

func (c *Cluster) checkDemand(o allocator.Claim, words string) {
	c.Helper()
	shapes, stated := c.demand[key(o.Framework, o.Role)]
	if !stated {
		return
	}
	var most api.Resources
	fits := false
	for _, s := range shapes {
		if s.Count <= 0 || s.OnlyPreferred && !slices.Contains(s.Preferred, o.Agent) || !c.meets(s.Constraint, o.Agent, o.Role) {
			continue
		}
		if _, _, ok := o.Resources.Plain().Carve(s.Resources.Plain()); ok {
			fits = true
		}
		most = most.Plus(manyOf(s))
	}
	if !fits {
		c.Fatalf("offered what fits none of the stated shapes: %s", words)
	}
	if !most.Contains(o.Resources.Plain()) {
		c.Fatalf("offered more than the stated shapes want (%s): %s", most, words)
	}
	c.checkOpen(o, words)
}

// checkOpen fails if a framework's open offers in the role hold more than is left of its demand. Launched tasks have
// been subtracted from that demand already. It does not judge offers that were open when the demand was stated anew, or
// when a task met less than its offer was made for, or something else: these may have been made for what is no longer
// wanted. (R38)
func (c *Cluster) checkOpen(o allocator.Claim, words string) {
	c.Helper()
	var most api.Resources
	for _, s := range c.demand[key(o.Framework, o.Role)] {
		most = most.Plus(manyOf(s))
	}
	all, others := o.Resources.Plain(), false
	for _, open := range c.Offers {
		if open.Framework == o.Framework && open.Role == o.Role {
			all, others = all.Plus(open.Resources.Plain()), true
		}
	}
	if !others {
		delete(c.restated, key(o.Framework, o.Role))
	}
	if !c.restated[key(o.Framework, o.Role)] && !most.Contains(all) {
		c.Fatalf("%s is open now, more than is left of what was stated (%s), with %s", all, most, words)
	}
}

// manyOf returns the plain resources that all tasks of the shape ask for together.
func manyOf(s api.Shape) (sum api.Resources) {
	for _, item := range s.Resources.Plain().Items() {
		item.Scalar *= api.Milli(s.Count)
		sum = sum.Plus(api.NewResources(item))
	}
	return sum
}

// meets reports whether the agent meets the constraint. No agent meets a constraint that does not compile.
func (c *Cluster) meets(expr string, agent api.AgentID, role api.Role) bool {
	if expr == "" {
		return true
	}
	program, known := c.compiled[expr]
	if !known {
		program, _ = constraint.Compile(expr)
		c.compiled[expr] = program
	}
	if program == nil {
		return false
	}
	a := c.Agents[agent]
	holds, err := program.Holds(constraint.Agent{
		Attributes: a.Attributes, Hostname: a.Hostname, Region: a.Region, Zone: a.Zone, ID: string(a.ID), Role: string(role),
	})
	return holds && err == nil
}

func (c *Cluster) checkCap(f allocator.Framework, o allocator.Claim, words string) {
	c.Helper()
	for _, item := range f.MaxOffer.Items() {
		held := amount(o.Resources, item.Name, func(l api.Label) bool { return l.Revocable == item.Revocable })
		if held > size(item) {
			c.Fatalf("offered more than the framework's offers may hold (%s): %s", f.MaxOffer, words)
		}
	}
}

// checkLimits fails if the offer, with what its role and the roles above hold and have reserved, passes one of their
// limits.
func (c *Cluster) checkLimits(o allocator.Claim, words string) {
	c.Helper()
	for role := o.Role; role != ""; role = role.Parent() {
		for _, limit := range c.Roles[role].Limit.Items() {
			used, more := c.Used(role, limit.Name), amount(o.Resources, limit.Name, func(l api.Label) bool {
				return !l.Revocable && (l.Reserved == "" || !l.Reserved.Within(role))
			})
			if more > 0 && used+more > size(limit) {
				c.Fatalf("offered beyond the limit of role %s, %s of which %d are used: %s", role, limit.Label, used, words)
			}
		}
	}
}

// Used returns how much of a resource the role and the roles below it hold or have reserved.
func (c *Cluster) Used(role api.Role, name string) int64 {
	var used int64
	for _, claim := range slices.Concat(c.Offers, c.Tasks) {
		if claim.Role.Within(role) {
			used += amount(claim.Resources, name, func(l api.Label) bool {
				return !l.Revocable && (l.Reserved == "" || !l.Reserved.Within(role))
			})
		}
	}
	for _, a := range c.Agents { // order: irrelevant because it is a sum
		used += amount(a.Total, name, func(l api.Label) bool { return l.Reserved != "" && l.Reserved.Within(role) })
	}
	return used
}

func amount(r api.Resources, name string, keep func(api.Label) bool) int64 {
	var sum int64
	for _, item := range r.Items() {
		if item.Name == name && keep(item.Label) {
			sum += size(item)
		}
	}
	return sum
}

func size(item api.Resource) int64 {
	if item.Scalar != 0 {
		return int64(item.Scalar)
	}
	return 1000 * int64(item.Ranges.Len()+uint64(len(item.Set)))
}

// spare removes tasks that are no longer asked back from the inverse offers that named them.
func (c *Cluster) spare(spared []allocator.Claim) {
	c.Helper()
	for _, claim := range spared {
		before := len(c.Spared)
		for i := range c.Inverse {
			c.Inverse[i].Victims = slices.DeleteFunc(c.Inverse[i].Victims, func(v allocator.Claim) bool {
				is := v.Task == claim.Task && v.Framework == claim.Framework
				if is {
					c.Spared = append(c.Spared, v)
				}
				return is
			})
		}
		if len(c.Spared) == before {
			c.Fatalf("spared %s of %s, which was not asked back", claim.Task, claim.Framework)
		}
	}
}

// checkInverse fails unless the inverse offer has victims, which all run on its agent and are asked back only once.
func (c *Cluster) checkInverse(inverse allocator.Inverse) {
	c.Helper()
	if len(inverse.Victims) == 0 {
		c.Fatalf("an inverse offer without victims for %s", inverse.For)
	}
	for _, victim := range inverse.Victims {
		running := slices.ContainsFunc(c.Tasks, func(t allocator.Claim) bool {
			return t.Task == victim.Task && t.Framework == victim.Framework && t.Agent == inverse.Agent
		})
		if !running {
			c.Fatalf("asked %s of %s back, which does not run on %s", victim.Task, victim.Framework, inverse.Agent)
		}
		for _, other := range c.Inverse {
			for _, before := range other.Victims {
				if before.Task == victim.Task {
					c.Fatalf("asked %s back twice", victim.Task)
				}
			}
		}
	}
}
