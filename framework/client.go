package framework

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
)

// Client acts outside of callbacks. All methods may be called from any goroutine, also while there is no session: what
// still makes sense later is then sent in the next session. Unless a method says otherwise, it returns without waiting
// for a master; an error says that the call can't be right, or that Run has ended.
type Client struct {
	loop    *loop
	present *presence
	ended   chan struct{} // closed when Run ends
	lanes   *lanes        // they number the writes to the store
	// asked counts the requests whose callers wait for a reply.
	asked atomic.Uint64
}

var errEnded = errors.New("Run has ended")

// FrameworkID returns the framework's ID; "" before the first session of a new framework.
func (c *Client) FrameworkID() api.FrameworkID {
	known, _, _ := c.present.look()
	return known.ID
}

// Takeovers returns how often another instance of the framework has been active since this one was so last, counted
// since Run began. A registry that was restored from a snapshot can't tell, and counts as an instance. It grows before
// Subscribed is called: a scheduler that finds it grown there reads anew what it needs, because what it remembers is out
// of date. Only with [Config.Standby] it is ever more than 0.
func (c *Client) Takeovers() uint64 {
	_, _, takeovers := c.present.look()
	return takeovers
}

// StandsBy reports whether another instance of the framework is active, as the masters have said last; no callback is
// made then until this instance is active again. Only with [Config.Standby] it is ever true.
func (c *Client) StandsBy() bool {
	c.present.mu.Lock()
	defer c.present.mu.Unlock()
	return c.present.standsBy
}

// Answer answers offers that were kept. If an offer is gone, its tasks end DROPPED (INVALID_OFFERS), which Update is
// told.
func (c *Client) Answer(answers ...api.Answer) error {
	return c.tellCore("framework.answer", core.Answered{Answers: answers})
}

// KillOption says how a task is killed; see [Client.Kill].
type KillOption func(*killing)

// killing holds the options of a kill.
type killing struct{ grace time.Duration }

// Within gives the killed task this much time to end by itself, instead of its own KillGrace.
func Within(grace time.Duration) KillOption { return func(k *killing) { k.grace = grace } }

// Kill asks for the end of a task, within the task's own KillGrace or that of [Within]. The SDK repeats the kill until
// the task has ended. A further kill can shorten what is left of the grace but never lengthens it. To kill a task that
// has ended, or that nobody knows, does nothing.
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
	return c.tellCore(op, core.KillAsked{Task: task, Grace: how.grace})
}

// Acknowledge says that a status is handled for which Update has returned [ErrLater], or is about to return it. It does
// nothing if the status does not wait for it, or is acknowledged a second time. Between sessions it works as well: the
// agent hears of it when it sends the status again.
func (c *Client) Acknowledge(status api.Status) error {
	return c.tellCore("framework.acknowledge", core.StatusAcknowledged{Status: status})
}

// Demand replaces what the framework wants in the role ("" = its only role). It holds for all later sessions. It has at
// most 256 shapes; see [api.Shape]. A demand without shapes says that nothing is wanted; one with shapes undoes
// [Client.Suppress] in the role.
//
// A launch reduces the demand by itself, but the end of a task does not raise it again: a scheduler that wants the task
// once more has to say so. A demand that is stated while Offers runs takes effect behind the answers of that call, so
// it states what is wanted in addition to what they launch. A demand where there was none, or one with a new shape or a
// higher count, ends the filters of the role: what was declined before may suit it now.
//
// Only masters can judge a constraint. A new one is shown to the leader, and Demand returns what is wrong with it.
// If there is no leader, or it does not answer within a few seconds, Demand returns nil, and [RefusalWatcher] is told if
// the demand is refused later.
func (c *Client) Demand(demand api.Demand) error {
	const op = "framework.demand"
	if roles := c.ownRoles(); demand.Role == "" && len(roles) == 1 {
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
		if err := c.present.checkConstraint(shape.Constraint); err != nil {
			return api.E(op, api.Invalid, demand.Role, fmt.Errorf("the constraint of shape %d: %w", i+1, err))
		}
	}
	demand.Shapes = slices.Clone(demand.Shapes)
	return c.tellCore(op, core.DemandStated{Demand: demand, Behind: c.loop.callbacks.begunOffers.Load()})
}

