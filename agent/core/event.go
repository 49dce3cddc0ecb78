package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Conn identifies one stream, of the leader or of an executor; the shell counts them. 0 means none.
type Conn uint64

// Event is the input of Core.Step: something that happened, and when.
type Event struct {
	At   time.Time // monotonic (R23)
	What Happening
}

// Happening is one of the types below.
//
//sumtype:decl
type Happening interface{ happening() }

// What can happen to an agent.
type (
	// Started is the first event of a core's life. Alive lists the runs of executors whose processes still exist; each
	// was verified by PID and start time.
	Started struct {
		BootID string
		// Nonce is used for the first contact when the checkpoint has none (R7).
		Nonce api.Nonce
		Alive []Run
	}

	// LeaderOpened brings a new stream to a master that may be the leader. An earlier stream is closed.
	LeaderOpened struct{ Conn Conn }
	// LeaderSaid brings a batch of events from that stream.
	LeaderSaid struct {
		Conn  Conn
		Batch protocol.AgentEvents
	}
	// LeaderClosed says that the stream has ended, whichever side ended it. Removed means that the master said that
	// this agent's identity was removed.
	LeaderClosed struct {
		Conn    Conn
		Removed bool
	}

	// ExecutorOpened brings a new stream of an executor with its first call.
	ExecutorOpened struct {
		Conn      Conn
		Subscribe protocol.SubscribeExecutor
	}
	// ExecutorCalled brings later calls of that stream.
	ExecutorCalled struct {
		Conn  Conn
		Calls []protocol.ExecutorCall
	}
	// ExecutorClosed says that the stream has ended; no event of it follows.
	ExecutorClosed struct{ Conn Conn }

	// ExecutorForked answers StartExecutor: the child waits at its gate (R10).
	ExecutorForked struct {
		Run       Run
		Process   Process
		TokenHash string // SHA-256 in hex
	}
	// ExecutorFailed answers StartExecutor: there is no child.
	ExecutorFailed struct {
		Run     Run
		Reason  api.Reason
		Message string
	}
	// ExecutorExited says that the executor's own process has ended.
	ExecutorExited struct {
		Run     Run
		Message string
	}
	// GroupsGone answers KillGroups: none of the processes is left. Reason is set when a limit of the executor's walls
	// ended it.
	GroupsGone struct {
		Run     Run
		Reason  api.Reason
		Message string
	}

	// TaskPrepared answers PrepareTask. It also comes unasked when a task's folder could not be made. Reason is
	// ReasonNone when everything is there. Image is the image of PrepareTask with the digest that was pulled. It is
	// ignored when it comes so late that its launch is over.
	TaskPrepared struct {
		Task    TaskLaunch
		Image   string
		Reason  api.Reason
		Message string
	}

	// Checkpointed says that all records up to Number are durable.
	Checkpointed struct{ Number uint64 }
	// DiskRoom says how full the disk is. Full: the checkpoint uses its reserve (R14). Low: sandboxes of ended tasks
	// should be removed. NoInodes: it is full because it can hold no more files, however many bytes are free.
	DiskRoom struct{ Full, Low, NoInodes bool }
	// Sampled answers Sample.
	Sampled struct{ Usage protocol.UsageReport }
	// Measured gives the sizes of some tasks' sandboxes and of some volumes on disk, in bytes. It comes unasked.
	Measured struct {
		Sandboxes map[api.TaskRef]int64
		Volumes   map[api.VolumeID]int64
	}
	// VolumeDestroyed answers DestroyVolume.
	VolumeDestroyed struct {
		Generation uint64
		Volume     api.VolumeID
		Err        string
	}

	// Woken comes at the time that Wake returned.
	Woken struct{}
	// Away says that the shell's loop did not run for Gap: deadlines that judge whether others are alive move by it
	// (R23).
	Away struct{ Gap time.Duration }
)

func (Started) happening()         {}
func (LeaderOpened) happening()    {}
func (LeaderSaid) happening()      {}
func (LeaderClosed) happening()    {}
func (ExecutorOpened) happening()  {}
func (ExecutorCalled) happening()  {}
func (ExecutorClosed) happening()  {}
func (ExecutorForked) happening()  {}
func (ExecutorFailed) happening()  {}
func (ExecutorExited) happening()  {}
func (GroupsGone) happening()      {}
func (TaskPrepared) happening()    {}
func (Checkpointed) happening()    {}
func (DiskRoom) happening()        {}
func (Sampled) happening()         {}
func (Measured) happening()        {}
func (VolumeDestroyed) happening() {}
func (Woken) happening()           {}
func (Away) happening()            {}

// Run is one start of an executor: an executor that ended and was started again has
// the same reference and a new number.
type Run struct {
	Executor api.ExecutorRef
	Number   uint64
}

// TaskLaunch identifies one launch of a task. Once a task that was DROPPED is forgotten, its ID may be launched again.
type TaskLaunch struct {
	api.TaskRef
	Launch api.LaunchID
}

// Process is an executor's process, or a task's process group, named by its leader. Start is the process's start time
// in clock ticks since boot; it tells the process from a later one with the same PID.
type Process struct {
	PID   int
	Start uint64
}
