package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/registry"
)

// proposals are the commands on their way to the quorum, and what follows when they are answered. This room numbers
// them (R17); what follows is done by the core.
type proposals struct {
	*base
	pending map[proposalKey]proposal // outcome not known yet
	count   uint64                   // of this term
}

// proposalKey is the identity of a command (R17).
type proposalKey struct {
	client  string
	counter uint64
}

// proposal is a command on its way, and what is to be done with its result: once for each
// who has asked for it under this identity.
type proposal struct {
	command registry.Command
	follows []follows
}

// follows is what is to be done when the registry has answered a proposal, and for whom.
//
//sumtype:decl
type follows interface{ follows() }

// What can follow an answer of the registry.
type (
	// greetAgent: an agent's stream waits for its admission, or for a change of what it says of itself.
	greetAgent struct {
		link     *link
		greeting admission.Greeting
	}
	// markDrained: a draining agent is empty.
	markDrained struct{ agent *agent }
	// readmitFramework: an agent has brought a framework that the registry does not know.
	readmitFramework struct{ framework *framework }
	// openSession: a scheduler's stream waits for its framework's admission. The identity is that by which it stood in line.
	openSession struct {
		session  *session
		identity string
	}
	// endFailover: a framework's scheduler stayed away, so it is to be removed.
	endFailover struct{ framework *framework }
	// tearDown: a scheduler's call wishes that its framework is removed.
	tearDown struct {
		session *session
		call    uint64
	}
	// updateFramework: a scheduler's call changes what its framework says of itself.
	updateFramework struct {
		session *session
		call    uint64
	}
	// reserveForAccept: an accept waits for the change of what is reserved.
	reserveForAccept struct{ acceptance *acceptance }
	// reserveForOperator: an operator waits for the change of what is reserved.
	reserveForOperator struct {
		request   RequestID
		agent     api.AgentID
		action    ReserveOn
		destroyed map[api.VolumeID]api.Resource
	}
	// answerOperator: an operator waits for the word done, or for why not.
	answerOperator struct {
		request     RequestID
		op, subject string // of the error
		done        string
	}
	// answerWriter: a scheduler waits for the result of its store's write.
	answerWriter struct{ request RequestID }
)

func (greetAgent) follows()         {}
func (markDrained) follows()        {}
func (readmitFramework) follows()   {}
func (openSession) follows()        {}
func (endFailover) follows()        {}
func (tearDown) follows()           {}
func (updateFramework) follows()    {}
func (reserveForAccept) follows()   {}
func (reserveForOperator) follows() {}
func (answerOperator) follows()     {}
func (answerWriter) follows()       {}

// goOn does what follows when the registry has answered.
func (c *Core) goOn(what follows, result registry.Result) {
	switch what := what.(type) {
	case greetAgent:
		c.agents.greeted(what.link, what.greeting, result)
	case markDrained:
		what.agent.drain.proposed = false
	case readmitFramework:
		c.sessions.readmitAnswered(what.framework, result)
	case openSession:
		c.sessions.subscribeAnswered(what, result)
	case endFailover:
		c.sessions.failoverAnswered(what.framework, result)
	case tearDown:
		c.sessions.teardownAnswered(what.session, what.call, result)
	case updateFramework:
		c.sessions.updateAnswered(what.session, what.call, result)
	case reserveForAccept:
		c.operations.reserveAnswered(what.acceptance, result)
	case reserveForOperator:
		c.reservedByOperator(what, result)
	case answerOperator:
		c.operatorAnswered(what, result)
	case answerWriter:
		c.emit(Reply{ID: what.request, Answer: result, Err: result.Err})
	}
}

// propose asks the quorum for a change under the leader's own identity.
func (r *proposals) propose(change registry.Change, then ...follows) {
	r.count++
	r.proposeAs(r.config.Client, r.count, change, then...)
}

