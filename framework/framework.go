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

// Scheduler is what a framework's author writes. Its methods, and those of the optional interfaces, are called one at a
// time from one goroutine, so they need no lock. While one runs the session goes on, but the other callbacks wait and
// offers may expire. The context of a callback ends when the session ends or may have been taken over (R6), and when
// Run's context ends.
//
// A method that panics ends Run with an error of kind [api.Internal] that holds the panic and its stack, because a
// scheduler with such a fault must not go on launching. The process lives on, so its main may clean up. What the method
// was told is not acknowledged, so the next Run with the same ID hears it again; the tasks live on for the failover
// timeout. A panic in a goroutine that the scheduler itself started ends the process, as always in Go.
type Scheduler interface {
	// Offers is asked what to do with new offers. An offer without an answer is declined with the default filter. To
	// decide later, answer with [api.Keep] and then use the [Client], before the offer expires or is taken back for
	// another framework with a stated demand.
	Offers(ctx context.Context, offers []api.Offer) []api.Answer
	// Update is told each step in a task's life, at least once and in order for each task. nil acknowledges the status.
	// After an error the status comes again, with growing pauses. After [ErrLater] it waits for [Client.Acknowledge].
	Update(ctx context.Context, status api.Status) error
}

// Subscriber is a Scheduler that is told when a session begins. The client is the same in all sessions of a Run. Until
// Subscribed has returned, nothing is offered, and the leader does not tell the states of the tasks that only it knows.
// So Subscribed is the place to state a demand, and to read from the [Store] what is needed to understand those states.
type Subscriber interface {
	Subscribed(ctx context.Context, client *Client) error
}

// Settler is a Scheduler that is told when it has heard, in a session, the state of every task that the leader knows.
// From then on a scheduler that has restarted knows what runs. It hears later of tasks whose agents have not come back
// to a new leader yet.
type Settler interface {
	Settled(ctx context.Context)
}

// Rescinder is a Scheduler that keeps offers and is told which of them are gone: rescinded, expired, or of a session
// that has ended. Inverse offers that were withdrawn are among them.
type Rescinder interface {
	Rescinded(ctx context.Context, offers []api.OfferID, why string)
}

// InverseOfferee is a Scheduler that chooses itself what to give back. At the deadline the masters take what it has not
// given back: a preemption kills the named tasks, a maintenance drains the agent. To give resources back, kill the
// tasks, or let the masters do it now ([Client.AnswerInverse]). [Rescinder] is told of what is not needed back any
// more.
type InverseOfferee interface {
	InverseOffers(ctx context.Context, offers []api.InverseOffer)
}

// Messenger is a Scheduler that receives messages of its executors, each at most once.
type Messenger interface {
	Message(ctx context.Context, agent api.AgentID, executor api.ExecutorID, data []byte)
}

// ExecutorWatcher is a Scheduler that is told when an executor has ended. The statuses of the executor's tasks still
// come through Update.
type ExecutorWatcher interface {
	ExecutorLost(ctx context.Context, agent api.AgentID, executor api.ExecutorID, message string)
}

// AgentWatcher is a Scheduler that is told when an agent on which it has tasks or executors is taken for dead. Gone says
// that the agent never comes back, and neither do the volumes on it. Of such an agent the scheduler is also told when
// it waits for it: when its demand has a shape with that agent as one of the only ones ([api.Shape.OnlyPreferred]). It
// is told so again whenever it states that demand, so it misses nothing that was decided while it was away.
type AgentWatcher interface {
	AgentLost(ctx context.Context, agent api.AgentID, gone bool, why string)
}

// OperationWatcher is a Scheduler that gives operations an ID and is told their outcome; err is nil when the operation
// is done. The outcome survives a failover and the end of a session; it may then be told twice
// ([Client.ReconcileOperations]). An error of kind [api.NotFound] says that nothing has changed, because the accept
// never reached a master.
type OperationWatcher interface {
	OperationDone(ctx context.Context, agent api.AgentID, operation api.OperationID, err error)
}

// RefusalWatcher is a Scheduler that is told which of its calls a master has refused, such as a demand with a broken
// constraint or an operation without an ID. A refused call has done nothing. Refused launches need no watching: their
// tasks end DROPPED or ERROR, which Update is told.
type RefusalWatcher interface {
	Refused(ctx context.Context, call string, err error)
}

// ErrFenced is why Run ends when a newer instance of the same framework has taken over (R6); test for it with
// errors.Is(err, ErrFenced). The newer instance has the tasks now, so do not call Run again.
var ErrFenced = core.ErrFenced

// ErrRevoked is why Run ends when an operator has revoked the framework's principal; test for it with errors.Is(err,
// ErrRevoked). No master admits this principal again: to go on, the framework needs the token of another principal.
var ErrRevoked = core.ErrRevoked

// ErrLater is what Update returns when it has handed the status to another goroutine, which must call
// [Client.Acknowledge]; it may be wrapped. Until then the status does not come again in this Run, unless another instance
// may have been active meanwhile ([Client.Takeovers]). Later statuses of the same task wait; those of other tasks do not.
var ErrLater = errors.New("the status will be acknowledged later")

// Run subscribes and serves the scheduler. It returns nil when ctx ends, and when the framework has been removed at its
// own request. It returns the reason, as an *api.Error, when the framework is removed by others, fenced or refused,
// when a callback panics, when a Subscribed callback fails, or when no master has confirmed the removal that
// [Config.TeardownAtEnd] asks for. It reconnects to whichever master leads, for as long as that takes. When it returns,
// everything that it started has ended; a callback that ignores its context delays that.
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
	return l.runLoop(ctx)
}
