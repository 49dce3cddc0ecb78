package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// explainedAgentsMax bounds the agents in an explanation.
const explainedAgentsMax = 100

// Explanation answers why a framework is not offered more, for people.
type Explanation struct {
	Framework api.FrameworkID
	Reasons   []string
	Agents    []ExplainedAgent // the first 100, or the one that was asked about
	Decisions []Decision       // the latest, newest last
}

// ExplainedAgent says why a framework is (not) offered an agent.
type ExplainedAgent struct {
	Agent    api.AgentID
	Hostname string
	Why      string
}

// Explain says why a framework (ID, unique prefix or name) is not offered more, and what became of its latest offers.
// With an agent (ID, unique prefix or hostname) it is only about that one. Only the leader can do it.
func (c Cluster) Explain(framework, agent string, now time.Time) (Explanation, error) {
	id, err := c.FindFramework("framework.explain", framework, OrItsStart)
	if err != nil {
		return Explanation{}, err
	}
	var agents []api.AgentID
	if agent != "" {
		only, err := c.FindAgent("framework.explain", agent, OrItsStart)
		if err != nil {
			return Explanation{}, err
		}
		agents = []api.AgentID{only}
	} else {
		agents = c.firstAgents()
	}
	f, _ := c.Leader.Framework(id)
	explained := Explanation{Framework: id, Reasons: c.explainFramework(f, now), Decisions: c.Leader.Decisions(id)}
	for _, one := range agents {
		explained.Agents = append(explained.Agents, c.explainAgent(f, one, now))
	}
	if agent != "" {
		explained.Decisions = slices.DeleteFunc(explained.Decisions, func(d Decision) bool { return d.Agent != agents[0] })
	}
	return explained, nil
}

// firstAgents returns the agents that an explanation of all names.
func (c Cluster) firstAgents() []api.AgentID {
	list := newRows[api.AgentID](Query{Limit: explainedAgentsMax})
	for a := range c.agents() {
		list.add(string(a.ID), a.ID)
	}
	return pageOf(list, func(id api.AgentID) api.AgentID { return id }).Items
}

