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

// The effects that change something outside.
type (
	// Dial opens a stream to a master, within the timeout. The shell answers with Dialed. Masters and Term are what is
	// known of the cluster, in case this master falls silent.
	Dial struct {
		Address string
		Timeout time.Duration
		Masters []string
		Term    api.Term
	}
	// CloseLink ends the stream. Nothing more is heard of it.
	CloseLink struct{}
	// Send puts a call into the stream.
	Send struct {
		Number uint64
		Call   protocol.SchedulerCall
	}
	// Acknowledge puts an acknowledgement into the stream. The shell may send consecutive acknowledgements as one call,
	// with the number of the last one.
	Acknowledge struct {
		Number uint64
		Item   protocol.Acknowledgement
	}

	// SessionBegan says that callbacks have a session from now on. Session is its number in the registry. Takeovers is
	// how often another instance may have been active since this one's first session.
	SessionBegan struct {
		Framework api.FrameworkID
		Session   uint64
		Takeovers uint64
	}
	// SessionEnded cancels the callbacks of the session.
	SessionEnded struct{}
	// StandsBy says that another instance of the framework is active.
	StandsBy struct{}
	// FrameworkChanged tells what the framework says of itself from now on, and how many changes have come into effect.
	FrameworkChanged struct {
		Framework api.Framework
		Changes   uint64
	}
	// UpdateEnded answers UpdateAsked.
	UpdateEnded struct {
		Request uint64
		Err     error
	}
	// WantedTold answers WantedAsked. Stated is false if no demand was stated for the role.
	WantedTold struct {
		Request uint64
		Shapes  []api.Shape
		Stated  bool
	}
	// Ended ends Run with this result. After that the core takes no events and answers no requests.
	Ended struct{ Err error }
	// Log is one line for people about one decision.
	Log struct {
		Level   Level
		Message string
		Fields  []Field
	}
)

// Count is an effect that tells something to count: one of the types below. Without [Config.Counts] there are none.
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
	// CountOffers says how many offers have come.
	CountOffers struct{ Offers int }
	// CountAnswers says how many offers have ended in this way.
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
	// CountQueues says how much is waiting.
	CountQueues struct{ Queues Queues }
)

func (Dial) effect()             {}
func (CloseLink) effect()        {}
func (Send) effect()             {}
func (Acknowledge) effect()      {}
func (SessionBegan) effect()     {}
func (SessionEnded) effect()     {}
func (StandsBy) effect()         {}
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

// Level says how important a log line is.
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

// Queues is how much is waiting at one moment, apart from calls that the master has not taken.
type Queues struct{ Callbacks, Statuses, Retries, Offers, Unsettled int }
