package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/registry"
)

// Conn names one stream of a scheduler or an agent; the shell counts them. 0 is none.
type Conn uint64

// RequestID names an operator's request that waits for its Reply; the shell counts them.
type RequestID uint64

// Event is what the core steps: something that happened, and when.
type Event struct {
	At   time.Time // monotonic (R23)
	Came time.Time // when it came to this master, to wait for its turn; zero = At
	What Happening
}

// Happening is one of the types below.
//
//sumtype:decl
type Happening interface{ happening() }

// What can happen to the leader.
type (
	// SchedulerOpened brings a new scheduler stream with its first call. By is who the
	// transport says it is, and in which roles it may run what.
	SchedulerOpened struct {
		Conn      Conn
		By        rights.Scope
		Subscribe protocol.Subscribe
	}
	// SchedulerCalled brings the calls that follow.
	SchedulerCalled struct {
		Conn  Conn
		Calls []protocol.NumberedCall
	}
	// SchedulerClosed says that the stream is gone, by whoever's doing. Why is for people;
	// empty: it is broken.
	SchedulerClosed struct {
		Conn Conn
		Why  string
	}

	// AgentOpened brings a new agent stream with its first call: RegisterAgent or
	// ReregisterAgent.
	AgentOpened struct {
		Conn  Conn
		First protocol.AgentCall
	}
	// AgentCalled brings the calls that follow.
	AgentCalled struct {
		Conn  Conn
		Calls []protocol.AgentCall
	}
	// AgentClosed says that the stream is gone, by whoever's doing. Why is for people;
	// empty: it is broken.
	AgentClosed struct {
		Conn Conn
		Why  string
	}

	// Committed brings commands that the quorum has committed, in the order of the
	// log, whoever proposed them. The core applies them to its own copy of the registry.
	Committed struct {
		Index    uint64
		Commands []registry.Command
	}
	// ProposalLost says that nobody knows yet what became of a command. The core asks
	// again under the same identity, or lets the next leader find out (R17). Client is
	// the command's; "" is the core's own.
	ProposalLost struct {
		Client  string
		Counter uint64
	}

	// ProposalRefused says that a command was not proposed, and never will be: it can't be
	// written, as it is too large.
	ProposalRefused struct {
		Client  string
		Counter uint64
		Err     *api.Error
	}

	// Requested brings an operator's action. By says on what whoever asks may do it.
	Requested struct {
		ID     RequestID
		Action Action
		By     rights.Scope
	}
	// Woken comes at the moment that Wake asked for.
	Woken struct{}
	// Away says that the loop itself did not run for Gap: deadlines of liveness move (R23).
	Away struct{ Gap time.Duration }
)

func (SchedulerOpened) happening() {}
func (SchedulerCalled) happening() {}
func (SchedulerClosed) happening() {}
func (AgentOpened) happening()     {}
func (AgentCalled) happening()     {}
func (AgentClosed) happening()     {}
func (Committed) happening()       {}
func (ProposalLost) happening()    {}
func (ProposalRefused) happening() {}
func (Requested) happening()       {}
func (Woken) happening()           {}
func (Away) happening()            {}

// Action is what an operator asks for. Each type stands in the file of its noun, with how it is carried out.
//
//sumtype:decl
type Action interface {
	// request answers with a Reply, at once or when the registry has. What the scope does not cover is denied.
	request(c *Core, id RequestID, by rights.Scope)
}
