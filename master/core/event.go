package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

// Conn is the number of a stream of a scheduler or an agent, given by the shell. 0 means none.
type Conn uint64

// RequestID is the number of an operator's request that waits for its Reply, given by the shell.
type RequestID uint64

// Event is something that happened, and when. Core.Step handles it.
type Event struct {
	At   time.Time // with a monotonic part (R23)
	Came time.Time // when it came to this master and began to wait for its turn; zero = At
	What Happening
}

// Happening is one of the types below.
//
//sumtype:decl
type Happening interface{ happening() }

// What can happen to the leader.
type (
	// SchedulerOpened brings a new stream of a scheduler with its first call. By is who the transport says the caller
	// is, and the roles in which it may run frameworks.
	SchedulerOpened struct {
		Conn      Conn
		By        rights.Scope
		Subscribe protocol.Subscribe
	}
	// SchedulerCalled brings further calls of a stream.
	SchedulerCalled struct {
		Conn  Conn
		Calls []protocol.NumberedCall
	}
	// SchedulerClosed says that the stream has ended, whichever side ended it. Why is for people; empty means that it
	// broke.
	SchedulerClosed struct {
		Conn Conn
		Why  string
	}

	// AgentOpened brings a new stream of an agent with its first call: RegisterAgent or ReregisterAgent.
	AgentOpened struct {
		Conn  Conn
		First protocol.AgentCall
	}
	// AgentCalled brings further calls of a stream.
	AgentCalled struct {
		Conn  Conn
		Calls []protocol.AgentCall
	}
	// AgentClosed says that the stream has ended, whichever side ended it. Why is for people; empty means that it
	// broke.
	AgentClosed struct {
		Conn Conn
		Why  string
	}

	// Committed brings commands that the quorum has committed, in the order of the log, whoever proposed them. The core
	// applies them to its own copy of the registry.
	Committed struct {
		Index    uint64
		Commands []registry.Command
	}
	// ProposalRefused says that a command was not proposed and never will be, because it is too large to be written.
	ProposalRefused struct {
		Client  string
		Counter uint64
		Err     *api.Error
	}

	// Requested brings an operator's action. By says on what the caller may do it.
	Requested struct {
		ID     RequestID
		Action Action
		By     rights.Scope
		Who    string // who asks, for people, such as "person ann"; "": the principal of By
	}
	// Woken comes at the time that Wake returned.
	Woken struct{}
	// Away says that the loop did not run for Gap. Deadlines that judge whether peers are alive move by it (R23).
	Away struct{ Gap time.Duration }
)

func (SchedulerOpened) happening() {}
func (SchedulerCalled) happening() {}
func (SchedulerClosed) happening() {}
func (AgentOpened) happening()     {}
func (AgentCalled) happening()     {}
func (AgentClosed) happening()     {}
func (Committed) happening()       {}
func (ProposalRefused) happening() {}
func (Requested) happening()       {}
func (Woken) happening()           {}
func (Away) happening()            {}

// Action is what an operator asks for. Each type is declared, with the code that carries it out, in the file of its
// noun.
//
//sumtype:decl
type Action interface {
	// request returns why the action is refused, as when the scope does not cover it. Otherwise it answers with a Reply, at
	// once or when the registry has answered.
	request(c *Core, id RequestID, by rights.Scope) *api.Error
}
