package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Event is what Step handles: something that has happened, when, and a random number for decisions by chance.
type Event struct {
	At     time.Time // monotonic
	Chance uint64
	What   Happening
}

// Happening is one of the types below.
//
//sumtype:decl
type Happening interface{ happening() }

// What comes from the masters, from the user's code and from the clock.
type (
	// Started is the first event of a core. Instance tells this process from other processes of the same framework.
	Started struct{ Instance api.Nonce }
	// Woken comes at the moment that Wake asked for.
	Woken struct{}
	// Dialed answers Dial: the stream to that master is open, or Err says why it is not.
	Dialed struct{ Err error }
	// Heard is a message of the stream. Leader is the address of the leader, if a refusal in the message names it.
	Heard struct {
		Term   api.Term
		Events []protocol.SchedulerEvent
		Leader string
	}
	// LinkEnded says why nothing more comes from the stream. Leader is the address of the leader, if the reason names
	// it.
	LinkEnded struct {
		Err    error
		Leader string
	}
	// Called is the result of the first callback that is handed out and has no result yet.
	Called struct {
		Outcome Outcome
		Err     error        // for Failed and Broken
		Answers []api.Answer // for CallOffers
	}
	// Left says that the context of Run has ended.
	Left struct{}
)

// Wish is a Happening: what a caller of the Client asks for, one of the types below.
//
//sumtype:decl
type Wish interface {
	Happening
	wish()
}

// What callers of the Client ask for.
type (
	// Answered answers offers that were kept.
	Answered struct{ Answers []api.Answer }
	// KillAsked asks for the end of a task, within this grace or, if it is 0, within the task's own.
	KillAsked struct {
		Task  api.TaskID
		Grace time.Duration
	}
	// StatusAcknowledged says that a status is handled now whose outcome was Later.
	StatusAcknowledged struct{ Status api.Status }
	// DemandStated replaces the demand of a role. It is sent behind the answers of all calls of Offers up to number
	// Behind.
	DemandStated struct {
		Demand api.Demand
		Behind uint64
	}
	// WantedAsked asks what is left of the demand of a role; WantedTold answers.
	WantedAsked struct {
		Request uint64
		Role    api.Role
	}
	// SuppressAsked stops offers in the roles; none means all.
	SuppressAsked struct{ Roles []api.Role }
	// ReviveAsked resumes offers in the roles; none means all.
	ReviveAsked struct{ Roles []api.Role }
	// CallAsked sends a call if there is a session; otherwise the call is lost.
	CallAsked struct{ Call protocol.SchedulerCall }
	// ReconcileAsked asks for the state of the tasks, which is told even if it has not changed; none means all tasks.
	// Agent, if named, has the tasks of which nothing else is known.
	ReconcileAsked struct {
		Agent api.AgentID
		Tasks []api.TaskID
	}
	// OperationsAsked asks for the outcomes of the operations; none means all that the masters remember.
	OperationsAsked struct{ Operations []api.OperationID }
	// UpdateAsked changes what the framework says of itself. Saw is how many changes had come into effect when the
	// caller made it. UpdateEnded answers.
	UpdateAsked struct {
		Request uint64
		Wish    api.Framework
		Saw     uint64
	}
	// UpdateWithdrawn says that the caller no longer waits for the answer.
	UpdateWithdrawn struct{ Request uint64 }
	// TurnAsked asks for a turn of a user's function between two callbacks. The shell knows the function by the number.
	TurnAsked struct {
		Name string
		Turn uint64
	}
	// TeardownAsked asks for the framework's removal.
	TeardownAsked struct{}
)

func (Started) happening()            {}
func (Woken) happening()              {}
func (Dialed) happening()             {}
func (Heard) happening()              {}
func (LinkEnded) happening()          {}
func (Called) happening()             {}
func (Left) happening()               {}
func (Answered) happening()           {}
func (KillAsked) happening()          {}
func (StatusAcknowledged) happening() {}
func (DemandStated) happening()       {}
func (WantedAsked) happening()        {}
func (SuppressAsked) happening()      {}
func (ReviveAsked) happening()        {}
func (CallAsked) happening()          {}
func (ReconcileAsked) happening()     {}
func (OperationsAsked) happening()    {}
func (UpdateAsked) happening()        {}
func (UpdateWithdrawn) happening()    {}
func (TurnAsked) happening()          {}
func (TeardownAsked) happening()      {}

func (Answered) wish()           {}
func (KillAsked) wish()          {}
func (StatusAcknowledged) wish() {}
func (DemandStated) wish()       {}
func (WantedAsked) wish()        {}
func (SuppressAsked) wish()      {}
func (ReviveAsked) wish()        {}
func (CallAsked) wish()          {}
func (ReconcileAsked) wish()     {}
func (OperationsAsked) wish()    {}
func (UpdateAsked) wish()        {}
func (UpdateWithdrawn) wish()    {}
func (TurnAsked) wish()          {}
func (TeardownAsked) wish()      {}

// Outcome is how a callback has ended.
type Outcome uint8

// The outcomes.
const (
	Handled Outcome = iota // it returned, without an error
	Failed                 // it returned an error
	Later                  // for CallUpdate: StatusAcknowledged will follow
	Skipped                // it was not called, or its result concerns a session that has ended
	Broken                 // it panicked or ended its goroutine
)

var outcomeNames = [...]string{"handled", "failed", "later", "skipped", "broken"}

func (o Outcome) String() string { return outcomeNames[o] }
