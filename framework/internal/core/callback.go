package core

import "github.com/tenderhq/tender/api"

// Callback is an effect: a call of the user's code, one of the types below. The shell makes these calls one after the
// other, in order. For each it answers with a Called, in the same order.
//
//sumtype:decl
type Callback interface {
	Effect
	// Name is the name of the method that is called, or of the Client's method that asked for the call.
	Name() string
}

// The callbacks.
type (
	// CallSubscribed says that a session has begun. Nothing is offered until the call has returned.
	CallSubscribed struct{ session uint64 }
	// CallSettled says that the states of all tasks that the leader knows have been told.
	CallSettled struct{}
	// CallOffers asks what to do with offers. Number counts these calls.
	CallOffers struct {
		Number uint64
		Offers []api.Offer
	}
	// CallUpdate tells the scheduler a step in a task's life.
	CallUpdate struct {
		Status api.Status
		task   taskRef
	}
	// CallRescinded tells the scheduler which offers are gone.
	CallRescinded struct {
		Offers []api.OfferID
		Why    string
		kept   bool // the scheduler had kept the offers; otherwise they are inverse offers
	}
	// CallInverseOffers brings inverse offers.
	CallInverseOffers struct{ Offers []api.InverseOffer }
	// CallMessage brings a message from an executor.
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
	// CallAgentLost tells of an agent that is taken for dead. Gone: for ever.
	CallAgentLost struct {
		Agent api.AgentID
		Gone  bool
		Why   string
	}
	// CallOperationDone tells the outcome of an operation.
	CallOperationDone struct {
		Agent     api.AgentID
		Operation api.OperationID
		Err       *api.Error
		awaited   operation // what was awaited when the outcome was told; the zero value: nothing was
	}
	// CallRefused tells of a call that a master has refused.
	CallRefused struct{ Err *api.Error }
	// CallTurn runs a function of the user; the shell knows the function by the number.
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

// IsAlwaysMade reports whether the call is also made between sessions. Other calls are skipped when their session has ended.
func IsAlwaysMade(callback Callback) bool {
	switch callback := callback.(type) {
	case CallRescinded:
		return callback.kept
	case CallTurn:
		return true
	default: // the others concern one session
		return false
	}
}

// Interests says which optional callbacks the scheduler implements.
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
