package allocatortest

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// explained fails if there is no reason why the framework is not offered the agent, or if the ledger knows another one.
func (h *history) explained(id api.FrameworkID, agent api.AgentID) {
	why := h.Reasons(id, agent)
	f, known := h.Frameworks[id]
	a, there := h.Agents[agent]
	want := ""
	switch {
	case why == "":
		h.Fatalf("no reason why %s is not offered %q", id, agent)
	case strings.Contains(why, "the next allocation offers"):
		h.Fatalf("%s could be offered %q and was not: %s", id, agent, why)
	case !known:
		want = "is not known"
	case !f.Active:
		want = "is not subscribed"
	case agent != "" && !there:
		want = "is not known"
	case f.Withheld != "":
		want = "is offered nothing more for now: " + f.Withheld
	case !slices.ContainsFunc(f.Roles, func(r api.Role) bool { return !h.suppressed[key(id, r)] }):
		want = "suppressed offers in role"
	case agent != "" && !a.Offerable && h.open(f):
		want = "is not offered: draining"
	case agent != "" && f.Constraint == `zone == "z1"` && a.Zone != "z1" && h.open(f):
		want = "fails the constraint"
	}
	if want == "" && agent != "" && h.simple(f) && !a.Total.HasRevocable() {
		want = h.trueReason(f, f.Roles[0], agent)
	}
	if !strings.Contains(why, want) {
		h.Fatalf("%s on %q: explained by %q; the reason is %q", id, agent, why, want)
	}
}

// simple reports whether the ledger alone can tell why the framework is offered nothing.
func (h *history) simple(f allocator.Framework) bool {
	if len(f.Roles) != 1 || f.Revocable || f.Constraint != "" || !f.MaxOffer.IsZero() || !f.MinOffer.IsZero() || len(h.Inverse) > 0 {
		return false
	}
	for _, r := range h.Roles { // order: irrelevant because one is enough
		if !r.Guarantee.IsZero() {
			return false
		}
	}
	return true
}

// trueReason returns the text that the explanation must contain according to the ledger; "" if several reasons are
// possible.
func (h *history) trueReason(f allocator.Framework, role api.Role, agent api.AgentID) string {
	shapes, stated := h.demand[key(f.ID, role)]
	free := h.Free(agent).UsableBy(role).Filter(func(l api.Label) bool { return !l.Revocable })
	plain := free.Filter(func(l api.Label) bool { return l.Reserved == "" })
	switch {
	case stated && len(shapes) == 0:
		return "wants nothing more in role " + string(role)
	case h.held && h.limited(role) && !(stated && h.offered(f.ID, role)): // else its demand may be met
		return "waits for the agents to come back"
	case stated && (len(shapes) > 1 || shapes[0].Constraint != "" || shapes[0].OnlyPreferred || shapes[0].Resources.HasRevocable() || h.offered(f.ID, role)):
		return ""
	case !h.Agents[agent].Offerable:
		return "is not offered: draining"
	case free.IsZero() && h.Free(agent).IsZero() && h.holds(agent):
		return "has nothing free for role " + string(role)
	case free.IsZero():
		return ""
	case h.atLimit(role) && plain.Equal(free):
		return "its limit of"
	case h.limited(role):
		return ""
	case stated:
		if _, _, fits := free.Carve(shapes[0].Resources); !fits {
			return "wants " + shapes[0].Resources.String()
		}
		return "filtered " + string(agent)
	case free.Scalar("cpus") < 10 && free.Scalar("mem") < 32_000:
		return "less than is worth offering"
	}
	return "filtered " + string(agent)
}

func (c *Cluster) offered(id api.FrameworkID, role api.Role) bool {
	return slices.ContainsFunc(c.Offers, func(o allocator.Claim) bool { return o.Framework == id && o.Role == role })
}

// atLimit reports whether the role or a role above it has used up its limit of cpus or mem.
func (h *history) atLimit(role api.Role) bool {
	for ; role != ""; role = role.Parent() {
		for _, limit := range h.Roles[role].Limit.Items() {
			if (limit.Name == "cpus" || limit.Name == "mem") && h.Used(role, limit.Name) >= size(limit) {
				return true
			}
		}
	}
	return false
}

// open reports whether in none of its roles the framework has suppressed offers, states a demand or is held.
func (h *history) open(f allocator.Framework) bool {
	return !slices.ContainsFunc(f.Roles, func(r api.Role) bool {
		_, stated := h.demand[key(f.ID, r)]
		return h.suppressed[key(f.ID, r)] || stated || h.held && h.limited(r)
	})
}
