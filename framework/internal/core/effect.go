package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Effect is what the shell is to do; one of the types below, a [Count] or a [Callback]. The shell performs them in order.
//
//sumtype:decl
type Effect interface{ effect() }

// The effects on the world.
type (
	// Dial opens a stream to a master, within the timeout. Dialed follows. Masters and Term are what is known, should
	// this master fall silent.
	Dial struct {
		Address string
		Timeout time.Duration
		Masters []string
		Term    api.Term
	}
	// CloseLink ends the stream. Nothing of it is heard any more.
	CloseLink struct{}
	// Send puts a call into the stream.
	Send struct {
		Number uint64
		Call   protocol.SchedulerCall
	}
	// Acknowledge puts an acknowledgement into the stream. Those that follow one another may go as one call, with the
	// number of the last.
	Acknowledge struct {
		Number uint64
		Item   protocol.Acknowledgement
	}

	// SessionBegan says that callbacks have a session from now on. Session is its number in the registry.
	SessionBegan struct {
		Framework api.FrameworkID
		Session   uint64
	}
	// SessionEnded cancels the callbacks of the session.
	SessionEnded struct{}
	// FrameworkChanged says what the framework says of itself now, after so many changes.
	FrameworkChanged struct {
		Framework api.Framework
		Changes   uint64
	}
	// UpdateEnded answers UpdateAsked.
	UpdateEnded struct {
		Request uint64
		Err     error
	}
	// WantedTold answers WantedAsked. Stated is false where no demand was stated for the role.
	WantedTold struct {
		Request uint64
		Shapes  []api.Shape
		Stated  bool
	}
	// Ended ends Run, with this result. The core takes no more events, and answers no more requests.
	Ended struct{ Err error }
	// Log tells people of one decision.
	Log struct {
		Level   Level
		Message string
		Fields  []Field
	}
)

// Count is an effect: something to count, one of the types below. There are none without [Config.Counts].
//
//sumtype:decl
type Count interface {
	Effect
	counted()
}

// What is counted.
type (
	// CountSession says that a session has begun or ended.
	CountSession struct{ Active bool }
	// CountOffers says how many offers came.
	CountOffers struct{ Offers int }
	// CountAnswers says how many offers ended, and how.
	CountAnswers struct {
		End    OfferEnd
		Offers int
	}
	// CountLaunches says how many tasks were sent to a master.
	CountLaunches struct{ Tasks int }
	// CountStatus says that a status was handled.
	CountStatus struct {
		State  api.TaskState
		Reason api.Reason
	}
	// CountRefused says that a master has refused a call.
	CountRefused struct {
		Operation string
		Kind      api.Kind
	}
	// CountQueues says how much waits.
	CountQueues struct{ Queues Queues }
)

func (Dial) effect()             {}
func (CloseLink) effect()        {}
func (Send) effect()             {}
func (Acknowledge) effect()      {}
func (SessionBegan) effect()     {}
func (SessionEnded) effect()     {}
func (FrameworkChanged) effect() {}
func (UpdateEnded) effect()      {}
func (WantedTold) effect()       {}
func (Ended) effect()            {}
func (Log) effect()              {}
func (CountSession) effect()     {}
func (CountOffers) effect()      {}
func (CountAnswers) effect()     {}
func (CountLaunches) effect()    {}
func (CountStatus) effect()      {}
func (CountRefused) effect()     {}
func (CountQueues) effect()      {}

func (CountSession) counted()  {}
func (CountOffers) counted()   {}
func (CountAnswers) counted()  {}
func (CountLaunches) counted() {}
func (CountStatus) counted()   {}
func (CountRefused) counted()  {}
func (CountQueues) counted()   {}

// Level is how much people want to know of it.
type Level uint8

// The levels.
const (
	Debug Level = iota
	Info
	Warn
)

// Field is one field of a log line.
type Field struct {
	Name  string
	Value any
}

// OfferEnd is how an offer has ended.
type OfferEnd string

// The ends of offers.
const (
	OfferAccepted  OfferEnd = "accepted"  // with operations; also when the master refused them
	OfferDeclined  OfferEnd = "declined"  // by an answer, or by none
	OfferReturned  OfferEnd = "returned"  // kept until it was about to expire
	OfferRescinded OfferEnd = "rescinded" // by the master, or with the end of the session
)

// Queues is how much waits at one moment, but for the calls that the master has not taken.
type Queues struct{ Callbacks, Statuses, Retries, Offers, Unsettled int }
