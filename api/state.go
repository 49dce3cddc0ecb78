package api

import (
	"fmt"
	"strings"
)

// TaskState is one step in a task's life.
type TaskState uint8

// The states of a task. A terminal state ends the task: its resources are free and no other state follows. An
// UNREACHABLE task may come back. UNKNOWN is only ever the answer to a reconciliation; it is never stored.
const (
	TaskUnspecified    TaskState = iota
	TaskStaging                  // the leader has accepted the launch
	TaskStarting                 // the agent prepares its executor or its files
	TaskRunning                  // the executor reports that it runs
	TaskKilling                  // a kill has reached the executor
	TaskFinished                 // terminal: ended by itself, well
	TaskFailed                   // terminal: ended by itself, badly
	TaskKilled                   // terminal: ended because someone asked
	TaskError                    // terminal: never started; the same task again will fail again
	TaskDropped                  // terminal: never started; trying again is fine
	TaskGone                     // terminal: ran, and is surely dead
	TaskGoneByOperator           // terminal: an operator says that its agent never comes back
	TaskUnreachable              // its agent is silent; it may come back
	TaskUnknown                  // reconcile answers only: nobody knows it
)

var taskStateNames = [...]string{
	"UNSPECIFIED", "STAGING", "STARTING", "RUNNING", "KILLING", "FINISHED", "FAILED", "KILLED",
	"ERROR", "DROPPED", "GONE", "GONE_BY_OPERATOR", "UNREACHABLE", "UNKNOWN",
}

func (s TaskState) String() string {
	if int(s) < len(taskStateNames) {
		return taskStateNames[s]
	}
	return fmt.Sprintf("STATE_%d", s)
}

// ParseTaskState is the inverse of String. It ignores upper and lower case.
func ParseTaskState(name string) (TaskState, error) {
	for i, known := range taskStateNames {
		if i > 0 && strings.EqualFold(name, known) {
			return TaskState(i), nil
		}
	}
	return 0, fmt.Errorf("task state %q is unknown; states are %s", name, strings.Join(taskStateNames[1:], ", "))
}

// Terminal reports whether the state ends the task.
func (s TaskState) Terminal() bool { return s >= TaskFinished && s <= TaskGoneByOperator }

// Settled reports whether nothing more is to be expected of a task in this state: it is terminal, or UNKNOWN, because
// nobody has the task.
func (s TaskState) Settled() bool { return s.Terminal() || s == TaskUnknown }

// Mover is who may move a task from one state to another.
type Mover uint8

// The movers of tasks. They are bits, so that a row of the table can name several.
const (
	MoverMaster Mover = 1 << iota
	MoverAgent
	MoverExecutor
)

