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
	seldom := []string{"ExecutorEnded", "KillTaken", "Kill", "Reconcile", "KillTask", "MarkAgent", "RemoveFramework", "ReserveOn", "SetMaintenance", "StoreWrite",
		"Suppress", "UpdateFramework", "AnswerInverse", "ReconcileOperations", "MessageExecutor", "MessageFromExecutor", "NeedSecrets", "Set"}
	missing = append(missing, all.Missing(seldom, nil, []string{none, some}, impossible)...)
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
	}
	return false
}
