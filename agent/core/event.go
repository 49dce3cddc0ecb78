package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Conn names one stream, of the leader or of an executor; the shell counts them.
// 0 is none.
type Conn uint64

// Event is what the core steps: something that happened, and when.
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
	// Started is the first happening of a core's life. Alive lists the runs of
	// executors whose processes were found, each verified by PID and start time.
	Started struct {
		BootID string
		// Nonce serves a first contact, when the checkpoint has none (R7).
		Nonce api.Nonce
		Alive []Run
	}

	// LeaderOpened brings a new stream to a master that may be the leader. The one
	// before is closed.
	LeaderOpened struct{ Conn Conn }
	// LeaderSaid brings a batch from it.
	LeaderSaid struct {
		Conn  Conn
		Batch protocol.AgentEvents
	}
	// LeaderClosed says that the stream is gone, by whoever's doing. Removed: the master
	// said that this agent's identity is no more.
	LeaderClosed struct {
		Conn    Conn
		Removed bool
	}

	// ExecutorOpened brings a new executor's stream with its first call.
	ExecutorOpened struct {
		Conn      Conn
		Subscribe protocol.SubscribeExecutor
	}
	// ExecutorCalled brings the calls that follow.
	ExecutorCalled struct {
		Conn  Conn
		Calls []protocol.ExecutorCall
	}
	// ExecutorClosed says that the stream is gone; nothing of it follows.
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
	// GroupsGone answers KillGroups: no process of them is left. With a reason the executor
	// came to its end for it: a limit of its walls.
	GroupsGone struct {
		Run     Run
		Reason  api.Reason
		Message string
	}

	// TaskPrepared answers PrepareTask, and comes unasked when a task's folder
	// could not be made. Reason is ReasonNone when all is there. Image is that of PrepareTask with
	// the digest that was pulled.
	TaskPrepared struct {
		Task    api.TaskRef
		Image   string
		Reason  api.Reason
		Message string
	}

	// Checkpointed says that the records up to Number survive this process.
	Checkpointed struct{ Number uint64 }
	// DiskRoom says how the disk is. Full: the checkpoint lives on its reserve (R14).
	// Low: sandboxes of ended tasks should go.
	DiskRoom struct{ Full, Low bool }
	// Sampled answers Sample.
	Sampled struct{ Usage protocol.UsageReport }
	// Measured says what the sandboxes of some tasks take of the disk, in bytes. It comes unasked.
	Measured struct{ Sandboxes map[api.TaskRef]int64 }
	// VolumeDestroyed answers DestroyVolume.
	VolumeDestroyed struct {
		Volume api.VolumeID
		Err    string
	}

	// Woken comes at the moment that Wake asked for.
	Woken struct{}
	// Away says that the loop itself did not run for Gap: deadlines of liveness move (R23).
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

// Process is an executor's process, or a task's process group by its leader. Start
// tells it from a later one of the same number: clock ticks since boot.
type Process struct {
	PID   int
	Start uint64
}