func (m Mover) String() string {
	var names []string
	for i, name := range []string{"master", "agent", "executor"} {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// taskMoves is the one table of the legal moves: from, to, by whom.
// Holds: nothing leaves a terminal state.
var taskMoves = func() (table [TaskUnknown + 1][TaskUnknown + 1]Mover) {
	const m, a, x = MoverMaster, MoverAgent, MoverExecutor
	live := []TaskState{TaskStaging, TaskStarting, TaskRunning, TaskKilling}
	for _, from := range live {
		table[from][TaskFinished] = a | x // by the agent for a stub (R15) of a task that has ended so
		table[from][TaskFailed] = a | x
		table[from][TaskKilled] = m | a | x // by the master when the framework is removed
		table[from][TaskGone] = m | a
		table[from][TaskGoneByOperator] = m
		table[from][TaskUnreachable] = m
		table[from][TaskKilling] = a | x
	}
	table[TaskStaging][TaskStarting] = a | x
	table[TaskStaging][TaskRunning] = x
	table[TaskStaging][TaskError] = m | a
	table[TaskStaging][TaskDropped] = m | a
	table[TaskStarting][TaskStarting] = x
	table[TaskStarting][TaskRunning] = x
	table[TaskStarting][TaskDropped] = a
	table[TaskStarting][TaskError] = a
	table[TaskRunning][TaskRunning] = x // health and progress
	for to := TaskStaging; to <= TaskGoneByOperator; to++ {
		table[TaskUnreachable][to] = m // whatever its agent reports on coming back
	}
	return table
}()

// MayMove reports whether the mover by may move a task from one state to the other.
func MayMove(from, to TaskState, by Mover) bool {
	return int(from) < len(taskMoves) && int(to) < len(taskMoves) && taskMoves[from][to]&by != 0
}

// AgentState is the state of an agent as lists show it.
type AgentState uint8

// The states of an agent (R30).
const (
	AgentUnspecified  AgentState = iota
	AgentIniting                 // registered, no heartbeat yet; not offered
	AgentRunning                 // alive, something left to offer
	AgentBusy                    // alive, nothing left that could be offered
	AgentDisconnected            // stream broken, heartbeats missed, or not yet back after a failover
	AgentTombstone               // silent so long that it is taken for dead; may come back
)

var agentStateNames = [...]string{"UNSPECIFIED", "INITING", "RUNNING", "BUSY", "DISCONNECTED", "TOMBSTONE"}

func (s AgentState) String() string {
	if int(s) < len(agentStateNames) {
		return agentStateNames[s]
	}
	return fmt.Sprintf("STATE_%d", s)
}

// Reason says why a task has the state of a status. The list is closed.
type Reason uint8

// The reasons. The zero value means that the state speaks for itself.
const (
	ReasonNone Reason = iota
	ReasonExecutorTerminated
	ReasonExecutorRegistrationTimeout
	ReasonLaunchFailed
	ReasonFetchFailed
	ReasonMemoryLimit
	ReasonDiskLimit
	ReasonPidsLimit
	ReasonHealthCheckFailed
	ReasonMaxCompletionTime
	ReasonKilledByFramework
	ReasonKilledByOperator
	ReasonPreempted
	ReasonRevoked
	ReasonAgentDraining
	ReasonAgentDisconnected
	ReasonAgentRemoved
	ReasonAgentRestarted
	ReasonAgentRebooted
	ReasonAgentGone
	ReasonDiskFull
	ReasonFrameworkRemoved
	ReasonInvalidOffers
	ReasonTaskInvalid
	ReasonTaskUnauthorized
	ReasonTaskDuplicate
	ReasonReconciliation
	ReasonAgentReregistered
	ReasonTaskGroupFailed
	ReasonSecretUnavailable
	ReasonPortTaken
	ReasonAgentFailed
	ReasonSourceUnavailable
)

// Blame says whose fault the end of a task was.
type Blame uint8

// Whose fault it can be. Only the first counts against the work that the task ran for; work whose task ended for another
// reason is tried again, as often as that is (R59).
const (
	// BlameTask: the task's own: its program, what it asked for, or the executor that its framework has brought.
	BlameTask Blame = iota
	// BlameTender: a part of Tender has failed, or was too late.
	BlameTender
	// BlameMachine: the machine has failed, or something beside the task on which it depends.
	BlameMachine
	// BlameNobody: it was decided, by a person, by the framework, or for the sake of other work.
	BlameNobody
)

// reasons holds each reason's name in the protocol, and whose fault the end of a task for it is. The zero blame is the
// task's.
var reasons = [...]struct {
	name  string
	blame Blame
}{
	ReasonExecutorTerminated:          {name: "EXECUTOR_TERMINATED"},
	ReasonExecutorRegistrationTimeout: {name: "EXECUTOR_REGISTRATION_TIMEOUT"},
	ReasonLaunchFailed:                {name: "LAUNCH_FAILED"},
	ReasonFetchFailed:                 {name: "FETCH_FAILED"},
	ReasonMemoryLimit:                 {name: "MEMORY_LIMIT"},
	ReasonDiskLimit:                   {name: "DISK_LIMIT"},
	ReasonPidsLimit:                   {name: "PIDS_LIMIT"},
	ReasonHealthCheckFailed:           {name: "HEALTH_CHECK_FAILED"},
	ReasonMaxCompletionTime:           {name: "MAX_COMPLETION_TIME"},
	ReasonKilledByFramework:           {name: "KILLED_BY_FRAMEWORK", blame: BlameNobody},
	ReasonKilledByOperator:            {name: "KILLED_BY_OPERATOR", blame: BlameNobody},
	ReasonPreempted:                   {name: "PREEMPTED", blame: BlameNobody},
	ReasonRevoked:                     {name: "REVOKED", blame: BlameNobody},
	ReasonAgentDraining:               {name: "AGENT_DRAINING", blame: BlameNobody},
	ReasonAgentDisconnected:           {name: "AGENT_DISCONNECTED", blame: BlameMachine},
	ReasonAgentRemoved:                {name: "AGENT_REMOVED", blame: BlameNobody},
	ReasonAgentRestarted:              {name: "AGENT_RESTARTED", blame: BlameMachine},
	ReasonAgentRebooted:               {name: "AGENT_REBOOTED", blame: BlameMachine},
	ReasonAgentGone:                   {name: "AGENT_GONE", blame: BlameMachine},
	ReasonDiskFull:                    {name: "DISK_FULL", blame: BlameMachine},
	ReasonFrameworkRemoved:            {name: "FRAMEWORK_REMOVED", blame: BlameNobody},
	ReasonInvalidOffers:               {name: "INVALID_OFFERS", blame: BlameTender},
	ReasonTaskInvalid:                 {name: "TASK_INVALID"},
	ReasonTaskUnauthorized:            {name: "TASK_UNAUTHORIZED"},
	ReasonTaskDuplicate:               {name: "TASK_DUPLICATE"},
	ReasonReconciliation:              {name: "RECONCILIATION"},
	ReasonAgentReregistered:           {name: "AGENT_REREGISTERED", blame: BlameTender},
	ReasonTaskGroupFailed:             {name: "TASK_GROUP_FAILED", blame: BlameNobody},
	ReasonSecretUnavailable:           {name: "SECRET_UNAVAILABLE"},
	ReasonPortTaken:                   {name: "PORT_TAKEN", blame: BlameMachine},
	ReasonAgentFailed:                 {name: "AGENT_FAILED", blame: BlameTender},
	ReasonSourceUnavailable:           {name: "SOURCE_UNAVAILABLE", blame: BlameMachine},
}

func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r].name
	}
	return fmt.Sprintf("REASON_%d", r)
}

// ParseReason is the inverse of String. It ignores upper and lower case; "" is ReasonNone.
func ParseReason(name string) (Reason, error) {
	for i, known := range reasons {
		if strings.EqualFold(name, known.name) {
			return Reason(i), nil
		}
	}
	return ReasonNone, fmt.Errorf("reason %q is unknown; docs/protocol.md lists them", name)
}

// Blame returns whose fault it is that a task ended for this reason.
func (r Reason) Blame() Blame {
	if int(r) < len(reasons) {
		return reasons[r].blame
	}
	return BlameTask
}

// Blameless reports whether a task that ended for this reason did not fail by its own fault: the same task may well
// succeed elsewhere, or later.
func (r Reason) Blameless() bool { return r.Blame() != BlameTask }