// proposeAs asks under someone's identity. The same one again joins the first; the
// outcome is told to both.
func (r *proposals) proposeAs(client string, counter uint64, change registry.Change, then ...follows) {
	key := proposalKey{client, counter}
	if first, ok := r.pending[key]; ok {
		first.follows = append(first.follows, then...)
		r.pending[key] = first
		return
	}
	command := registry.Command{Client: client, Counter: counter, At: r.now, Change: change}
	r.pending[key] = proposal{command, then}
	r.emit(Propose{Command: command})
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
	mine, asked := c.proposals.pending[key]
	delete(c.proposals.pending, key)
	overtaken := c.proposals.overtaken(command)
	result := c.registry.Apply(command)
	if result.Err == nil {
		c.applied(command.Change, result)
	}
	if asked && overtaken {
		c.proposals.propose(command.Change, mine.follows...)
		return
	}
	for _, what := range mine.follows {
		c.goOn(what, result)
	}
}

// overtaken says that a command of ours was lost once, proposed again, and a later one
// came to the log first. All masters refuse it for that; it has never happened, so it
// may be asked for under a new number.
func (r *proposals) overtaken(command registry.Command) bool {
	last, known := r.registry.Clients[command.Client]
	return command.Client == r.config.Client && known && command.Counter < last.Counter
}

// proposalLost asks again: only the same identity settles an unknown outcome.
func (r *proposals) proposalLost(event ProposalLost) {
	client := event.Client
	if client == "" {
		client = r.config.Client
	}
	if lost, ok := r.pending[proposalKey{client, event.Counter}]; ok {
		r.emit(Propose{Command: lost.command})
	}
}

// proposalRefused tells whoever waits for a command that it never came to the quorum.
func (c *Core) proposalRefused(event ProposalRefused) {
	key := proposalKey{event.Client, event.Counter}
	if refused, ok := c.proposals.pending[key]; ok {
		delete(c.proposals.pending, key)
		for _, what := range refused.follows {
			c.goOn(what, registry.Result{Err: event.Err})
		}
	}
}

// applied brings the picture in line with a change that the registry has taken.
func (c *Core) applied(change registry.Change, result registry.Result) {
	switch change := change.(type) {
	case registry.AdmitAgent:
		c.agents.agentAdmitted(result.Agent)
	case registry.UpdateAgent:
		c.inventory.agentChanged(change.Agent.ID)
	case registry.SetReserved:
		c.operations.reservationApplied(change.ID)
	case registry.SetMaster, registry.RemoveMaster:
		c.mastersAt++ // sessions are told with their next heartbeat
	case registry.MarkAgent:
		c.agents.agentMarked(change.ID)
	case registry.SetMaintenance:
		for _, id := range change.Agents {
			c.agents.maintenanceChanged(id)
		}
	case registry.BeginMaintenance:
		c.agents.maintenanceChanged(change.ID)
	case registry.RemoveAgent:
		c.agents.agentRemoved(change.ID, "removed by an operator")
	case registry.Subscribe, registry.Readmit, registry.UpdateFramework:
		c.sessions.frameworkAdmitted(result.Framework)
	case registry.RemoveFramework:
		c.sessions.frameworkRemoved(change.ID)
	case registry.SetRole:
		c.operations.limits.roleChanged(change.Role)
	case registry.Expire:
		c.agents.goneForgotten()
	case registry.TakeGrant:
		c.agents.endTickets(change.Principal)
	case registry.RevokePrincipal:
		c.agents.endTickets(change.Principal)
	case registry.BeginReceipts:
		c.receiptsBegun()
	case registry.Bootstrap, registry.RaiseEpoch, registry.RaiseFormat, registry.CheckHash, registry.PutEntry, registry.DeleteEntry,
		registry.Grant,
		registry.CreateToken, registry.UseToken, registry.RevokeToken, registry.RotateAuthority, registry.SetSecret,
		registry.RemoveSecret: // of no room
	}
}
