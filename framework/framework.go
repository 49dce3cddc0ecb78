// Package framework is the SDK for schedulers. A framework's author implements
// [Scheduler], two methods, and calls [Run]; the package handles sessions,
// acknowledgements, reconciliation, fencing and failover. This is a whole framework that
// runs one command on the first resources it is offered:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"github.com/tenderhq/tender/api"
//		"github.com/tenderhq/tender/framework"
//	)
//
//	type hello struct {
//		started bool
//		end     context.CancelFunc
//	}
//
//	func (h *hello) Offers(_ context.Context, offers []api.Offer) []api.Answer {
//		if h.started {
//			return nil
//		}
//		h.started = true
//		return []api.Answer{api.Launch(offers[0], api.Task{
//			ID:        "hello-1",
//			Resources: api.Scalars(0.1, 32), // cpus, MB
//			Command:   &api.Command{Shell: "echo hello"},
//		})}
//	}
//
//	func (h *hello) Update(_ context.Context, status api.Status) error {
//		fmt.Println(status.Task, status.State, status.Message)
//		if status.State.Terminal() {
//			h.end()
//		}
//		return nil
//	}
//
//	func main() {
//		ctx, end := context.WithCancel(context.Background())
//		defer end()
//		err := framework.Run(ctx, framework.Config{Name: "hello", TeardownAtEnd: true}, &hello{end: end})
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # What Run does by itself
//
// Run finds the leader, follows it over failovers and tells each new one of the tasks
// whose end it has not seen; it asks for their state at the start of each session and
// every [Config.ReconcileInterval]. A status is acknowledged when Update returns nil and
// comes again when it does not. Offers without an answer are declined for five seconds,
// kept ones are returned before they expire. A second instance of the same framework
// fences the first.
//
// # Optional interfaces, and the Client
//
// A Scheduler may implement the optional interfaces: [Subscriber], [Settler], [Rescinder],
// [InverseOfferee], [Messenger], [ExecutorWatcher], [AgentWatcher], [OperationWatcher],
// [RefusalWatcher]. Subscribed brings the [Client], by which a scheduler acts outside of
// its callbacks: it states demand, kills, answers kept offers, changes the framework,
// keeps values in the [Store]. [Client.Do] and [Client.After] bring signals, HTTP handlers
// and timers to the goroutine of the callbacks. [Config.Standby] makes copies of a scheduler wait for each
// other; [Config.Metrics] counts what happens.
//
// Write your own executors with package executor below this one. Packages taskset, pack
// and locality have what most schedulers need, and frameworktest runs all of it in a
// test, hours in milliseconds.
package framework

