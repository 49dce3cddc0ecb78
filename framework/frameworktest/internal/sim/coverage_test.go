package sim

import (
	"strings"
	"testing"
)

// checkCoverage fails unless the seeds of make test have led the leader into each situation that can be: every call of
// agents, schedulers and operators in every phase of their sender, and while every kind of frequent command waits for
// the quorum; for what is said seldom any command will do. Where a situation can't be, impossible says so.
func checkCoverage(t *testing.T, all Coverage) {
	t.Helper()
	agents := []string{"AgentClosed", "AgentHeartbeat", "AgentReport", "ReregisterAgent", "StatusUpdate"}
	missing := all.Missing(agents, []string{"RUNNING", "DISCONNECTED"}, frequent, impossible)
	schedulers := []string{"Accept", "Acknowledge", "Decline", "Revive", "SchedulerClosed", "SchedulerHeartbeat", "SetDemand", "Unsettled"}
	missing = append(missing, all.Missing(schedulers, []string{"active"}, frequent, impossible)...)
	seldom := []string{"ExecutorEnded", "KillTaken", "Kill", "Reconcile", "KillTask", "MarkAgent", "RemoveFramework", "ReserveOn", "SetMaintenance", "StoreWrites",
		"Suppress", "UpdateFramework", "AnswerInverse", "ReconcileOperations", "MessageExecutor", "MessageFromExecutor", "NeedSecrets", "Set"}
	missing = append(missing, all.Missing(seldom, nil, []string{none, some}, impossible)...)
	kinds := []string{"batch", "service", "dag", "cron", "system", "gang"}
	missing = append(missing, all.Missing([]string{"job Begun", "job Heard", "job Woken", "job Asked", "job ClockSet", "job Assigned", "job Updated"}, nil, kinds, impossible)...)
	missing = append(missing, all.Missing([]string{"job Heard", "job ClockSet", "job Asked"}, []string{"RUNNING", "DELETING", "STOPPED", "SUCCEEDED"}, nil, impossible)...)
	missing = append(missing, all.Missing([]string{"job AssignedGang", "job Planned", "job Undispatched"}, []string{"RUNNING"}, nil, impossible)...)
	missing = append(missing, all.Missing([]string{"job Loaded", "job SetAside", "job TakenBack"}, []string{none}, nil, impossible)...)
	if len(missing) > 0 {
		t.Errorf("no seed leads to\n\t%s\n%s", strings.Join(missing, "\n\t"), all.Table())
	}
}

// frequent are the commands that are so frequent that each call has to meet each of them.
var frequent = []string{none, "MarkAgent", "Subscribe", "UpdateAgent"}

// impossible says of a situation that it can't be, and why.
func impossible(event, with string) bool {
	switch {
	case with == "RUNNING" && event == "AgentReport":
		return true // the leader shows it as DISCONNECTED until it has reported
	case event == "job Assigned" && with == "gang":
		return true // its members are assigned together
	case event == "job Updated" && (with == "gang" || with == "dag"):
		return true // managers refuse it
	}
	return false
}
