package protocol

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// ExecutorCall is one of the types below, up to ExecutorHeartbeat.
//
//sumtype:decl
type ExecutorCall interface{ executorCall() }

// The calls of executors. ExecutorMessage is also an event.
type (
	SubscribeExecutor struct {
		api.ExecutorRef
		Token          string
		Version        string
		Tasks          []api.TaskID
		Unacknowledged []ExecutorStatus
		More           bool // the next call is another page
	}
	ExecutorStatus struct {
		Task         api.TaskID
		Number       uint64
		State        api.TaskState
		Reason       api.Reason
		Message      string
		Data         []byte
		ExitCode     *int
		Healthy      *bool
		Output       *api.OutputSize
		ProcessGroup int    // 0 = the executor's own group
		ProcessStart uint64 // clock ticks since boot
		Progress     bool   // the next report of progress may replace it
	}
	ExecutorMessage   struct{ Data []byte }
	ExecutorHeartbeat struct{}
)

func (SubscribeExecutor) executorCall() {}
func (ExecutorStatus) executorCall()    {}
func (ExecutorMessage) executorCall()   {}
func (ExecutorHeartbeat) executorCall() {}

// ExecutorEvent is one of the types below, or ExecutorMessage.
//
//sumtype:decl
type ExecutorEvent interface{ executorEvent() }

// The events of executors.
type (
	ExecutorSubscribed struct {
		Agent           api.AgentID
		Hostname        string
		Executor        api.Executor
		Framework       api.Framework
		RecoveryTimeout time.Duration
	}
	ExecutorLaunch struct {
		Task    api.Task
		Sandbox string
		Shared  string // the folder of the task's group; "" = it was launched by itself
		GPUs    []api.GPU
		Secrets map[string]Hidden // secrets that are variables, by variable; the shell adds them
	}
	ExecutorKill struct {
		Task  api.TaskID
		Grace time.Duration
	}
	ExecutorAcknowledged struct {
		Task   api.TaskID
		Number uint64
	}
	ExecutorShutdown struct{ Grace time.Duration }
)

func (ExecutorSubscribed) executorEvent()   {}
func (ExecutorLaunch) executorEvent()       {}
func (ExecutorKill) executorEvent()         {}
func (ExecutorAcknowledged) executorEvent() {}
func (ExecutorMessage) executorEvent()      {}
func (ExecutorShutdown) executorEvent()     {}

// GPUIndices returns the indices of the GPUs.
func GPUIndices(gpus []api.GPU) []uint32 {
	indices := make([]uint32, len(gpus))
	for i, gpu := range gpus {
		indices[i] = gpu.Index
	}
	return indices
}
