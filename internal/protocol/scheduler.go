package protocol

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// NumberedCall is a scheduler's call with its number within the session (R3).
type NumberedCall struct {
	Number uint64
	Call   SchedulerCall
}

// SchedulerCall is one of the types below, up to Malformed.
//
//sumtype:decl
type SchedulerCall interface{ schedulerCall() }

// The calls of schedulers.
type (
	Subscribe struct {
		Cluster    api.ClusterID
		Term       api.Term
		Version    string
		Framework  api.Framework
		Instance   api.Nonce
		Suppressed []api.Role
		TellLater  bool // it is told the states of tasks after the last page of Unsettled
	}
	Unsettled struct {
		Tasks []UnsettledTask
		Last  bool
	}
	Accept struct {
		Offers     []api.OfferID
		Operations []api.Operation
		Filter     api.Filter
		// More: another part of the same answer follows. After is the number of the call with the part before this one;
		// 0 = this is the first part.
		More  bool
		After uint64
	}
	Decline struct {
		Offers []api.OfferID
		Filter api.Filter
	}
	Kill struct {
		Task  api.TaskID
		Agent api.AgentID
		Grace time.Duration // 0 = the task's own
	}
	Acknowledge struct{ Items []Acknowledgement }
	Reconcile   struct{ Tasks []UnsettledTask }
	// ReconcileOperations asks again for the results of these operations; of all, if none is named.
	ReconcileOperations struct{ Operations []api.OperationID }
	Suppress            struct{ Roles []api.Role }
	Revive              struct{ Roles []api.Role }
	SetDemand           struct {
		api.Demand
		Unstated bool
	}
	MessageExecutor struct {
		Agent    api.AgentID
		Executor api.ExecutorID
		Data     []byte
	}
	ShutdownExecutor struct {
		Agent    api.AgentID
		Executor api.ExecutorID
	}
	AnswerInverse struct {
		Offers []api.OfferID
		Accept bool
	}
	JobEvent           struct{ Event api.JobEvent }
	JobDemand          struct{ Wanted map[string]int64 }
	UpdateFramework    struct{ Framework api.Framework }
	Teardown           struct{}
	SchedulerHeartbeat struct{}
	// Malformed stands for a call that had a number but could not be read. It is answered by Refused with Err and does
	// nothing else.
	Malformed struct{ Err *api.Error }
)

// UnsettledTask is a task that the SDK has launched or been told of, and whose end it has not seen (R8).
type UnsettledTask struct {
	Task   api.TaskID
	Agent  api.AgentID
	Number uint64
	State  api.TaskState
}

// Acknowledgement names a status that the scheduler has handled.
type Acknowledgement struct {
	Framework api.FrameworkID
	Task      api.TaskID
	Agent     api.AgentID
	Number    uint64
}

func (Subscribe) schedulerCall()           {}
func (Unsettled) schedulerCall()           {}
func (Accept) schedulerCall()              {}
func (Decline) schedulerCall()             {}
func (Kill) schedulerCall()                {}
func (Acknowledge) schedulerCall()         {}
func (Reconcile) schedulerCall()           {}
func (ReconcileOperations) schedulerCall() {}
func (Suppress) schedulerCall()            {}
func (Revive) schedulerCall()              {}
func (SetDemand) schedulerCall()           {}
func (MessageExecutor) schedulerCall()     {}
func (ShutdownExecutor) schedulerCall()    {}
func (AnswerInverse) schedulerCall()       {}
func (JobEvent) schedulerCall()            {}
func (JobDemand) schedulerCall()           {}
func (UpdateFramework) schedulerCall()     {}
func (Teardown) schedulerCall()            {}
func (SchedulerHeartbeat) schedulerCall()  {}
func (Malformed) schedulerCall()           {}

// SchedulerEvent is one of the types below.
//
//sumtype:decl
type SchedulerEvent interface{ schedulerEvent() }

// The events of schedulers.
type (
	Subscribed struct {
		Cluster           api.ClusterID
		Framework         api.FrameworkID
		Session           uint64
		Turn              uint64 // the session with which the instance's turn began
		HeartbeatInterval time.Duration
		SessionTimeout    time.Duration
		Master            api.MasterID
		Masters           []string
	}
	Waiting struct{ ActiveInstance api.Nonce }
	Offers  struct{ Offers []api.Offer }
	Rescind struct {
		Offers []api.OfferID
		Why    string
	}
	Update  struct{ Status api.Status }
	Refused struct {
		Number uint64
		Err    *api.Error
	}
	// FrameworkUpdated answers the UpdateFramework of that number.
	FrameworkUpdated struct{ Number uint64 }
	OperationResult  struct {
		ID    api.OperationID
		Agent api.AgentID
		Err   *api.Error // nil: it was done
	}
	InverseOffers  struct{ Offers []api.InverseOffer }
	RescindInverse struct {
		Offers []api.OfferID
		Why    string
	}
	MessageFramework struct {
		Agent    api.AgentID
		Executor api.ExecutorID
		Data     []byte
	}
	ExecutorLost struct {
		Agent    api.AgentID
		Executor api.ExecutorID
		Message  string
	}
	AgentLost struct {
		Agent api.AgentID
		Gone  bool
		Why   string
	}
	MasterHeartbeat struct{ Masters []string }
	Settled         struct{}
)

func (Subscribed) schedulerEvent()       {}
func (Waiting) schedulerEvent()          {}
func (Offers) schedulerEvent()           {}
func (Rescind) schedulerEvent()          {}
func (Update) schedulerEvent()           {}
func (Refused) schedulerEvent()          {}
func (FrameworkUpdated) schedulerEvent() {}
func (OperationResult) schedulerEvent()  {}
func (InverseOffers) schedulerEvent()    {}
func (RescindInverse) schedulerEvent()   {}
func (MessageFramework) schedulerEvent() {}
func (ExecutorLost) schedulerEvent()     {}
func (AgentLost) schedulerEvent()        {}
func (MasterHeartbeat) schedulerEvent()  {}
func (Settled) schedulerEvent()          {}
