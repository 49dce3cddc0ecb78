package core

import (
	"errors"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/registry"
)

// ReserveOn has an operator reserve resources of an agent for a role, make a volume, or
// undo either: what frameworks do by accepts (R26).
type ReserveOn struct {
	Agent     string // whole ID or whole hostname
	Role      api.Role
	Operation api.Operation // any kind but OpLaunch
}

// request converts what is free on the agent once its offers are rescinded.
// Until the registry has answered the agent is not offered, so that nobody takes
// resources whose label is about to change.
func (action ReserveOn) request(c *Core, id RequestID, by rights.Scope) {
	const op = "agent.reserve"
	a, err := c.findAgent(op, action.Agent)
	if err != nil {
		c.emit(Reply{ID: id, Err: err})
		return
	}
	if object := (rights.Object{Agent: a.id, Hostname: a.info.Hostname, Role: action.Role}); !by.Covers(object) {
		c.deny(id, "reserve", by, object)
		return
	}
	refuse := func(kind api.Kind, err error) { c.emit(Reply{ID: id, Err: api.E(op, kind, a.id, err)}) }
	switch {
	case action.Role.Check() != nil:
		refuse(api.Invalid, action.Role.Check())
		return
	case !a.phase.Reported():
		refuse(api.Unavailable, fmt.Errorf("the agent is %s: what is free on it is not known", a.state))
		return
	case a.reserving || len(a.accepts) > 0:
		refuse(api.Unavailable, errors.New("what is reserved on the agent is being changed at this moment; try again"))
		return
	}
	if answer, err := c.operations.volumes.orphanRequested(a, action); err != nil {
		refuse(api.Invalid, err)
		return
	} else if answer != "" {
		c.emit(Reply{ID: id, Answer: answer})
		return
	}
	saw := c.registry.Agents[a.id].Reserved
	after := reserving.New(action.Role, a.Total.Without(a.Used), saw, a.orphans)
	if err := after.Apply(action.Operation); err != nil {
		refuse(api.Invalid, err)
		return
	}
	c.offers.rescindAll(a.offers, "an operator changes what is reserved")
	a.reserving = true
	c.agents.standing.restate(a)
	change := registry.SetReserved{ID: a.id, Saw: saw, Reserved: after.Reserved}
	c.proposals.propose(change, reserveForOperator{id, a.id, action, after.Destroyed})
}

// reservedByOperator goes on when the registry has answered.
func (c *Core) reservedByOperator(r reserveForOperator, result registry.Result) {
	if a := c.agentByID[r.agent]; a != nil {
		if result.Err == nil {
			c.volumeByOperator(a, r.action, r.destroyed)
		}
		a.reserving = false
		c.agents.standing.restate(a)
	}
	if result.Err != nil {
		c.emit(Reply{ID: r.request, Err: api.E("agent.reserve", result.Err.Kind, r.agent, result.Err.Err)})
		return
	}
	c.emit(Reply{ID: r.request, Answer: fmt.Sprintf("agent %s: %s for role %s is done", r.agent, operationText(r.action.Operation), r.action.Role)})
}

func operationText(operation api.Operation) string {
	switch operation.Kind {
	case api.OpCreate:
		return fmt.Sprintf("create volume %s of %v MB", operation.Volume, operation.Size)
	case api.OpDestroy:
		return fmt.Sprintf("destroy volume %s", operation.Volume)
	}
	return fmt.Sprintf("%s %v", operation.Kind, operation.Resources)
}

// volumeByOperator tells the agent, as an accept would.
func (c *Core) volumeByOperator(a *agent, action ReserveOn, destroyed map[api.VolumeID]api.Resource) {
	operation := action.Operation
	switch operation.Kind {
	case api.OpCreate:
		label := api.Label{Name: "disk", Reserved: action.Role, Dynamic: true, Volume: operation.Volume}
		c.tellAgent(a, protocol.CreateVolume{Volume: api.Resource{Label: label, Scalar: operation.Size}})
	case api.OpDestroy:
		c.operations.volumes.destroyVolume(a, destroyed[operation.Volume])
	}
	c.info("operation done", field("operation", operation.Kind.String()), field("agent", a.id), field("role", action.Role),
		field("by", "an operator"))
}