// Wanted returns what is left of the role's demand ("" = the framework's only role): as it was stated last, less what
// was launched since. The leader shows the same numbers, and its policy uses them. stated is false if no demand was
// stated, or if Run has ended.
func (c *Client) Wanted(role api.Role) (shapes []api.Shape, stated bool) {
	if roles := c.ownRoles(); role == "" && len(roles) == 1 {
		role = roles[0]
	}
	_, answer, err := c.askCore("framework.wanted", func(number uint64) core.Happening { return core.WantedAsked{Request: number, Role: role} })
	if err != nil {
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
	mine := c.ownRoles()
	for _, role := range roles {
		if !slices.Contains(mine, role) {
			return api.E(op, api.Invalid, role, fmt.Errorf("the framework subscribed to the roles %v", mine))
		}
	}
	return nil
}

// ownRoles returns the framework's roles, as far as the masters have agreed to them. They are never edited.
func (c *Client) ownRoles() []api.Role {
	known, _, _ := c.present.look()
	return known.Roles
}

// Roles returns the roles in which the framework is offered resources, as far as the masters have agreed to them.
func (c *Client) Roles() []api.Role { return slices.Clone(c.ownRoles()) }

// Suppress stops offers in the roles; without arguments, in all roles.
func (c *Client) Suppress(roles ...api.Role) error {
	const op = "framework.suppress"
	if err := c.checkRoles(op, roles...); err != nil {
		return err
	}
	return c.tellCore(op, core.SuppressAsked{Roles: roles})
}

// Revive resumes offers in the roles and forgets their filters; without arguments, in all roles.
func (c *Client) Revive(roles ...api.Role) error {
	const op = "framework.revive"
	if err := c.checkRoles(op, roles...); err != nil {
		return err
	}
	return c.tellCore(op, core.ReviveAsked{Roles: roles})
}

// Message sends data to an executor, at most once and at most 256 KiB. The message is lost if there is no session, no
// such agent or no such executor at that moment.
func (c *Client) Message(agent api.AgentID, executor api.ExecutorID, data []byte) error {
	if len(data) > api.TaskBytesMax {
		return api.E("executor.message", api.Limit, executor, fmt.Errorf("%d bytes, at most %d are allowed", len(data), api.TaskBytesMax))
	}
	return c.tellCore("executor.message", core.CallAsked{Call: protocol.MessageExecutor{Agent: agent, Executor: executor, Data: data}})
}

// TellJob tells watchers of the cluster, and the masters' history, what has happened to a job of this framework. It is
// for what people look for later: versions, changes that went wrong, runs that failed. It is lost if there is no session
// at that moment, and refused (Limit) beyond 10 a second after 1,000 at once; [RefusalWatcher] is told of that.
func (c *Client) TellJob(event api.JobEvent) error {
	const op = "framework.event"
	if err := event.Check(); err != nil {
		return api.E(op, api.Invalid, event.Job, err)
	}
	if err := c.checkRoles(op, event.Role); err != nil {
		return err
	}
	return c.tellCore(op, core.CallAsked{Call: protocol.JobEvent{Event: event}})
}

// TellJobDemand tells how many tasks of which jobs of this framework wait for resources, for the metrics of the cluster:
// demands do not say it, as tasks of many jobs may be alike. It replaces what was told before; what [api.JobDemandMax]
// jobs do not name is summed under [api.OtherJobs]. It is lost if there is no session at that moment.
func (c *Client) TellJobDemand(wanted map[string]int64) error {
	const op = "framework.event"
	if err := api.CheckJobDemand(wanted); err != nil {
		return api.E(op, api.Invalid, "", err)
	}
	return c.tellCore(op, core.CallAsked{Call: protocol.JobDemand{Wanted: maps.Clone(wanted)}})
}

// Shutdown ends an executor and its tasks: after the executor's own ShutdownGrace it is killed. The SDK asks for it
// only once; [ExecutorWatcher] is told of the end. Between sessions Shutdown does nothing.
func (c *Client) Shutdown(agent api.AgentID, executor api.ExecutorID) error {
	return c.tellCore("executor.shutdown", core.CallAsked{Call: protocol.ShutdownExecutor{Agent: agent, Executor: executor}})
}

// AnswerInverse answers inverse offers: true promises to give the resources back in time. If a preemption is answered
// with true, the masters kill the named tasks at once. The answer to a maintenance is shown to operators; with either
// answer the tasks may stay until the window begins. An inverse offer ends with its session.
func (c *Client) AnswerInverse(accept bool, offers ...api.OfferID) error {
	return c.tellCore("framework.inverse", core.CallAsked{Call: protocol.AnswerInverse{Offers: offers, Accept: accept}})
}

// Reconcile asks for the state of the tasks; without arguments, of all tasks. Update is told the state of every task
// that was asked for, with reason RECONCILIATION. A task that nobody knows is UNKNOWN. If a task's agent may still come
// back to a new leader, nothing is told of the task until it has. The SDK reconciles by itself, at the start of each
// session and periodically, but then tells only what has changed.
func (c *Client) Reconcile(tasks ...api.TaskID) error {
	return c.tellCore("framework.reconcile", core.ReconcileAsked{Tasks: tasks})
}

// ReconcileAt is Reconcile for tasks that the scheduler believes to run on an agent, though this Run may know nothing of
// them. A task that nobody knows is then what the agent tells: GONE if the agent is there, UNREACHABLE, GONE_BY_OPERATOR
// or, if there is no such agent, UNKNOWN.
func (c *Client) ReconcileAt(agent api.AgentID, tasks ...api.TaskID) error {
	return c.tellCore("framework.reconcile", core.ReconcileAsked{Agent: agent, Tasks: tasks})
}

// ReconcileOperations asks again for the outcomes of operations that were given an ID; without arguments, of all that
// the masters remember. Of each framework they remember the last 1,000 operations that changed reservations or volumes,
// through any failover. [OperationWatcher] is told the outcomes. For an operation that nobody knows it is told an error
// of kind [api.NotFound]: the operation has changed nothing, or is older than those 1,000. The SDK asks by itself, at
// the start of each session, for the operations of this Run that it has heard no outcome of. Only a scheduler that
// restarts without memory needs to ask here.
func (c *Client) ReconcileOperations(operations ...api.OperationID) error {
	const op = "framework.reconcileOperations"
	for _, id := range operations {
		if err := api.CheckID("operation", string(id)); err != nil {
			return api.E(op, api.Invalid, id, err)
		}
	}
	return c.tellCore(op, core.OperationsAsked{Operations: operations})
}

// Teardown removes the framework and its tasks, for ever; then Run returns nil.
func (c *Client) Teardown() error {
	return c.tellCore("framework.teardown", core.TeardownAsked{})
}
