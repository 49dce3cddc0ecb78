package protocol

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
)

// AgentCall is one of the types below, up to NeedSecrets.
//
//sumtype:decl
type AgentCall interface{ agentCall() }

// The calls of agents.
type (
	RegisterAgent struct {
		Cluster api.ClusterID
		Version string
		Agent   api.Agent
		Nonce   api.Nonce
		BootID  string
	}
	ReregisterAgent struct {
		Cluster api.ClusterID
		Term    api.Term
		Version string
		Agent   api.Agent
		Nonce   api.Nonce
		BootID  string
	}
	AgentReport struct {
		Session    uint64
		Tasks      []ReportedTask
		Executors  []ReportedExecutor
		Frameworks []api.Framework
		Stubs      []TaskStub
		Volumes    []Volume
		Usage      *UsageReport
		Last       bool
		Rebooted   bool
	}
	AgentHeartbeat struct {
		Usage  UsageReport
		Unable string // why it can start nothing; "" = it can
	}
	StatusUpdate  struct{ Status api.Status }
	ExecutorEnded struct {
		api.ExecutorRef
		Message string
		Again   bool // another run of the executor has begun
		// NextLaunch: launches of this executor from this number on had not arrived at the agent. 0: it does not say.
		NextLaunch uint64
	}
	MessageFromExecutor struct {
		api.ExecutorRef
		Data []byte
	}
	KillTaken  struct{ api.TaskRef }
	VolumeDone struct {
		Volume     api.VolumeID
		Generation uint64
		Err        string
	}
	NeedSecrets struct{ api.TaskRef }
)

// ReportedTask is a task as its agent knows it.
type ReportedTask struct {
	Task       api.Task
	Framework  api.FrameworkID
	Role       api.Role
	Resources  api.Resources // as the leader took them from the offers, with labels
	Status     api.Status    // the latest, with the launch that made the task
	Ended      bool          // its terminal status awaits acknowledgement; its resources are free
	LaunchedAt time.Time
	Receipt    string // the receipt that came with the launch; bytes (R40)
}

// ReportedExecutor is a running executor as its agent knows it. LaunchTerm and LaunchNumber are those of the launch that
// has started it.
type ReportedExecutor struct {
	Executor     api.Executor
	Framework    api.FrameworkID
	Role         api.Role
	Resources    api.Resources
	LaunchTerm   api.Term
	LaunchNumber uint64
	Receipt      string // the executor's receipt that came with that launch; bytes (R40)
}

// TaskStub is what is kept of a task after its end, for as long as its sandbox exists (R15).
type TaskStub struct {
	api.TaskRef
	Name       string
	Role       api.Role
	Owner      string // as in api.Task
	Status     api.Status
	LaunchedAt time.Time
	Resources  api.Resources // that it held
	Job        string        // whose task it was, if a job manager's
}

// UsageReport says how much an agent and everything on it really used.
type UsageReport struct {
	Total     api.Usage
	Executors map[api.ExecutorRef]api.Usage
	Tasks     map[api.TaskRef]api.Usage
}

func (RegisterAgent) agentCall()       {}
func (ReregisterAgent) agentCall()     {}
func (AgentReport) agentCall()         {}
func (AgentHeartbeat) agentCall()      {}
func (StatusUpdate) agentCall()        {}
func (ExecutorEnded) agentCall()       {}
func (MessageFromExecutor) agentCall() {}
func (KillTaken) agentCall()           {}
func (VolumeDone) agentCall()          {}
func (NeedSecrets) agentCall()         {}

// AgentEvent is one of the types below. The term and the session are in the batch.
//
//sumtype:decl
type AgentEvent interface{ agentEvent() }

