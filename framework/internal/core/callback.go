package core

import "github.com/tenderhq/tender/api"

// Callback is an effect: a call of the user's code, one of the types below. The shell makes them one after the other,
// in order; Called follows for each, in the same order.
//
//sumtype:decl
type Callback interface {
	Effect
	// Name is the method's, or what the Client's was that asked for it.
	Name() string
	// Always says that it is also made between sessions. Others are skipped when their session has ended.
	Always() bool
}

// The callbacks.
type (
	// CallSubscribed says that a session has begun. Nothing is offered before it has returned.
	CallSubscribed struct{ session uint64 }
	// CallSettled says that the states of all tasks that the leader knows were told.
	CallSettled struct{}
	// CallOffers asks what to do with offers. Number counts these calls.
	CallOffers struct {
		Number uint64
		Offers []api.Offer
	}
	// CallUpdate tells a step in a task's life.
	CallUpdate struct {
		Status api.Status
		task   taskRef
	}
	// CallRescinded tells of offers that are gone.
	CallRescinded struct {
		Offers []api.OfferID
		Why    string
		kept   bool // the scheduler has kept them; else they are inverse offers
	}
	// CallInverseOffers tells of inverse offers.
	CallInverseOffers struct{ Offers []api.InverseOffer }
	// CallMessage brings a message of an executor.
	CallMessage struct {
		Agent    api.AgentID
		Executor api.ExecutorID
		Data     []byte
	}
	// CallExecutorLost tells of the end of an executor.
	CallExecutorLost struct {
		Agent    api.AgentID
		Executor api.ExecutorID
		Message  string
	}
	// CallAgentLost tells of an agent that is taken for dead.
	CallAgentLost struct {
		Agent api.AgentID
		Why   string
	}
	// CallOperationDone tells what became of an operation.
	CallOperationDone struct {
		Agent     api.AgentID
		Operation api.OperationID
		Err       *api.Error
		awaited   operation // what was awaited when it was told; the zero value: nothing was
	}
	// CallRefused tells of a call that a master has refused.
	CallRefused struct{ Err *api.Error }
	// CallTurn runs a function that the shell knows by its number.
	CallTurn struct {
		Turn uint64
		name string
	}
)

func (CallSubscribed) effect()    {}
func (CallSettled) effect()       {}
func (CallOffers) effect()        {}
func (CallUpdate) effect()        {}
func (CallRescinded) effect()     {}
func (CallInverseOffers) effect() {}
func (CallMessage) effect()       {}
func (CallExecutorLost) effect()  {}
func (CallAgentLost) effect()     {}
func (CallOperationDone) effect() {}
func (CallRefused) effect()       {}
func (CallTurn) effect()          {}

// The names of the callbacks.
func (CallSubscribed) Name() string    { return "Subscribed" }
func (CallSettled) Name() string       { return "Settled" }
func (CallOffers) Name() string        { return "Offers" }
func (CallUpdate) Name() string        { return "Update" }
func (CallRescinded) Name() string     { return "Rescinded" }
func (CallInverseOffers) Name() string { return "InverseOffers" }
func (CallMessage) Name() string       { return "Message" }
func (CallExecutorLost) Name() string  { return "ExecutorLost" }
func (CallAgentLost) Name() string     { return "AgentLost" }
func (CallOperationDone) Name() string { return "OperationDone" }
func (CallRefused) Name() string       { return "Refused" }
func (c CallTurn) Name() string        { return c.name }

// Which are always made.
func (CallSubscribed) Always() bool    { return false }
func (CallSettled) Always() bool       { return false }
func (CallOffers) Always() bool        { return false }
func (CallUpdate) Always() bool        { return false }
func (c CallRescinded) Always() bool   { return c.kept }
func (CallInverseOffers) Always() bool { return false }
func (CallMessage) Always() bool       { return false }
func (CallExecutorLost) Always() bool  { return false }
func (CallAgentLost) Always() bool     { return false }
func (CallOperationDone) Always() bool { return false }
func (CallRefused) Always() bool       { return false }
func (CallTurn) Always() bool          { return true }

// Interests says which optional callbacks the scheduler takes.
type Interests uint16

// The interests.
const (
	InSubscribed Interests = 1 << iota
	InSettled
	InRescinded
	InInverseOffers
	InMessages
	InExecutorLost
	InAgentLost
	InOperations
	InRefused
)
