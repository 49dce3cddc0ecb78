package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// followUp is what the core does once a record is on disk. It is a value that names what it concerns. Much may have
// changed by then, so the code that carries it out checks again.
//
//sumtype:decl
type followUp interface{ followUp() }

// What can follow a record.
type (
	// greetLeader: the identity is safe, so the leader may see its nonce (R7).
	greetLeader struct{ conn Conn }
	// obeyHeld: the newer term or the ID is safe, so the batches that wait for it are obeyed.
	obeyHeld struct{ conn Conn }
	// openSession: the ID is safe, so the session with the leader begins.
	openSession struct{ conn Conn }
	// killDrained: the order to drain is safe, so all tasks are killed.
	killDrained struct{}
	// clearAgent: the end of this agent's identity is safe, so everything is killed.
	clearAgent struct{ why string }
	// clearFramework: the removal is safe, so all that the framework has here ends.
	clearFramework struct{ framework api.FrameworkID }

	// forkExecutor: the start is safe, so there may be a child (R10).
	forkExecutor struct{ run Run }
	// releaseExecutor: the child's process is safe, so its gate opens (R10).
	releaseExecutor struct{ run Run }
	// shutDownExecutor: the order is safe, so the executor is told and has its grace.
	shutDownExecutor struct{ run Run }
	// repeatShutdown: the order is safe, so it is repeated to an executor that has come back with this stream.
	repeatShutdown struct {
		run  Run
		conn Conn
	}
	// acknowledgeExecutor: the status is safe, so the executor may forget it.
	acknowledgeExecutor struct {
		conn   Conn
		answer protocol.ExecutorAcknowledged
	}

	// handOverTask: the launch is safe, so the task may start.
	handOverTask struct{ task TaskLaunch }
	// carryOutKill: the kill is safe, so it is carried out (R12).
	carryOutKill struct{ task TaskLaunch }
	// confirmKill: the kill is safe, so the leader may rely on it (R12).
	confirmKill struct{ task api.TaskRef }
	// endGroup: the bad end of a task is safe, so the others of its group are killed (R46).
	endGroup struct{ task TaskLaunch }
	// tellStatus: the status is safe, so the leader may see it.
	tellStatus struct {
		task    TaskLaunch
		number  uint64
		running bool // the status is RUNNING
	}

	// makeVolume: the volume is safe, so its folder is made.
	makeVolume struct{ volume api.VolumeID }
	// confirmDestroyed: the record that the volume is gone is safe, so the leader may offer its disk again (R22).
	confirmDestroyed struct {
		volume     api.VolumeID
		generation uint64
	}
)

func (greetLeader) followUp()         {}
func (obeyHeld) followUp()            {}
func (openSession) followUp()         {}
func (killDrained) followUp()         {}
func (clearAgent) followUp()          {}
func (clearFramework) followUp()      {}
func (forkExecutor) followUp()        {}
func (releaseExecutor) followUp()     {}
func (shutDownExecutor) followUp()    {}
func (repeatShutdown) followUp()      {}
func (acknowledgeExecutor) followUp() {}
func (handOverTask) followUp()        {}
func (carryOutKill) followUp()        {}
func (confirmKill) followUp()         {}
func (endGroup) followUp()            {}
func (tellStatus) followUp()          {}
func (makeVolume) followUp()          {}
func (confirmDestroyed) followUp()    {}

// checkpointed carries out everything that was waiting for these records.
func (c *Core) checkpointed(w Checkpointed) {
	c.disk.stored = max(c.disk.stored, w.Number)
	for len(c.disk.waiting) > 0 && c.disk.waiting[0].number <= c.disk.stored {
		what := c.disk.waiting[0].what
		c.disk.waiting[0] = waiter{}
		c.disk.waiting = c.disk.waiting[1:]
		c.carryOut(what)
	}
}

func (c *Core) carryOut(what followUp) {
	switch w := what.(type) {
	case greetLeader:
		c.leader.greet(w.conn)
	case obeyHeld:
		c.obeyHeld(w.conn)
	case openSession:
		if c.leader.conn == w.conn {
			c.beginSession()
		}
	case killDrained:
		c.killForDrain()
	case clearAgent:
		if c.leader.conn != 0 {
			c.leader.leave("this agent was marked gone: " + w.why)
		}
		c.clearAgent()
	case clearFramework:
		c.clearFramework(w.framework)
	case forkExecutor:
		c.executors.forkExecutor(w.run)
	case releaseExecutor:
		c.executors.releaseExecutor(w.run)
	case shutDownExecutor:
		c.executors.beginShutdown(w.run)
	case repeatShutdown:
		c.executors.repeatShutdown(w.run, w.conn)
	case acknowledgeExecutor:
		c.emit(ToExecutor{w.conn, w.answer})
	case handOverTask:
		if t := c.state.launched(w.task); t != nil {
			c.launches.prepareTask(t)
			c.launches.handOverTask(t)
		}
	case carryOutKill:
		if t := c.state.launched(w.task); t != nil {
			c.kills.actOnKill(t)
		}
	case confirmKill:
		c.leader.tell(protocol.KillTaken{TaskRef: w.task})
	case endGroup:
		if t := c.state.launched(w.task); t != nil {
			c.kills.endGroup(t)
		}
	case tellStatus:
		c.statuses.statusStored(w)
	case makeVolume:
		c.volumes.makeFolder(w.volume)
	case confirmDestroyed:
		c.leader.tell(protocol.VolumeDone{Volume: w.volume, Generation: w.generation})
	}
}
