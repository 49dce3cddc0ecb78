package framework

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
)

// Client acts outside of callbacks. All methods may be called from any goroutine, also
// while there is no session: what makes sense later is sent in the next one. They
// return without waiting for a master; an error says that the call can't be right, or
// that Run has ended.
type Client struct {
	loop  *loop
	ended chan struct{} // closed when Run ends

	instance api.Nonce // tells this process from others of the framework
	lanes    *lanes    // of writes to the store
	// asked counts the requests that somebody waits for the reply of.
	asked atomic.Uint64

	mu        sync.Mutex
	framework api.Framework // what it says of itself; its maps and lists are never edited
	updates   uint64        // that have come into effect
	session   uint64
	conn      *grpc.ClientConn // to the leader; nil between sessions
	changed   chan struct{}    // closed and replaced when a session begins or ends
	sound     map[string]bool  // constraints that a leader has found right
}

var errEnded = errors.New("Run has ended")

// FrameworkID is the framework's ID.
func (c *Client) FrameworkID() api.FrameworkID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framework.ID
}

// Answer answers offers that were kept. Tasks whose offers are gone end DROPPED
// (INVALID_OFFERS), through Update.
func (c *Client) Answer(answers ...api.Answer) error {
	return c.tell("framework.answer", core.Answered{Answers: answers})
}

// KillOption says how a task is to be killed; see [Client.Kill].
type KillOption func(*killing)

// killing is what a kill says beside the task.
type killing struct{ grace time.Duration }

// Within gives a task that is killed so long to end by itself, instead of its own KillGrace.
func Within(grace time.Duration) KillOption { return func(k *killing) { k.grace = grace } }

// Kill asks for the end of a task, with the task's own grace or that of [Within]. It is
// repeated until the task has ended. A further kill shortens what is left of the grace, and
// never lengthens it: of several, what ends the task first counts. Killing what has ended, or what nobody knows, does nothing.
func (c *Client) Kill(task api.TaskID, options ...KillOption) error {
	const op = "task.kill"
	if err := api.CheckID("task", string(task)); err != nil {
		return api.E(op, api.Invalid, task, err)
	}
	var how killing
	for _, option := range options {
		option(&how)
	}
	if how.grace < 0 {
		return api.E(op, api.Invalid, task, fmt.Errorf("a grace of %v; it must not be negative, and 0 is the task's own", how.grace))
	}
	return c.tell(op, core.KillAsked{Task: task, Grace: how.grace})
}

// Acknowledge says that a status for which Update has returned [ErrLater], or is about to, is handled now. A
// second time, or of a status that does not wait for it, it does nothing. Between sessions it
// holds as well: the agent hears of it when it sends the status again.
func (c *Client) Acknowledge(status api.Status) error {
	return c.tell("framework.acknowledge", core.StatusAcknowledged{Status: status})
}

// Demand replaces what the framework wants in the role ("" = its only one). A demand of
// some shapes undoes [Client.Suppress] there; one of none means that nothing is wanted. A
// demand that was none, or that grows by a new shape or a higher count, ends the filters
// of the role: what was declined before may suit it now. It holds for
// all later sessions. Launches count it down by themselves, ends do not count it up: who
// wants a task again says so. What is stated while Offers runs is told behind its
// answers: it is what is wanted beside what they launch. At most 256 shapes; see
// [api.Shape].
//
// Only masters can judge a constraint: one that is new is shown to the leader, and what is wrong
// with it is the error. Where no leader answers at once [RefusalWatcher] hears of it.
func (c *Client) Demand(demand api.Demand) error {
	const op = "framework.demand"
	if roles := c.rolesNow(); demand.Role == "" && len(roles) == 1 {
		demand.Role = roles[0]
	}
	if err := c.checkRoles(op, demand.Role); err != nil {
		return err
	}
	if len(demand.Shapes) > api.DemandsPerRoleMax {
		return api.E(op, api.Limit, demand.Role, fmt.Errorf("%d shapes, at most %d are allowed", len(demand.Shapes), api.DemandsPerRoleMax))
	}
	for i, shape := range demand.Shapes {
		if err := shape.Check(); err != nil {
			return api.E(op, api.Invalid, demand.Role, fmt.Errorf("shape %d: %w", i+1, err))
		}
		if err := c.checkConstraint(shape.Constraint); err != nil {
			return api.E(op, api.Invalid, demand.Role, fmt.Errorf("the constraint of shape %d: %w", i+1, err))
		}
	}
	demand.Shapes = slices.Clone(demand.Shapes)
	return c.tell(op, core.DemandStated{Demand: demand, Behind: c.loop.callbacks.begunOffers.Load()})
}

