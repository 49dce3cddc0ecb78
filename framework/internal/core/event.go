package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Event is what the core steps: something that happened, when, and a random number for whatever it decides by chance.
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
	// Started is the first event of a core's life. Instance tells this process from others of the same framework.
	Started struct{ Instance api.Nonce }
	// Woken comes at the moment that Wake asked for.
	Woken struct{}
	// Dialed answers Dial: there is a stream to that master now, or the reason why there is none.
	Dialed struct{ Err error }
	// Heard brings a message of the stream. Leader is where the leader is, if a refusal in it says so.
	Heard struct {
		Term   api.Term
		Events []protocol.SchedulerEvent
		Leader string
	}
	// LinkEnded says why nothing more comes from the stream. Leader is where the leader is, if the reason says so.
	LinkEnded struct {
		Err    error
		Leader string
	}
	// Called brings the result of the first callback that was handed out and had none yet.
	Called struct {
		Outcome Outcome
		Err     error        // of Failed and Broken
		Answers []api.Answer // of CallOffers
	}
	// Left says that the context of Run has ended.
	Left struct{}
)

// Wish is a happening: what a caller of the Client asks for, one of the types below.
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
	// KillAsked asks for the end of a task, within the grace or, if that is 0, the task's own.
	KillAsked struct {
		Task  api.TaskID
		Grace time.Duration
	}
	// StatusAcknowledged says that a status whose outcome was Later is handled now.
	StatusAcknowledged struct{ Status api.Status }
	// DemandStated replaces the demand of a role. It is told behind the answers of the calls of Offers up to Behind.
	DemandStated struct {
		Demand api.Demand
		Behind uint64
	}
	// WantedAsked asks what is left of the demand of a role. WantedTold answers.
	WantedAsked struct {
		Request uint64
		Role    api.Role
	}
	// SuppressAsked stops the offers for the roles; none means all.
	SuppressAsked struct{ Roles []api.Role }
	// ReviveAsked brings them back.
	ReviveAsked struct{ Roles []api.Role }
	// CallAsked sends a call if there is a session; else it is lost.
	CallAsked struct{ Call protocol.SchedulerCall }
	// ReconcileAsked asks for the state of the tasks, news or not; none means all.
	ReconcileAsked struct{ Tasks []api.TaskID }
	// OperationsAsked asks for the results of the operations; none means all that are remembered.
	OperationsAsked struct{ Operations []api.OperationID }
	// UpdateAsked changes what the framework says of itself. Saw is how many changes had come into effect when the wish
	// was made. UpdateEnded answers.
	UpdateAsked struct {
		Request uint64
		Wish    api.Framework
		Saw     uint64
	}
	// UpdateWithdrawn says that nobody waits for the answer any more.
	UpdateWithdrawn struct{ Request uint64 }
	// TurnAsked asks for a turn of a function between two callbacks; the shell knows the function by the number.
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
	Later                  // of CallUpdate: StatusAcknowledged will follow
	Skipped                // it was not called, or what it said concerns a session that has ended
	Broken                 // it panicked or ended its goroutine
)

var outcomeNames = [...]string{"handled", "failed", "later", "skipped", "broken"}

func (o Outcome) String() string { return outcomeNames[o] }