// explainFramework is about the framework as a whole: first what the leader knows, then what the policy says.
func (c Cluster) explainFramework(f Framework, now time.Time) []string {
	id := f.Framework.ID
	var reasons []string
	switch f.State {
	case Removed:
		return []string{fmt.Sprintf("%s was removed: %s", id, f.Why)}
	case Disconnected:
		left := words.Span(f.FailoverEnds.Sub(now))
		reasons = append(reasons, fmt.Sprintf("%s is not subscribed: %s; it is removed in %s", id, f.Why, left))
	}
	reasons = append(reasons, c.tooLarge(f)...)
	if reason := c.declinesItsDemand(f); reason != "" {
		reasons = append(reasons, reason)
	}
	if hold, on := c.Leader.Hold(); on && c.limited(f.Framework.Roles) {
		reasons = append(reasons, fmt.Sprintf("the leader is new: roles under a limit wait for the return of %s, at most %s",
			words.Count(hold.Agents, "agent"), words.Span(hold.Until.Sub(now))))
	}
	for _, reason := range c.Leader.Reasons(id, "", now) {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// limited reports whether one of the roles, or a role above it, is under a limit.
func (c Cluster) limited(roles []api.Role) bool {
	for _, role := range roles {
		for ; role != ""; role = role.Parent() {
			if !c.Registry.Roles[role].Limit.IsZero() {
				return true
			}
		}
	}
	return false
}

// tooLarge names the demands that no agent could meet even if it were empty, so that waiting for them is in vain.
func (c Cluster) tooLarge(f Framework) []string {
	var reasons []string
	for _, demand := range f.Demand {
		for _, shape := range demand.Shapes {
			if reason := c.tooLargeShape(f, demand.Role, shape); reason != "" && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}

// declinesMin is how many offers in a row a framework declines before an explanation says so.
const declinesMin = 3

// declinesItsDemand says that the framework's latest offers held all that it asks for, and were declined. Then it most
// likely asks for less than it needs. "": it is not so.
func (c Cluster) declinesItsDemand(f Framework) string {
	declined, shape := 0, api.Shape{}
	for _, d := range slices.Backward(c.Leader.Decisions(f.Framework.ID)) {
		held, is := heldShape(f, d)
		if d.Outcome != Declined || !is {
			break
		}
		declined, shape = declined+1, held
	}
	if declined < declinesMin {
		return ""
	}
	return fmt.Sprintf("%s has declined its latest %d offers, though each held %v, for which it asks: its demand may leave out something that its "+
		"tasks need too, such as the resources of their executor", f.Framework.ID, declined, shape.Resources)
}

// heldShape returns a shape of the framework's demand that the offer held, if there is one.
func heldShape(f Framework, d Decision) (held api.Shape, is bool) {
	for _, demand := range f.Demand {
		for _, shape := range demand.Shapes {
			if _, _, fits := d.Resources.UsableBy(d.Role).Carve(shape.Resources.WholeVolumes(d.Resources)); fits && demand.Role == d.Role {
				return shape, true
			}
		}
	}
	return held, false
}

func (c Cluster) tooLargeShape(f Framework, role api.Role, shape api.Shape) string {
	allowed := c.Leader.Allowed(role, f.Framework.Constraint, shape.Constraint)
	all, up := 0, 0
	var largest AgentSize
	var lacking api.VolumeID
	for a := range c.sizes() {
		all++
		if a.State == api.AgentTombstone {
			continue
		}
		up++
		if shape.OnlyPreferred && !slices.Contains(shape.Preferred, a.ID) || !allowed(a.ID) {
			continue
		}
		usable := a.Total.UsableBy(role)
		if _, _, fits := usable.Plus(usable.AsRevocable()).Carve(shape.Resources.WholeVolumes(usable)); fits {
			return "" // all of it may become available as revocable
		}
		if lacking = shape.Resources.LackingVolume(usable); lacking != "" {
			continue
		}
		if largest.ID == "" || larger(a, largest, role, shape.Resources) {
			largest = a
		}
	}
	switch {
	case all == 0:
		return "there is no agent yet"
	case largest.ID == "" && shape.OnlyPreferred:
		return fmt.Sprintf("%v is wanted only on %s, and none of these is there, up and within the constraints", shape.Resources, someOf(shape.Preferred))
	case up == 0:
		return "every agent is TOMBSTONE"
	case largest.ID == "" && lacking != "":
		return fmt.Sprintf("no agent that is up has a volume %s that role %s may use", lacking, role)
	case largest.ID == "":
		return "no agent that is up meets the constraint " + bothConstraints(f.Framework.Constraint, shape.Constraint)
	}
	return fmt.Sprintf("no agent is large enough for %v: the largest is %s with %v", shape.Resources, largest.ID, largest.Total.UsableBy(role))
}

// bothConstraints returns both constraints as one expression.
func bothConstraints(framework, shape string) string {
	switch {
	case framework == "":
		return shape
	case shape == "" || shape == framework:
		return framework
	}
	return "(" + framework + ") && (" + shape + ")"
}

// someOf lists the first few IDs.
func someOf(ids []api.AgentID) string {
	const most = 5
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, string(id))
	}
	if len(ids) > most {
		names = append(names, fmt.Sprintf("%d more", len(ids)-most))
	}
	return strings.Join(names, ", ")
}

// larger compares agents by how much of the wanted shape fits, kind by kind. If they are equal, the one with the lower
// ID counts as larger.
func larger(a, b AgentSize, role api.Role, wanted api.Resources) bool {
	ours, theirs := a.Total.UsableBy(role), b.Total.UsableBy(role)
	for _, item := range wanted.Items() {
		x, y := min(ours.Scalar(item.Name), item.Scalar), min(theirs.Scalar(item.Name), item.Scalar)
		if x != y {
			return x > y
		}
	}
	if x, y := ours.Scalar("cpus"), theirs.Scalar("cpus"); x != y {
		return x > y
	}
	return a.ID < b.ID
}

// explainAgent says why the framework is (not) offered the agent.
func (c Cluster) explainAgent(f Framework, agent api.AgentID, now time.Time) ExplainedAgent {
	id := f.Framework.ID
	explained := ExplainedAgent{Agent: agent, Hostname: c.Registry.Agents[agent].Agent.Hostname}
	open := c.Leader.OffersOf(agent)
	own := slices.IndexFunc(open, func(o Offer) bool { return o.Offer.Framework == id })
	switch withheld := c.Leader.Withheld(agent); {
	case withheld != "":
		explained.Why = "not offered: " + withheld
	case own >= 0:
		o := open[own]
		explained.Why = fmt.Sprintf("offered to it: %s holds %v until %s from now", o.Offer.ID, o.Offer.Resources, words.Span(o.Expires.Sub(now)))
	default:
		explained.Why = strings.Join(c.Leader.Reasons(id, agent, now), "; ") + keptWords(f, open, now)
	}
	return explained
}

// keptNamedMax bounds the kept offers of an agent that an explanation names.
const keptNamedMax = 3

// keptWords names the open offers of an agent that other frameworks keep. (Protocol rule R42.)
func keptWords(f Framework, open []Offer, now time.Time) string {
	text, named := "", 0
	for _, o := range open {
		held := now.Sub(o.Since)
		if o.Offer.Framework == f.Framework.ID || held < allocator.OfferStands || named == keptNamedMax {
			continue
		}
		named++
		text += fmt.Sprintf("; %s of %s holds %v since %s", o.Offer.ID, o.Offer.Framework, o.Offer.Resources, words.Span(held))
	}
	if text != "" && len(f.Demand) == 0 {
		text += ", which is asked back only for a demand that is stated"
	}
	return text
}
