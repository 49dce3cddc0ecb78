package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// ShapeAsked is the kind of task that an explanation is about.
type ShapeAsked struct {
	Shape    api.Shape
	Role     api.Role // "": the first of the framework's roles
	Together bool     // all tasks of the shape have to begin at one time
}

// ExplainShape says what keeps a framework from being offered room for a shape, whatever else it wants. inVain says that
// it is in vain to wait as the cluster is. Only the leader can do it.
func (c Cluster) ExplainShape(framework string, asked ShapeAsked, now time.Time) (explained Explanation, inVain bool, err error) {
	id, unknown := c.FindFramework("framework.explain", framework, OrItsStart)
	if unknown != nil {
		return explained, false, unknown
	}
	f, _ := c.Leader.Framework(id)
	explained.Framework = id
	if asked.Role == "" && len(f.Framework.Roles) > 0 {
		asked.Role = f.Framework.Roles[0]
	}
	why := c.tooLargeShape(f, asked.Role, asked.Shape)
	if why == "" && asked.Together {
		why = c.tooManyTogether(f, asked)
	}
	if why != "" {
		explained.Reasons = []string{why}
		return explained, true, nil
	}
	explained.Reasons = c.whyShapeWaits(f, asked, now)
	return explained, false, nil
}

// tooManyTogether says that all agents together have no room for so many tasks that have to begin at one time, even if
// they were empty; "": they have.
func (c Cluster) tooManyTogether(f Framework, asked ShapeAsked) string {
	room := c.roomFor(f, asked, func(a AgentSize) api.Resources {
		usable := a.Total.UsableBy(asked.Role)
		return usable.Plus(usable.AsRevocable())
	})
	if room >= asked.Shape.Count {
		return ""
	}
	return fmt.Sprintf("all %d have to begin together, each with %v, and the agents, even if they were empty, have room for %d", asked.Shape.Count,
		asked.Shape.Resources, room)
}

// roomFor counts for how many tasks of the shape the agents have room, if each has this much; it stops at the shape's
// count.
func (c Cluster) roomFor(f Framework, asked ShapeAsked, has func(AgentSize) api.Resources) (room int64) {
	allowed := c.Leader.Allowed(asked.Role, f.Framework.Constraint, asked.Shape.Constraint)
	places := make(map[string]int64)
	for a := range c.sizes() {
		if a.State == api.AgentTombstone || !allowed(a.ID) {
			continue
		}
		for left := has(a); room < asked.Shape.Count && c.hasPlace(asked.Shape, a.ID, places); room++ {
			_, rest, fits := left.Carve(asked.Shape.Resources.WholeVolumes(left))
			if !fits {
				break
			}
			left = rest
			for _, place := range c.placesOf(asked.Shape, a.ID) {
				places[place]++
			}
		}
	}
	return room
}

// placesOf names the places of the agent over which the shape is spread.
func (c Cluster) placesOf(shape api.Shape, id api.AgentID) []string {
	agent := c.Registry.Agents[id].Agent
	places := make([]string, len(shape.Spread))
	for i, one := range shape.Spread {
		places[i] = string(one.By) + "\x00" + one.By.Of(id, agent.Region, agent.Zone, agent.Attributes)
	}
	return places
}

// hasPlace reports whether one more task may go where the agent is.
func (c Cluster) hasPlace(shape api.Shape, id api.AgentID, places map[string]int64) bool {
	for i, place := range c.placesOf(shape, id) {
		if most := shape.Spread[i].Most; most > 0 && places[place] >= most {
			return false
		}
	}
	return true
}

// whyShapeWaits sorts the agents by what stands between them and the shape: they have room, they are full, or they could
// never hold it. Of each kind it names the nearest.
func (c Cluster) whyShapeWaits(f Framework, asked ShapeAsked, now time.Time) (reasons []string) {
	wanted := asked.Shape.Resources
	allowed := c.Leader.Allowed(asked.Role, f.Framework.Constraint, asked.Shape.Constraint)
	agents, small, barred, without, full, roomy := 0, 0, 0, 0, 0, 0
	var nearest, free api.AgentID
	var there api.Resources // what nobody uses of the nearest
	most := -1.0
	for a := range c.sizes() {
		agents++
		usable := a.Total.UsableBy(asked.Role)
		left := usable.Without(a.Used)
		whole := wanted.WholeVolumes(usable)
		_, _, large := usable.Plus(usable.AsRevocable()).Carve(whole)
		_, _, fits := left.Plus(a.Revocable).Carve(whole)
		switch {
		case a.State == api.AgentTombstone || !allowed(a.ID):
			barred++
		case wanted.LackingVolume(usable) != "":
			without++
		case !large:
			small++
		case fits:
			if roomy++; free == "" || a.ID < free {
				free = a.ID
			}
		default:
			full++
			if part := partOf(left, wanted); part > most || part == most && a.ID < nearest {
				most, nearest, there = part, a.ID, left
			}
		}
	}
	if asked.Together {
		room := c.roomFor(f, asked, func(a AgentSize) api.Resources { return a.Total.UsableBy(asked.Role).Without(a.Used).Plus(a.Revocable) })
		reasons = append(reasons, fmt.Sprintf("all %d have to begin together, and the agents have room for %d now", asked.Shape.Count, room))
	}
	if free != "" {
		reasons = append(reasons, fmt.Sprintf("%d of %d agents have room, such as %s: %s", roomy, agents, free, c.explainAgent(f, free, now).Why))
	}
	if nearest != "" {
		reason := fmt.Sprintf("%d of %d agents would have room for %v if they were empty; the nearest is %s", full, agents, wanted, nearest)
		if used := wanted.LackingVolume(there); used != "" {
			reason += fmt.Sprintf(", whose volume %s is in use", used)
		} else {
			reason += fmt.Sprintf(" with %s free", lacking(there, wanted))
		}
		reasons = append(reasons, reason)
	}
	if small > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of %d agents are too small for %v", small, agents, wanted))
	}
	if without > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of %d agents have not the volumes that it wants", without, agents))
	}
	if barred > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of %d agents are TOMBSTONE or fail the constraint %s", barred, agents,
			bothConstraints(f.Framework.Constraint, asked.Shape.Constraint)))
	}
	return reasons
}

// partOf returns the smallest part of what is wanted that there is, over all kinds.
func partOf(there, wanted api.Resources) float64 {
	part := 1.0
	for _, item := range wanted.Items() {
		if item.Scalar > 0 {
			part = min(part, float64(there.Scalar(item.Name))/float64(item.Scalar))
		}
	}
	return part
}

// lacking names what there is of each kind of which more is wanted.
func lacking(there, wanted api.Resources) string {
	var lacks []string
	for _, item := range wanted.Items() {
		if has := there.Scalar(item.Name); item.Scalar > has {
			lacks = append(lacks, item.Name+":"+has.String())
		}
	}
	return strings.Join(lacks, ";")
}
