package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Record is one durable step of an agent. The checkpoint keeps records in order, and
// a core that is made from them stands where the one that wrote them stood.
//
//sumtype:decl
type Record interface{ record() }

// frameworkRecord is a record about one framework.
//
//sumtype:decl
type frameworkRecord interface {
	Record
	ofFramework()
}

// executorRecord is a record about one run of an executor.
//
//sumtype:decl
type executorRecord interface {
	Record
	ofExecutor()
}

// taskRecord is a record about one task.
//
//sumtype:decl
type taskRecord interface {
	Record
	ofTask()
}

// The records. Those about the agent itself and its volumes survive a crash of the
// machine, the others a crash of the agent's process.
type (
	// Identity is who the agent is; the last one counts.
	Identity struct {
		Nonce   api.Nonce
		Cluster api.ClusterID
		Agent   api.AgentID
		// Term is the newest that this agent has obeyed (R1).
		Term   api.Term
		BootID string
		// Rebooted holds from a start with another boot ID until a leader has our report (R13).
		Rebooted   bool
		Draining   bool
		DrainGrace time.Duration
		// Gone holds from AgentGone until everything has been killed (R16).
		Gone bool
	}
	// VolumeKept holds from before a volume's folder is made.
	VolumeKept struct{ Volume api.Resource }
	// VolumeForgotten follows the deletion of its folder.
	VolumeForgotten struct{ Volume api.VolumeID }

	// FrameworkKept is the agent's copy of a framework (R21); the last one counts.
	FrameworkKept struct{ Framework api.Framework }
	// FrameworkRemoved says that its statuses need no acknowledgement any more.
	FrameworkRemoved struct{ Framework api.FrameworkID }
	// FrameworkForgotten says that nothing of it is left.
	FrameworkForgotten struct{ Framework api.FrameworkID }

	// ExecutorStarting precedes every start. Without its ExecutorStarted nothing ran (R10).
	ExecutorStarting struct {
		Run       Run
		Executor  api.Executor
		Role      api.Role
		Resources api.Resources
		Builtin   bool
	}
	// ExecutorStarted precedes the opening of the gate.
	ExecutorStarted struct {
		Run       Run
		Process   Process
		TokenHash string
	}
	// ExecutorStopping precedes every word to an executor that it is to end: the agent's next
	// process hands it nothing either. Kill: it is ended at once.
	ExecutorStopping struct {
		Run    Run
		Kill   bool
		Reason api.Reason
		Why    string
	}
	// ExecutorForgotten says that no process of it and its tasks is left.
	ExecutorForgotten struct{ Run Run }

	// TaskLaunched is a launch as the leader sent it. Began is when a task that may not run for ever was RUNNING first:
	// it is set by the status that says so, and written in a compacted checkpoint.
	TaskLaunched struct {
		Task              api.Task
		Framework         api.FrameworkID
		Role              api.Role
		Resources         api.Resources
		ExecutorResources api.Resources
		Term              api.Term
		Number            uint64
		Receipt           string // of the leader; bytes (R40)
		At                time.Time
		Began             time.Time
		Group             api.TaskGroupID // "" = it was launched by itself (R46)
		GroupFirst        api.TaskID      // in whose sandbox the group has its folder
		GPUs              []uint32        // by index; its own until it ends
	}
	// TaskKilled precedes every act of a kill (R12).
	TaskKilled struct {
		Task   api.TaskRef
		Grace  time.Duration
		Reason api.Reason
		Why    string // more about the reason, for people
	}
	// TaskGroup is the process group of a task, when no status could carry it.
	TaskGroup struct {
		Task  api.TaskRef
		Group Process
	}
	// TaskStatus precedes every sending of a status, and its acknowledgement to the
	// executor. ExecutorNumber is the executor's number of it; 0 = the agent's own. Progress
	// may be replaced by the next one.
	TaskStatus struct {
		Status         api.Status
		ExecutorNumber uint64
		Group          Process
		Progress       bool
	}
	// TaskAcknowledged settles statuses up to Number. With the terminal one the task
	// becomes a stub (R15).
	TaskAcknowledged struct {
		Task   api.TaskRef
		Number uint64
	}
	// StubKept is a stub, in a compacted checkpoint.
	StubKept struct{ Stub protocol.TaskStub }
	// StubForgotten says that its sandbox is to go.
	StubForgotten struct{ Task api.TaskRef }
)

func (Identity) record()           {}
func (VolumeKept) record()         {}
func (VolumeForgotten) record()    {}
func (FrameworkKept) record()      {}
func (FrameworkRemoved) record()   {}
func (FrameworkForgotten) record() {}
func (ExecutorStarting) record()   {}
func (ExecutorStarted) record()    {}
func (ExecutorStopping) record()   {}
func (ExecutorForgotten) record()  {}
func (TaskLaunched) record()       {}
func (TaskKilled) record()         {}
func (TaskGroup) record()          {}
func (TaskStatus) record()         {}
func (TaskAcknowledged) record()   {}
func (StubKept) record()           {}
func (StubForgotten) record()      {}

func (FrameworkKept) ofFramework()      {}
func (FrameworkRemoved) ofFramework()   {}
func (FrameworkForgotten) ofFramework() {}

func (ExecutorStarting) ofExecutor()  {}
func (ExecutorStarted) ofExecutor()   {}
func (ExecutorStopping) ofExecutor()  {}
func (ExecutorForgotten) ofExecutor() {}

func (TaskLaunched) ofTask()     {}
func (TaskKilled) ofTask()       {}
func (TaskGroup) ofTask()        {}
func (TaskStatus) ofTask()       {}
func (TaskAcknowledged) ofTask() {}