import (
	"context"
	"errors"
	"sync"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// Scheduler is what a framework's author writes. Its methods, and those of the
// optional interfaces, are called one at a time from one goroutine, so they need no
// lock; while one runs, the session goes on, but the others wait and offers may expire.
// Their context ends when the session ends or may have been taken over (R6), and when
// Run's does.
//
// A method that panics ends Run with an error of kind [api.Internal] that holds the
// panic and its stack: a scheduler that is wrong about something must not go on
// launching. The process lives on, so its main may clean up. What the method was told is
// not acknowledged, so the next Run with the same ID hears it again; tasks live on for
// the failover timeout. A panic of a goroutine that the scheduler itself started ends
// the process, as always in Go.
type Scheduler interface {
	// Offers is asked what to do with new offers. An offer without an answer is
	// declined with the default filter. To think longer, answer [api.Keep] and use the
	// [Client] before the offer expires, or is taken back for others who state what they want.
	Offers(ctx context.Context, offers []api.Offer) []api.Answer
	// Update tells a step in a task's life. It comes at least once and in order for
	// each task. nil acknowledges it; after an error it comes again, with a growing pause.
	// After [ErrLater] it waits for [Client.Acknowledge].
	Update(ctx context.Context, status api.Status) error
}

// Subscriber is a Scheduler that wants to know when a session begins. The client is
// the same for all sessions of a Run. Before Subscribed has returned nothing is offered, and
// the leader does not tell the states of all tasks that it knows: it is the place to state a
// demand, and to read from the [Store] what must be known to make sense of them.
type Subscriber interface {
	Subscribed(ctx context.Context, client *Client) error
}

// Settler is a Scheduler that wants to know when it has heard, in a session, the state
// of every task that the leader knows: one that has restarted knows then what runs. Of
// agents that have not come back to a new leader it hears later.
type Settler interface {
	Settled(ctx context.Context)
}

// Rescinder is a Scheduler that keeps offers and wants to know which are gone:
// rescinded, expired, or of a session that ended. Inverse offers that were withdrawn are
// among them.
type Rescinder interface {
	Rescinded(ctx context.Context, offers []api.OfferID, why string)
}

// InverseOfferee is a Scheduler that chooses itself what to give back. What it has not
// given back by the deadline is taken: a preemption kills the named tasks, maintenance
// drains the agent. To give back, kill the tasks; or let the masters do it now
// ([Client.AnswerInverse]). What is not needed back any more comes to [Rescinder].
type InverseOfferee interface {
	InverseOffers(ctx context.Context, offers []api.InverseOffer)
}

// Messenger is a Scheduler that hears from its executors, at most once per message.
type Messenger interface {
	Message(ctx context.Context, agent api.AgentID, executor api.ExecutorID, data []byte)
}

// ExecutorWatcher is a Scheduler that wants to know when an executor has ended; the
// statuses of its tasks come through Update all the same.
type ExecutorWatcher interface {
	ExecutorLost(ctx context.Context, agent api.AgentID, executor api.ExecutorID, message string)
}

// AgentWatcher is a Scheduler that wants to know when an agent is taken for dead.
type AgentWatcher interface {
	AgentLost(ctx context.Context, agent api.AgentID, why string)
}

// OperationWatcher is a Scheduler that gives operations an ID and wants to hear what
// became of them: err is nil when it is done. The answer survives a failover and a session's
// end: then it may come twice ([Client.ReconcileOperations]). Of kind [api.NotFound] it says
// that nothing has changed: the accept never reached a master.
type OperationWatcher interface {
	OperationDone(ctx context.Context, agent api.AgentID, operation api.OperationID, err error)
}

// RefusalWatcher is a Scheduler that wants to know which of its calls a master has
// refused, say a demand with a broken constraint, or an operation without an ID. What is
// refused has done nothing.
// Refused launches need no watching: their tasks end DROPPED or ERROR through Update.
type RefusalWatcher interface {
	Refused(ctx context.Context, call string, err error)
}

// ErrFenced is why Run ends when a newer instance of the same framework has taken over
// (R6): errors.Is(err, ErrFenced). The newer one has the tasks now; do not come back.
var ErrFenced = core.ErrFenced

// ErrRevoked is why Run ends when an operator has revoked the principal whose framework it is: errors.Is(err,
// ErrRevoked). Nobody lets it in again; one that is to go on needs the token of another principal.
var ErrRevoked = core.ErrRevoked

// ErrLater is what Update returns when it has handed the status to another goroutine, which
// is to call [Client.Acknowledge]: errors.Is(err, ErrLater). Until then the status does not
// come again in this Run, and the next ones of its task wait; those of other tasks do not.
var ErrLater = errors.New("the status will be acknowledged later")

// Run subscribes and serves the scheduler until ctx ends (returns nil), the framework
// is removed, fenced or refused (returns the reason as an *api.Error), or a callback
// panics or a Subscribed callback fails. It reconnects to whoever leads, for as long as
// that takes. When it returns, everything it started has ended; a callback that does
// not heed its context holds it up.
func Run(ctx context.Context, config Config, scheduler Scheduler) error {
	who, err := identify(config)
	if err != nil {
		return err
	}
	if err := who.prove(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	config = who.config
	config.Dialer = who.toMaster
	l := newLoop(config, scheduler)
	l.who = who
	renewing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { who.renew(renewing) })
	defer beside.Wait()
	defer stop()
	return l.run(ctx)
}
