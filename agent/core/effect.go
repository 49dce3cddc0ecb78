package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Effect is something that the shell is to do. It is one of the types below; some of them are Work. The shell performs
// effects in order, and what is sent to one stream leaves in that order.
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
	// Checkpoint writes a record after all earlier ones. Checkpointed follows once the record is durable; one
	// Checkpointed may answer several.
	Checkpoint struct {
		Number uint64
		Record Record
	}

	// ToLeader queues a call on the leader's stream. If its queue is full, the stream is closed and LeaderClosed
	// follows.
	ToLeader struct {
		Conn Conn
		Call protocol.AgentCall
	}
	// CloseLeader ends the stream; the shell looks for the leader again.
	CloseLeader struct {
		Conn Conn
		Why  string
	}

	// ToExecutor queues an event on an executor's stream. If its queue is full, the stream is closed, ExecutorClosed
	// follows and the executor subscribes again.
	ToExecutor struct {
		Conn  Conn
		Event protocol.ExecutorEvent
	}
	// HandOver makes the task's folder and then queues ExecutorLaunch on the stream, together with the values of the
	// task's secrets that are environment variables.
	HandOver struct {
		Conn   Conn
		Task   TaskLaunch
		Launch protocol.ExecutorLaunch
	}
	// CloseExecutor ends a stream after all that is queued was sent; Err is the stream's status.
	CloseExecutor struct {
		Conn Conn
		Err  *api.Error
	}

	// StartExecutor makes the executor's folder with its volumes, fetches its files and
	// forks a child that waits at a gate. ExecutorForked or ExecutorFailed follows.
	StartExecutor struct {
		Run      Run
		Executor api.Executor
		Builtin  bool // it is the agent's own executor for commands; Executor.Command is empty
		Sandbox  string
		Volumes  []api.VolumeID
	}
	// ReleaseExecutor opens the gate: the child becomes the executor. ExecutorExited follows when it has ended.
	ReleaseExecutor struct{ Run Run }
	// AbandonExecutor ends a start that is no longer wanted, however far it has come. If the child waits at its gate,
	// ExecutorExited follows; if there is no child yet, ExecutorFailed follows.
	AbandonExecutor struct{ Run Run }
	// KillGroups sends SIGKILL to all processes within the executor's walls until none is left. If the executor has no
	// walls, SIGKILL goes to its whole session and to all processes that were started with its folder in their
	// environment. GroupsGone follows.
	KillGroups struct {
		Run     Run
		Leader  Process // the zero value: there never was a process
		Sandbox string  // the executor's folder
	}
	// KillGroup sends SIGKILL to all processes within one task's walls, or to its process group if that group belongs
	// to the executor. Nothing follows: the executor will report that the task has ended.
	KillGroup struct {
		Task     api.TaskRef
		Group    Process
		Executor api.ExecutorRef
		Leader   Process // the executor's process
		Sandbox  string  // the executor's folder
	}

	// PrepareTask makes the task's folder, makes its volumes visible there, fetches its files and pulls its image. Then
	// it tries whether the task's ports are free. TaskPrepared follows.
	PrepareTask struct {
		Task    TaskLaunch
		Image   string // "": it has none
		URIs    []api.URI
		Volumes []api.VolumeID
		Sandbox string
		Builtin bool         // its executor is the agent's own for commands
		User    string       // the user that the command asks for; "" = none
		Owner   string       // the principal for whom the framework runs the task; "" = the framework's own
		Secrets []api.Secret // the secrets that are files; the shell has their values
		Ports   map[string]uint16
		DiskMax int64 // how many bytes its files may take; 0: it has not said
	}
	// TaskEnded tells those who read the task's output that it has ended. The shell drops what it keeps of the task's
	// secrets, and if Sandbox is set also their files there. Volumes are those that the task's executor no longer
	// needs, if that is a framework's own executor.
	TaskEnded struct {
		Task     api.TaskRef
		Sandbox  string
		Executor api.ExecutorRef
		Volumes  []api.VolumeID
	}
	// DropSecrets makes the shell forget the values of a task's secrets, because its executor has them or they are not
	// wanted.
	DropSecrets struct{ Task api.TaskRef }
	// RemoveFolder deletes a sandbox. The same path may be created again at once, so the shell moves the folder out of
	// the way before it performs the next effect. Free says that no process can have it open, or anything in it: its
	// executor has ended, and so has each that ran beside the executor's tasks.
	RemoveFolder struct {
		Path string
		Free bool
	}

	// CreateVolume makes a volume's folder if it does not exist. New says that the agent had no such volume before: a
	// folder that exists already is then somebody else's data and is put aside.
	CreateVolume struct {
		Volume api.VolumeID
		New    bool
	}
	// DestroyVolume deletes a volume with its data (R22). VolumeDestroyed follows.
	DestroyVolume struct {
		Volume     api.VolumeID
		Generation uint64
	}

	// Sample asks how much the executors and tasks really use. Sampled follows.
	Sample struct{ Targets []Target }

	// Forget ends this core's life: the shell empties the checkpoint and begins a new agent with a new nonce (R16).
	Forget struct{ Why string }
	// Stop ends the daemon with an error that a person has to read. Executors live on.
	Stop struct{ Err *api.Error }
	// Log reports one decision, with identifiers as fields and in the words of the transcripts.
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
