package framework

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// Metrics are functions that Run calls when there is something to count, for whichever metrics library the framework
// uses. Each may be nil, and then costs nothing. They are called one at a time from a goroutine of the SDK, which waits
// for them, so they must return at once. They must not call the [Client] and must not panic.
//
// An offer is counted once in Offers, and once more in Answers when it has ended.
type Metrics struct {
	// Connected is called after each attempt to reach a master, with how long it took. err is nil if the master
	// accepted the stream; it may still refuse the session.
	Connected func(address string, took time.Duration, err error)
	// Session is called with true when a session begins and with false when it ends: a
	// gauge of 0 or 1, whose rises but the first are reconnects.
	Session func(active bool)
	// Offers is called with the number of offers that have come.
	Offers func(offers int)
	// Answers is called with the number of offers that have ended in this way.
	Answers func(end OfferEnd, offers int)
	// Launches is called with the number of tasks that were sent to a master for launching.
	Launches func(tasks int)
	// Status is called for each status that Update has handled, without repeats.
	Status func(state api.TaskState, reason api.Reason)
	// Callback is called after each call of a method of the scheduler, with the method's name, how long the call took
	// and what it returned. It is also called after each function that [Client.Do] or [Client.After] has run, with the
	// name "Do" or "After".
	Callback func(method string, took time.Duration, err error)
	// Refused is called when a master refuses a call, with the operation of the error, such as "offer.accept".
	Refused func(operation string, kind api.Kind)
	// Queues is called about once a second (every heartbeat) while there is a session.
	Queues func(Queues)
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

// Queues tells how much is waiting at one moment.
type Queues struct {
	Callbacks int // calls of the scheduler's methods that wait for the current one
	Statuses  int // not handled yet, including those for which Update has failed
	Retries   int // tasks whose status waits for another call of Update
	Calls     int // calls that the master has not taken yet
	Offers    int // open: shown or kept, and not answered
	Unsettled int // tasks whose end the scheduler has not handled
}

func (m *Metrics) connected(address string, took time.Duration, err error) {
	if m.Connected != nil {
		m.Connected(address, took, err)
	}
}

// counts reports whether any of the functions is set that count what the core tells.
func (m *Metrics) counts() bool {
	return m.Session != nil || m.Offers != nil || m.Answers != nil || m.Launches != nil || m.Status != nil || m.Refused != nil || m.Queues != nil
}

// countEffect calls the function that counts the effect.
func (m *Metrics) countEffect(effect core.Count, link *link) {
	switch effect := effect.(type) {
	case core.CountSession:
		count(m.Session, effect.Active)
	case core.CountOffers:
		count(m.Offers, effect.Offers)
	case core.CountAnswers:
		if m.Answers != nil {
			m.Answers(OfferEnd(effect.End), effect.Offers)
		}
	case core.CountLaunches:
		count(m.Launches, effect.Tasks)
	case core.CountStatus:
		if m.Status != nil {
			m.Status(effect.State, effect.Reason)
		}
	case core.CountRefused:
		if m.Refused != nil {
			m.Refused(effect.Operation, effect.Kind)
		}
	case core.CountQueues:
		count(m.Queues, queuesOf(effect.Queues, link))
	}
}

func count[T any](function func(T), what T) {
	if function != nil {
		function(what)
	}
}

// queuesOf adds the number that the core does not know: how many calls the master has not taken.
func queuesOf(q core.Queues, link *link) Queues {
	return Queues{Callbacks: q.Callbacks, Statuses: q.Statuses, Retries: q.Retries, Calls: link.out.waiting(), Offers: q.Offers, Unsettled: q.Unsettled}
}
