package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Record is one durable step of an agent. The checkpoint keeps records in order. A core that is made from them has the
// same durable state as the core that wrote them.
//
//sumtype:decl
type Record interface{ record() }

// The records. Those about the agent itself and its volumes survive a crash of the machine. The others survive a crash
// of the agent's process.
type (
	// Identity says who the agent is; the last Identity record counts.
	Identity struct {
		Nonce   api.Nonce
		Cluster api.ClusterID
		Agent   api.AgentID
		// Term is the newest term that this agent has obeyed (R1).
		Term   api.Term
		BootID string
		// Rebooted holds from a start with another boot ID until a leader has this agent's report (R13).
		Rebooted   bool
		Draining   bool
		DrainGrace time.Duration
		// Gone holds from AgentGone until everything has been killed (R16).
		Gone bool
	}
	// VolumeKept is written before a volume's folder is made.
	VolumeKept struct{ Volume protocol.Volume }
	// VolumeForgotten is written after a volume's folder was deleted.
	VolumeForgotten struct{ Volume api.VolumeID }

	// FrameworkKept is the agent's copy of a framework (R21); the last record counts.
	FrameworkKept struct{ Framework api.Framework }
	// FrameworkRemoved says that the framework was removed: statuses of its tasks need no acknowledgement any more.
	FrameworkRemoved struct{ Framework api.FrameworkID }
	// FrameworkForgotten says that nothing of the framework is left here.
	FrameworkForgotten struct{ Framework api.FrameworkID }

	// ExecutorStarting is written before every start. Without an ExecutorStarted for the same run nothing ran (R10).
	// Receipt is the leader's, of the launch that starts it; bytes (R40).
	ExecutorStarting struct {
		Run          Run
		Executor     api.Executor
		Role         api.Role
		Resources    api.Resources
		Builtin      bool
		LaunchTerm   api.Term
		LaunchNumber uint64
		Receipt      string
	}
	// ExecutorStarted is written before the gate is opened.
	ExecutorStarted struct {
		Run       Run
		Process   Process
		TokenHash string
	}
	// ExecutorStopping is written before an executor is told to end. From then on no process of the agent hands it
	// tasks. Kill: it is killed at once.
	ExecutorStopping struct {
		Run    Run
		Kill   bool
		Reason api.Reason
		Why    string
	}
	// ExecutorForgotten says that no process of the run and its tasks is left.
	ExecutorForgotten struct{ Run Run }

	// TaskLaunched is a launch as the leader sent it. Began is when a task with a longest time was RUNNING for the
	// first time: the status that says so sets it, and a compacted checkpoint contains it.
	TaskLaunched struct {
		Task              api.Task
		Framework         api.FrameworkID
		Role              api.Role
		Resources         api.Resources
		ExecutorResources api.Resources
		Term              api.Term
		Number            uint64
		Receipt           string // a receipt that the leader sent along; bytes (R40)
		ExecutorReceipt   string // that of the executor, if this launch starts it; bytes
		At                time.Time
		Began             time.Time
		Group             api.TaskGroupID // "" = it was launched by itself (R46)
		GroupFirst        api.TaskID      // the task in whose sandbox the group's folder is
		GPUs              []uint32        // indices of the GPUs that are the task's own until it ends
	}
	// TaskKilled is written before a kill is carried out (R12).
	TaskKilled struct {
		Task   api.TaskRef
		Grace  time.Duration
		Reason api.Reason
		Why    string // more about the reason, for people
	}
	// TaskGroup is the process group of a task. It is written when no status carries it.
	TaskGroup struct {
		Task  api.TaskRef
		Group Process
	}
	// TaskStatus is written before a status is sent, and before it is acknowledged to the executor. ExecutorNumber is
	// the number that the executor gave it; 0 = it is the agent's own. Progress: the next report of progress may
	// replace it.
	TaskStatus struct {
		Status         api.Status
		ExecutorNumber uint64
		Group          Process
		Progress       bool
	}
	// TaskAcknowledged settles the task's statuses up to Number. When its last one is settled, the task becomes a stub
	// (R15).
	TaskAcknowledged struct {
		Task   api.TaskRef
		Number uint64
	}
	// StubKept is a stub; it is written in a compacted checkpoint.
	StubKept struct{ Stub protocol.TaskStub }
	// StubForgotten says that a stub was dropped and its sandbox is to be removed.
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