// The events of agents.
type (
	AgentRegistered struct {
		Cluster           api.ClusterID
		Agent             api.AgentID
		HeartbeatInterval time.Duration
		SessionTimeout    time.Duration
		Masters           []string
	}
	Reported   struct{}
	LaunchTask struct {
		Task              api.Task
		Framework         api.Framework
		Role              api.Role
		Resources         api.Resources // as the leader took them from the offers, with labels
		ExecutorResources api.Resources // set when this launch starts the executor
		Number            uint64        // the number of the launch within the term
		Receipt           string        // a receipt of the leader; bytes. Empty: the cluster has none (R40)
		// ExecutorReceipt is that of the task's executor, for the case that this launch starts it; bytes.
		ExecutorReceipt string
	}
	// LaunchGroup has at least one launch; all are of the same framework (R46).
	LaunchGroup struct{ Tasks []LaunchTask }
	KillTask    struct {
		api.TaskRef
		Grace  time.Duration // 0 = the task's own
		Reason api.Reason
	}
	AcknowledgeStatus struct {
		api.TaskRef
		Number uint64
	}
	SendAgain             struct{ api.TaskRef }
	ShutdownAgentExecutor struct{ api.ExecutorRef }
	MessageToExecutor     struct {
		api.ExecutorRef
		Data []byte
	}
	RemoveFramework struct{ Framework api.FrameworkID }
	Drain           struct {
		On    bool
		Grace time.Duration
	}
	AgentGone     struct{ Why string }
	CreateVolume  struct{ Volume Volume }
	DestroyVolume struct {
		Volume     api.VolumeID
		Generation uint64
	}
	AgentPong struct {
		Masters      []string
		ReturnWithin time.Duration // over how long the agents are to spread their return, if that has grown
		// HeartbeatInterval and SessionTimeout hold from now on, if they have grown.
		HeartbeatInterval time.Duration
		SessionTimeout    time.Duration
	}
	PrincipalChanged struct {
		Principal string
		Until     time.Time // tickets that were signed until then are void; zero: none
		Revoked   bool      // the principal was revoked: its certificates are void too
		Views     bool      // the principal may look at the cluster, so also at the agent's metrics
	}
	TaskSecrets struct {
		api.TaskRef
		Values []SecretValue
		Why    string // why there are none
	}
)

// Volume is a persistent volume. Its generation tells it from earlier and later volumes of the same ID (R22).
type Volume struct {
	api.Resource
	Generation uint64
}

// SecretValue is the value of one secret, on its way to the agent of its task. No core ever holds one.
type SecretValue struct {
	ID    api.SecretID
	Value Hidden
}

// Hidden are bytes that are never printed.
type Hidden []byte

// String returns a placeholder.
func (Hidden) String() string { return "(hidden)" }

// GoString does the same for %#v.
func (Hidden) GoString() string { return "(hidden)" }

// Format does the same for all other verbs.
func (Hidden) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(hidden)")) }

// MarshalJSON does the same for logs.
func (Hidden) MarshalJSON() ([]byte, error) { return []byte(`"(hidden)"`), nil }

func (AgentRegistered) agentEvent()       {}
func (Reported) agentEvent()              {}
func (LaunchTask) agentEvent()            {}
func (LaunchGroup) agentEvent()           {}
func (KillTask) agentEvent()              {}
func (AcknowledgeStatus) agentEvent()     {}
func (SendAgain) agentEvent()             {}
func (ShutdownAgentExecutor) agentEvent() {}
func (MessageToExecutor) agentEvent()     {}
func (RemoveFramework) agentEvent()       {}
func (Drain) agentEvent()                 {}
func (AgentGone) agentEvent()             {}
func (CreateVolume) agentEvent()          {}
func (DestroyVolume) agentEvent()         {}
func (PrincipalChanged) agentEvent()      {}
func (TaskSecrets) agentEvent()           {}
func (AgentPong) agentEvent()             {}

// AgentEvents is a batch of events of one term and one session.
type AgentEvents struct {
	Term    api.Term
	Session uint64
	Events  []AgentEvent
}
