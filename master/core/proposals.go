package core

import "github.com/tenderhq/tender/master/registry"

// proposalKey is the identity of a command (R17).
type proposalKey struct {
	client  string
	counter uint64
}

// proposal is a command on its way, and what is to be done with its result.
type proposal struct {
	command registry.Command
	done    func(registry.Result)
}

// propose asks the quorum for a change under the leader's own identity.
func (c *Core) propose(change registry.Change, done func(registry.Result)) {
	c.proposals++
	c.proposeAs(c.config.Client, c.proposals, change, done)
}

// proposeAs asks under someone's identity. The same one again joins the first; the
// outcome is told to both.
func (c *Core) proposeAs(client string, counter uint64, change registry.Change, done func(registry.Result)) {
	key := proposalKey{client, counter}
	if first, ok := c.pending[key]; ok {
		before := first.done
		first.done = func(result registry.Result) {
			before(result)
			done(result)
		}
		return
	}
	command := registry.Command{Client: client, Counter: counter, At: c.now, Change: change}
	c.pending[key] = &proposal{command, done}
	c.emit(Propose{Command: command})
}

// committed applies what the quorum has committed, whoever asked for it.
func (c *Core) committed(event Committed) {
	if event.Index != 0 && event.Index <= c.registry.Index {
		return // the registry that New was given knew it
	}
	for _, command := range event.Commands {
		c.applyCommand(command)
	}
	c.registry.Index = max(c.registry.Index, event.Index)
}

func (c *Core) applyCommand(command registry.Command) {
	key := proposalKey{command.Client, command.Counter}
	mine := c.pending[key]
	delete(c.pending, key)
	overtaken := c.overtaken(command)
	result := c.registry.Apply(command)
	if result.Err == nil {
		c.applied(command.Change, result)
	}
	switch {
	case mine == nil:
	case overtaken:
		c.propose(command.Change, mine.done)
	default:
		mine.done(result)
	}
}

// overtaken says that a command of ours was lost once, proposed again, and a later one
// came to the log first. All masters refuse it for that; it has never happened, so it
// may be asked for under a new number.
func (c *Core) overtaken(command registry.Command) bool {
	last, known := c.registry.Clients[command.Client]
	return command.Client == c.config.Client && known && command.Counter < last.Counter
}

// proposalLost asks again: only the same identity settles an unknown outcome.
func (c *Core) proposalLost(event ProposalLost) {
	client := event.Client
	if client == "" {
		client = c.config.Client
	}
	if lost, ok := c.pending[proposalKey{client, event.Counter}]; ok {
		c.emit(Propose{Command: lost.command})
	}
}

// proposalRefused tells whoever waits for a command that it never came to the quorum.
func (c *Core) proposalRefused(event ProposalRefused) {
	key := proposalKey{event.Client, event.Counter}
	if refused, ok := c.pending[key]; ok {
		delete(c.pending, key)
		refused.done(registry.Result{Err: event.Err})
	}
}

// applied brings the picture in line with a change that the registry has taken.
func (c *Core) applied(change registry.Change, result registry.Result) {
	switch change := change.(type) {
	case registry.AdmitAgent:
		c.agentAdmitted(result.Agent)
	case registry.UpdateAgent:
		c.agentChanged(change.Agent.ID)
	case registry.SetReserved:
		c.reservationApplied(change.ID)
	case registry.SetMaster, registry.RemoveMaster:
		c.mastersAt++ // sessions are told with their next heartbeat
	case registry.MarkAgent:
		c.agentMarked(change.ID)
	case registry.SetMaintenance:
		for _, id := range change.Agents {
			c.maintenanceChanged(id)
		}
	case registry.BeginMaintenance:
		c.maintenanceChanged(change.ID)
	case registry.RemoveAgent:
		c.agentRemoved(change.ID, "removed by an operator")
	case registry.Subscribe, registry.Readmit, registry.UpdateFramework:
		c.frameworkAdmitted(result.Framework)
	case registry.RemoveFramework:
		c.frameworkRemoved(change.ID)
	case registry.SetRole:
		c.roleChanged(change.Role)
	case registry.Expire:
		c.goneForgotten()
	}
}
