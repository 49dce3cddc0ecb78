package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Effect is what the shell is to do; one of the types below, of which some are Work. The shell performs them
// in order. What goes to one stream leaves in that order.
//
//sumtype:decl
type Effect interface{ effect() }

// Work is an effect that concerns processes and folders, not streams.
//
//sumtype:decl
type Work interface {
	Effect
	work()
}

// The effects.
type (
	// Checkpoint writes a record behind those before it. Checkpointed follows once it
	// survives this process; one Checkpointed may answer many.
	Checkpoint struct {
		Number uint64
		Record Record
	}

	// ToLeader queues a call to the leader's stream. A stream whose queue is full is
	// closed; LeaderClosed follows.
	ToLeader struct {
		Conn Conn
		Call protocol.AgentCall
	}
	// CloseLeader ends the stream; the shell looks for the leader again.
	CloseLeader struct {
		Conn Conn
		Why  string
	}

	// ToExecutor queues an event to an executor's stream. A stream whose queue is full
	// is closed; ExecutorClosed follows and the executor comes back.
	ToExecutor struct {
		Conn  Conn
		Event protocol.ExecutorEvent
	}
	// HandOver makes the task's folder, then queues ExecutorLaunch to the stream, with the values of those of the task's
	// secrets that are variables.
	HandOver struct {
		Conn   Conn
		Task   api.TaskRef
		Launch protocol.ExecutorLaunch
	}
	// CloseExecutor ends a stream after what is queued; Err is its status.
	CloseExecutor struct {
		Conn Conn
		Err  *api.Error
	}

	// StartExecutor makes the executor's folder with its volumes, fetches its files and
	// forks a child that waits at a gate. ExecutorForked or ExecutorFailed follows.
	StartExecutor struct {
		Run      Run
		Executor api.Executor
		Builtin  bool // the agent's own for commands: Executor.Command is empty
		Sandbox  string
		Volumes  []api.VolumeID
	}
	// ReleaseExecutor opens the gate: the child becomes the executor. ExecutorExited follows when it has ended.
	ReleaseExecutor struct{ Run Run }
	// AbandonExecutor ends a start that is no longer wanted, however far it has come.
	// Of a child at the gate ExecutorExited follows, before that ExecutorFailed.
	AbandonExecutor struct{ Run Run }
	// KillGroups sends SIGKILL to all within the executor's walls until nothing of them is
	// left; where it has none, to all its session and to all that was started with its folder
	// in the environment.
	// GroupsGone follows.
	KillGroups struct {
		Run     Run
		Leader  Process // the zero value: it never had one
		Sandbox string  // the executor's folder
	}
	// KillGroup sends SIGKILL to all within one task's walls, or to its process group, if
	// that is the executor's own.
	// Nothing follows: its executor will say that the task has ended.
	KillGroup struct {
		Task     api.TaskRef
		Group    Process
		Executor api.ExecutorRef
		Leader   Process // the executor
		Sandbox  string  // the executor's folder
	}

	// PrepareTask makes the task's folder, shows its volumes there, fetches its files and pulls its image.
	// TaskPrepared follows.
	PrepareTask struct {
		Task    api.TaskRef
		Image   string // "": it has none
		URIs    []api.URI
		Volumes []api.VolumeID
		Sandbox string
		Builtin bool         // its executor is the agent's own
		User    string       // whom the command asks for, "" for nobody
		Secrets []api.Secret // those that are files; the shell has their values
	}
	// TaskEnded says that the task has ended, to whoever reads its output. What is kept of its secrets goes, and where
	// it names its folder the files of these. Its executor needs the volumes no more, if it is a framework's own.
	TaskEnded struct {
		Task     api.TaskRef
		Sandbox  string
		Executor api.ExecutorRef
		Volumes  []api.VolumeID
	}
	// DropSecrets has the values of a task's secrets forgotten: its executor has them, or they are not wanted.
	DropSecrets struct{ Task api.TaskRef }
	// RemoveFolder deletes a sandbox. The same path may be made again at once, so it is
	// moved out of the way before the next effect.
	RemoveFolder struct{ Path string }

	// CreateVolume makes a volume's folder, if it is not there. New: the agent had no such
	// volume, so a folder that is there is somebody else's data and is put aside.
	CreateVolume struct {
		Volume api.VolumeID
		New    bool
	}
	// DestroyVolume deletes a volume with its data (R22). VolumeDestroyed follows.
	DestroyVolume struct{ Volume api.VolumeID }

	// Sample asks what the executors and tasks really use. Sampled follows.
	Sample struct{ Targets []Target }

	// Forget ends this core's life: the shell empties the checkpoint and begins a new
	// agent with a new nonce (R16).
	Forget struct{ Why string }
	// Stop ends the daemon with an error that a person has to read. Executors live on.
	Stop struct{ Err *api.Error }
	// Log reports one decision: identifiers as fields, the words of the transcripts.
	Log struct {
		Message string
		Fields  []Field
	}
)

// Field is one field of a log line.
type Field struct{ Name, Value string }

// Target is what Sample measures: an executor and those of its tasks that have a
// process group of their own.
type Target struct {
	Executor api.ExecutorRef
	Leader   Process
	Tasks    []TargetTask
}

// TargetTask is one task of a Target.
type TargetTask struct {
	Task  api.TaskID
	Group Process
}

func (Checkpoint) effect()      {}
func (ToLeader) effect()        {}
func (CloseLeader) effect()     {}
func (ToExecutor) effect()      {}
func (HandOver) effect()        {}
func (CloseExecutor) effect()   {}
func (StartExecutor) effect()   {}
func (ReleaseExecutor) effect() {}
func (AbandonExecutor) effect() {}
func (KillGroups) effect()      {}
func (KillGroup) effect()       {}
func (PrepareTask) effect()     {}
func (TaskEnded) effect()       {}
func (DropSecrets) effect()     {}
func (RemoveFolder) effect()    {}
func (CreateVolume) effect()    {}
func (DestroyVolume) effect()   {}
func (Sample) effect()          {}
func (Forget) effect()          {}
func (Stop) effect()            {}
func (Log) effect()             {}

func (StartExecutor) work()   {}
func (ReleaseExecutor) work() {}
func (AbandonExecutor) work() {}
func (KillGroups) work()      {}
func (KillGroup) work()       {}
func (PrepareTask) work()     {}
func (TaskEnded) work()       {}
func (DropSecrets) work()     {}
func (RemoveFolder) work()    {}
func (CreateVolume) work()    {}
func (DestroyVolume) work()   {}
func (Sample) work()          {}
