package core

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// killTask stores a kill, says so, and acts (R12). A second one is answered alike and
// passed on again; the first one's reason stays.
func (c *Core) killTask(e protocol.KillTask) {
	t := c.state.tasks[e.TaskRef]
	switch {
	case t == nil:
		c.log("kill of an unknown task ignored", field("task", e.TaskRef.String()))
		return
	case t.ended():
		c.tell(protocol.KillTaken{TaskRef: t.ref})
		return
	case t.kill == nil:
		c.storeKill(t, e.Grace, e.Reason)
	case t.killable && t.handed:
		c.passKill(t)
	}
	c.after(c.written, confirmKill{t.ref})
}

func (c *Core) storeKill(t *task, grace time.Duration, reason api.Reason) {
	grace = cmp.Or(max(grace, 0), t.launch.Task.KillGrace, c.config.KillGrace)
	number := c.put(TaskKilled{Task: t.ref, Grace: grace, Reason: reason})
	c.log("task is to be killed", field("task", t.ref.String()), field("why", reason.String()))
	c.after(number, carryOutKill{t.launchID()})
}

// actOnKill ends a task that its executor never got, or asks its executor.
func (c *Core) actOnKill(t *task) {
	if t.ended() || t.kill == nil || !t.killable {
		return
	}
	if !t.handed {
		c.setStatus(t, api.TaskKilled, t.kill.Reason, "killed before it was started")
		return
	}
	if t.latest.State == api.TaskRunning {
		c.setStatus(t, api.TaskKilling, t.kill.Reason, "")
	}
	c.passKill(t)
	t.pressed = c.config.KillSlack
	c.in(t.kill.Grace+t.pressed, timer{kind: timerKill, task: t.ref})
}

func (c *Core) passKill(t *task) {
	if e := c.state.executors[t.executor]; e != nil && e.listening() {
		c.emit(ToExecutor{e.conn, protocol.ExecutorKill{Task: t.ref.Task, Grace: t.kill.Grace}})
	}
}

// killDue lends a hand to an executor that has not ended a killed task in time: first
// SIGKILL to the task's own process group. A task without one can only be ended with
// its executor, which is done when no other task would suffer; otherwise the scheduler is
// told so, and the executor is asked again, with growing pauses.
func (c *Core) killDue(ref api.TaskRef) {
	t := c.state.tasks[ref]
	if t == nil || t.ended() || t.kill == nil {
		return
	}
	e := c.state.executors[t.executor]
	if e == nil || e.phase == phaseEnding {
		return // it ends with its executor
	}
	t.nudges++
	switch {
	case t.group.PID != 0 && t.nudges <= 2:
		c.emit(KillGroup{Task: ref, Group: t.group, Leader: e.started.Process, Sandbox: c.executorFolder(e.ref())})
		c.log("task did not end in time: SIGKILL to its process group", field("task", ref.String()))
	case len(e.tasks) == 1:
		c.log("task did not end in time: its executor is killed", field("task", ref.String()))
		c.killExecutor(e, t.kill.Reason, "it did not end its only task within the grace")
		return
	default:
		c.tellHung(t, e)
		c.passKill(t)
	}
	t.pressed = min(2*t.pressed, time.Minute)
	c.in(t.pressed, timer{kind: timerKill, task: ref})
}

// tellHung says, once, why a killed task goes on: nothing but the end of its executor can
// end it, and that would be the end of its neighbours.
func (c *Core) tellHung(t *task, e *executor) {
	if t.latest.State != api.TaskKilling || t.latest.Message != "" {
		return
	}
	others := "another task"
	if n := len(e.tasks) - 1; n > 1 {
		others = fmt.Sprintf("%d other tasks", n)
	}
	c.log("task did not end in time: its executor runs others", field("task", t.ref.String()))
	c.setStatus(t, api.TaskKilling, t.kill.Reason, fmt.Sprintf("it has not ended within its grace of %v, and its executor %s runs %s; "+
		"it ends when it is alone there, or at once with all of them when the executor is shut down", t.kill.Grace, t.executor.Executor, others))
}

// drain refuses launches from now on and kills what runs; or takes that back. Stored
// before it is obeyed (R31).
func (c *Core) drain(e protocol.Drain) {
	who := c.state.identity
	who.Draining, who.DrainGrace = e.On, e.Grace
	number := c.identity
	if who != c.state.identity {
		number = c.put(who)
		c.log("drain", field("on", map[bool]string{true: "yes", false: "no"}[e.On]))
	}
	if e.On {
		c.after(number, killDrained{})
	}
}

func (c *Core) killForDrain() {
	if !c.state.identity.Draining {
		return
	}
	for _, t := range c.state.tasksInOrder() {
		if !t.ended() && t.kill == nil {
			c.storeKill(t, c.state.identity.DrainGrace, api.ReasonAgentDraining)
		}
	}
}

// agentGone kills everything and, when nothing is left, begins a new agent (R16).
func (c *Core) agentGone(e protocol.AgentGone) {
	who := c.state.identity
	who.Gone = true
	number := c.put(who)
	c.log("marked gone", field("why", e.Why))
	c.after(number, clearAgent{e.Why})
}

func (c *Core) clearAll() {
	for _, e := range c.state.executorsInOrder() {
		c.killExecutor(e, api.ReasonAgentGone, "its agent was marked gone")
	}
	c.forgetIfClear()
}

func (c *Core) forgetIfClear() {
	if c.state.identity.Gone && len(c.state.executors) == 0 {
		c.emit(Forget{"the agent was marked gone and everything on it is killed"})
	}
}