// Wanted is what is left of the role's demand ("" = the framework's only role): as it was stated last, counted down
// by what was launched since. It is what the leader shows and what its policy goes by. stated is false where none was,
// or Run has ended.
func (c *Client) Wanted(role api.Role) (shapes []api.Shape, stated bool) {
	if roles := c.rolesNow(); role == "" && len(roles) == 1 {
		role = roles[0]
	}
	number, answer := c.asked.Add(1), make(chan reply, 1)
	if c.ask("framework.wanted", question{core.WantedAsked{Request: number, Role: role}, number, answer}) != nil {
		return nil, false
	}
	select {
	case told := <-answer:
		return told.shapes, told.stated
	case <-c.ended:
		return nil, false
	}
}

func (c *Client) checkRoles(op string, roles ...api.Role) error {
	mine := c.rolesNow()
	for _, role := range roles {
		if !slices.Contains(mine, role) {
			return api.E(op, api.Invalid, role, fmt.Errorf("the framework subscribed to the roles %v", mine))
		}
	}
	return nil
}

// rolesNow are the framework's roles as far as the masters have agreed.
func (c *Client) rolesNow() []api.Role {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framework.Roles
}

// Roles are those in which the framework is offered resources, as far as the masters have agreed.
func (c *Client) Roles() []api.Role { return slices.Clone(c.rolesNow()) }

// Suppress stops offers for the roles; none = all.
func (c *Client) Suppress(roles ...api.Role) error {
	const op = "framework.suppress"
	if err := c.checkRoles(op, roles...); err != nil {
		return err
	}
	return c.tell(op, core.SuppressAsked{Roles: roles})
}

// Revive brings offers back, and forgets filters; none = all roles.
func (c *Client) Revive(roles ...api.Role) error {
	const op = "framework.revive"
	if err := c.checkRoles(op, roles...); err != nil {
		return err
	}
	return c.tell(op, core.ReviveAsked{Roles: roles})
}

// Message sends bytes to an executor, at most once, and at most 256 KiB: they are lost
// where no session, no agent or no such executor is there just then.
func (c *Client) Message(agent api.AgentID, executor api.ExecutorID, data []byte) error {
	if len(data) > api.TaskBytesMax {
		return api.E("executor.message", api.Limit, executor, fmt.Errorf("%d bytes, at most %d are allowed", len(data), api.TaskBytesMax))
	}
	return c.tell("executor.message", core.CallAsked{Call: protocol.MessageExecutor{Agent: agent, Executor: executor, Data: data}})
}

// Shutdown ends an executor and its tasks: it has its own ShutdownGrace, then it is
// killed. It is asked for once; [ExecutorWatcher] hears of the end. Between sessions
// nothing is asked.
func (c *Client) Shutdown(agent api.AgentID, executor api.ExecutorID) error {
	return c.tell("executor.shutdown", core.CallAsked{Call: protocol.ShutdownExecutor{Agent: agent, Executor: executor}})
}

// AnswerInverse tells what the framework makes of inverse offers: true promises to
// give the resources back in time. After a true to a preemption the masters kill the
// named tasks at once; the answer to a maintenance is shown to operators, and tasks may
// stay until the window begins either way. An inverse offer ends with its session.
func (c *Client) AnswerInverse(accept bool, offers ...api.OfferID) error {
	return c.tell("framework.inverse", core.CallAsked{Call: protocol.AnswerInverse{Offers: offers, Accept: accept}})
}

// Reconcile asks for the state of the tasks; none = all. The SDK does it by itself at
// the start of each session and periodically, and then tells only what is news; here
// every task is told: its state through Update, with reason RECONCILIATION. A task that
// nobody knows is UNKNOWN; of one whose agent may yet come back to a new leader nothing
// is told until it is.
func (c *Client) Reconcile(tasks ...api.TaskID) error {
	return c.tell("framework.reconcile", core.ReconcileAsked{Tasks: tasks})
}

// ReconcileOperations asks again what became of operations that were given an ID; none =
// all that the masters remember: of each framework the last 1,000 that changed what is
// reserved, through any failover. The answers come to [OperationWatcher], with an error of
// kind [api.NotFound] for an operation that nobody knows: it has changed nothing, or is
// older than those. The SDK asks by itself, at the start of each session, for operations
// of this Run that it has not heard of; a scheduler that restarts without memory asks here.
func (c *Client) ReconcileOperations(operations ...api.OperationID) error {
	const op = "framework.reconcileOperations"
	for _, id := range operations {
		if err := api.CheckID("operation", string(id)); err != nil {
			return api.E(op, api.Invalid, id, err)
		}
	}
	return c.tell(op, core.OperationsAsked{Operations: operations})
}

// Teardown removes the framework with its tasks, for ever; Run then returns nil.
func (c *Client) Teardown() error {
	return c.tell("framework.teardown", core.TeardownAsked{})
}
