package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// explainedAgentsMax bounds an explanation of all agents.
const explainedAgentsMax = 100

// Explain says why a framework (ID, unique prefix or name) is not offered more, and what
// became of its latest offers; with an agent (ID, unique prefix or hostname) only about
// that one.
func (c *Core) Explain(framework, agent string, now time.Time) (ExplainView, error) {
	fw, err := c.findFramework("framework.explain", framework, orItsStart)
	if err != nil {
		return ExplainView{}, err
	}
	view := ExplainView{Framework: fw.id, Reasons: c.explainFramework(fw, now)}
	if agent != "" {
		a, err := c.findAgent("framework.explain", agent, orItsStart)
		if err != nil {
			return ExplainView{}, err
		}
		view.Agents = []ExplainedAgent{c.explainAgent(fw, a, now)}
		view.Decisions = fw.explainDecisions(a.id)
		return view, nil
	}
	ids := slices.SortedFunc(maps.Keys(c.agents), func(a, b api.AgentID) int { return compareNatural(string(a), string(b)) })
	for _, id := range ids[:min(len(ids), explainedAgentsMax)] {
		view.Agents = append(view.Agents, c.explainAgent(fw, c.agents[id], now))
	}
	view.Decisions = fw.explainDecisions("")
	return view, nil
}

// explainFramework is about the framework as a whole: what the core knows, then what
// the policy says.
func (c *Core) explainFramework(fw *framework, now time.Time) []string {
	var reasons []string
	switch {
	case fw.removed:
		return []string{fmt.Sprintf("%s was removed: %s", fw.id, fw.why)}
	case fw.session == nil:
		left := words.Span(fw.failover.at.Sub(now))
		reasons = append(reasons, fmt.Sprintf("%s is not subscribed: %s; it is removed in %s", fw.id, fw.why, left))
	}
	reasons = append(reasons, c.tooLarge(fw)...)
	if c.holding() && c.limited(fw) {
		reasons = append(reasons, fmt.Sprintf("the leader is new: roles under a limit wait for the return of %s, at most %s",
			plural(len(c.awaited), "agent"), words.Span(c.hold.at.Sub(now))))
	}
	for _, reason := range c.policy.Explain(fw.id, "", now).Reasons {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// limited says whether a role of the framework, or one above it, is under a limit.
func (c *Core) limited(fw *framework) bool {
	for _, role := range fw.info.Roles {
		limited := false
		upwards(role, func(r api.Role) { limited = limited || !c.registry.Roles[r].Limit.IsZero() })
		if limited {
			return true
		}
	}
	return false
}

// tooLarge names the demands that no agent could meet if it were empty: waiting for
// them is in vain.
func (c *Core) tooLarge(fw *framework) []string {
	var reasons []string
	for _, role := range sortedKeys(fw.demand) {
		for _, shape := range fw.demand[role] {
			if reason := c.tooLargeShape(fw, role, shape); reason != "" && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}

func (c *Core) tooLargeShape(fw *framework, role api.Role, shape api.Shape) string {
	allowed := c.compileAll(fw.info.Constraint, shape.Constraint)
	var largest *agent
	for _, id := range sortedKeys(c.agents) {
		a := c.agents[id]
		if a.dead() || shape.OnlyPreferred && !slices.Contains(shape.Preferred, id) || !allowed.hold(role, a) {
			continue
		}
		usable := a.total.UsableBy(role)
		if _, _, fits := usable.Plus(usable.AsRevocable()).Carve(shape.Resources); fits {
			return "" // as revocable there may be up to all of it
		}
		if largest == nil || larger(usable, largest.total.UsableBy(role), shape.Resources) {
			largest = a
		}
	}
	switch {
	case len(c.agents) == 0:
		return "there is no agent yet"
	case largest == nil && shape.OnlyPreferred:
		return fmt.Sprintf("%v is wanted only on %s, and none of these is there, up and within the constraints", shape.Resources, someOf(shape.Preferred))
	case largest == nil:
		return fmt.Sprintf("no agent may be used for %v: none that is not TOMBSTONE meets the constraints", shape.Resources)
	}
	return fmt.Sprintf("no agent is large enough for %v: the largest is %s with %v", shape.Resources, largest.id, largest.total.UsableBy(role))
}

// someOf lists the first few.
func someOf(ids []api.AgentID) string {
	const most = 5
	var words []string
	for _, id := range ids[:min(len(ids), most)] {
		words = append(words, string(id))
	}
	if len(ids) > most {
		words = append(words, fmt.Sprintf("%d more", len(ids)-most))
	}
	return strings.Join(words, ", ")
}

// larger compares by how much of the wanted shape fits, kind by kind.
func larger(a, b, wanted api.Resources) bool {
	for _, item := range wanted.Items() {
		x, y := min(a.Scalar(item.Name), item.Scalar), min(b.Scalar(item.Name), item.Scalar)
		if x != y {
			return x > y
		}
	}
	return a.Scalar("cpus") > b.Scalar("cpus")
}

// programs are constraints that must all be true of an agent.
type programs []*constraint.Program

// compileAll compiles what is not empty; the expressions were checked when they came.
func (c *Core) compileAll(expressions ...string) programs {
	var all programs
	for _, expression := range expressions {
		if expression == "" {
			continue
		}
		if program, err := c.config.Compile(expression); err == nil {
			all = append(all, program)
		}
	}
	return all
}

func (p programs) hold(role api.Role, a *agent) bool {
	seen := constraint.Agent{Attributes: a.info.Attributes, Hostname: a.info.Hostname,
		Region: a.info.Region, Zone: a.info.Zone, ID: string(a.id), Role: string(role)}
	for _, program := range p {
		if yes, err := program.Holds(seen); !yes || err != nil {
			return false
		}
	}
	return true
}

// explainAgent says why the framework is (not) offered the agent.
func (c *Core) explainAgent(fw *framework, a *agent, now time.Time) ExplainedAgent {
	explained := ExplainedAgent{Agent: a.id, Hostname: a.info.Hostname}
	switch offer := a.offerTo(fw); {
	case a.withheld != "":
		explained.Why = "not offered: " + a.withheld
	case offer != nil:
		explained.Why = fmt.Sprintf("offered to it: %s holds %v until %s from now", offer.id, offer.resources, words.Span(offer.expires.Sub(now)))
	default:
		explained.Why = strings.Join(c.policy.Explain(fw.id, a.id, now).Reasons, "; ") + c.keptWords(fw, a, now)
	}
	return explained
}

// offerTo finds an open offer of the agent to the framework.
func (a *agent) offerTo(fw *framework) *offer {
	for _, o := range sortedOffers(a.offers) {
		if o.framework == fw {
			return o
		}
	}
	return nil
}
