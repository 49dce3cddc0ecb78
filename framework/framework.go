// Package framework is the SDK for schedulers. A framework's author implements
// [Scheduler] and calls [Run]; sessions, acknowledgements, reconciliation, fencing and
// failover are the package's business.
//
//	err := framework.Run(ctx, framework.Config{Name: "hello"}, scheduler)
package framework

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenderhq/tender/api"
)

// Scheduler is what a framework's author writes. Its methods, and those of the
// optional interfaces, are called one at a time from one goroutine, so they need no
// lock. Their context ends when the session ends or may have been taken over (R6).
type Scheduler interface {
	// Offers is asked what to do with new offers. An offer without an answer is
	// declined with the default filter. To think longer, answer [api.Keep] and use the
	// [Client] before the offer expires.
	Offers(ctx context.Context, offers []api.Offer) []api.Answer
	// Update tells a step in a task's life. It comes at least once and in order for
	// each task. nil acknowledges it; after an error it comes again, with a growing pause.
	Update(ctx context.Context, status api.Status) error
}

// Subscriber is a Scheduler that wants to know when a session begins. The client is
// the same for all sessions of a Run.
type Subscriber interface {
	Subscribed(ctx context.Context, client *Client) error
}

// Rescinder is a Scheduler that keeps offers and wants to know which are gone:
// rescinded, expired, or of a session that ended.
type Rescinder interface {
	Rescinded(ctx context.Context, offers []api.OfferID, why string)
}

// InverseOfferee is a Scheduler that chooses itself what to give back. What it has not
// given back by the deadline is taken.
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

// Config says who the framework is. The zero value is complete but for Name.
type Config struct {
	// Masters are gRPC addresses, host:port, of some or all masters. Default 127.0.0.1:5060.
	Masters []string
	// Name is for people; with Standby it is the identity.
	Name string
	// ID continues a framework that subscribed before. Default: a new one.
	ID api.FrameworkID
	// Roles to be offered resources in. Default [api.DefaultRole].
	Roles []api.Role
	// FailoverTimeout is how long tasks live on without a scheduler. Default 10 min.
	FailoverTimeout time.Duration
	// Standby: any number of instances run with the same Name; one is active (R6).
	Standby bool
	// Constraint, MinOffer, MaxOffer, Revocable: see [api.Framework].
	Constraint string
	MinOffer   api.Resources
	MaxOffer   api.Resources
	Revocable  bool
	// Suppressed starts without offers until [Client.Revive] or [Client.SetDemand].
	Suppressed bool
	Labels     map[string]string
	Endpoints  map[string]string
	// TeardownAtEnd removes the framework with its tasks when Run's context ends.
	TeardownAtEnd bool
	// Logger takes what the SDK has to say. Default: discarded.
	Logger *slog.Logger
}

// Run subscribes and serves the scheduler until ctx ends (returns nil), the framework
// is removed, fenced or refused (returns the reason as an *api.Error), or a Subscribed
// callback fails. It reconnects to whoever leads, for as long as that takes.
func Run(ctx context.Context, config Config, scheduler Scheduler) error { return nil }

// Client acts outside of callbacks. All methods may be called from any goroutine, also
// while there is no session: what makes sense later is sent in the next one.
type Client struct{}

// FrameworkID is the framework's ID.
func (c *Client) FrameworkID() api.FrameworkID { return "" }

// Answer answers offers that were kept.
func (c *Client) Answer(answers ...api.Answer) error { return nil }

// Kill asks for the end of a task, with the task's own grace. It is repeated until the
// task has ended.
func (c *Client) Kill(task api.TaskID) error { return nil }

// Demand replaces what the framework wants in the role ("" = its only one).
func (c *Client) Demand(demand api.Demand) error { return nil }

// Suppress stops offers for the roles; none = all.
func (c *Client) Suppress(roles ...api.Role) error { return nil }

// Revive brings offers back, and forgets filters; none = all roles.
func (c *Client) Revive(roles ...api.Role) error { return nil }

// Message sends bytes to an executor, at most once.
func (c *Client) Message(agent api.AgentID, executor api.ExecutorID, data []byte) error { return nil }

// Shutdown ends an executor and its tasks.
func (c *Client) Shutdown(agent api.AgentID, executor api.ExecutorID) error { return nil }

// Reconcile asks for the state of the tasks; none = all. The SDK does it by itself at
// the start of each session and periodically.
func (c *Client) Reconcile(tasks ...api.TaskID) error { return nil }

// Teardown removes the framework with its tasks, for ever; Run then returns nil.
func (c *Client) Teardown() error { return nil }
