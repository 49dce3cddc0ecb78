package tidy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// seenBy names the test, by file and name, in which a task has a reason.
type seenBy struct{ file, test string }

// reasonsSeen holds for each reason the test on real processes in which a task has it.
var reasonsSeen = map[api.Reason]seenBy{
	api.ReasonExecutorTerminated:          {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonExecutorRegistrationTimeout: {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonLaunchFailed:                {"agent/users_linux_test.go", "TestUsersOfTasks"},
	api.ReasonFetchFailed:                 {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonMemoryLimit:                 {"agent/cells_test.go", "TestATaskIsHeldToWhatItAsksFor"},
	api.ReasonDiskLimit:                   {"agent/output_test.go", "TestATaskOutgrowsItsDisk"},
	api.ReasonPidsLimit:                   {"agent/commands/cells_test.go", "TestPidsLimit"},
	api.ReasonHealthCheckFailed:           {"agent/commands/check_test.go", "TestLivenessByACommand"},
	api.ReasonMaxCompletionTime:           {"tender/internal/cli/e2e_test.go", "TestRunShowsBothStreamsAndTheExitCode"},
	api.ReasonKilledByFramework:           {"agent/agent_test.go", "TestLifeOfACommand"},
	api.ReasonKilledByOperator:            {"tender/internal/cli/e2e_test.go", "TestKillExplainDescribeAndLogs"},
	api.ReasonRevoked:                     {"agent/revoke_test.go", "TestRevoke"},
	api.ReasonAgentDraining:               {"tender/internal/cli/operator_test.go", "TestAnOperatorsWords"},
	api.ReasonAgentRebooted:               {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonAgentGone:                   {"tender/internal/cli/gone_test.go", "TestADeadMachineIsGivenUp"},
	api.ReasonDiskFull:                    {"agent/full_test.go", "TestDiskFilledByATask"},
	api.ReasonTaskInvalid:                 {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonTaskUnauthorized:            {"agent/users_linux_test.go", "TestUsersOfTasks"},
	api.ReasonTaskDuplicate:               {"agent/agent_test.go", "TestDuplicateAndReconnect"},
	api.ReasonFrameworkRemoved:            {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonTaskGroupFailed:             {"agent/group_linux_test.go", "TestTasksOfAGroup"},
	api.ReasonAgentFailed:                 {"agent/agent_test.go", "TestExecutorDies"},
	api.ReasonSourceUnavailable:           {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonSecretUnavailable:           {"tender/internal/cli/secret_linux_test.go", "TestSecretsReachTheirTaskAndNobodyElse"},
	api.ReasonPortTaken:                   {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
	api.ReasonPreempted:                   {"tender/internal/cli/reasons_test.go", "TestReasonsOfMasters"},
	api.ReasonAgentDisconnected:           {"tender/internal/cli/reasons_test.go", "TestReasonsOfMasters"},
	api.ReasonAgentRestarted:              {"tender/internal/cli/reasons_test.go", "TestReasonsOfMasters"},
	api.ReasonReconciliation:              {"tender/internal/cli/reasons_test.go", "TestReasonsOfMasters"},
	api.ReasonAgentReregistered:           {"tender/internal/cli/reasons_test.go", "TestReasonsOfMasters"},
	api.ReasonInvalidOffers:               {"agent/reasons_linux_test.go", "TestReasonsOfAnAgent"},
}

// reasonsUnseen are reasons that guard against what no test can cause, with the words of docs/protocol.md about them.
var reasonsUnseen = map[api.Reason]string{
	api.ReasonAgentRemoved: "AGENT_REMOVED is a guard",
}

// TestEveryReasonIsSeen: docs/protocol.md lists every reason, and for each there is a test on real processes in which a
// task has it.
func TestEveryReasonIsSeen(t *testing.T) {
	_, list, found := strings.Cut(contents(t, "docs/protocol.md"), "## Reasons")
	if !found {
		t.Fatal("docs/protocol.md lists no reasons")
	}
	for reason := api.ReasonExecutorTerminated; !strings.HasPrefix(reason.String(), "REASON_"); reason++ {
		name := reason.String()
		if !saysWord(list, name) {
			t.Errorf("docs/protocol.md does not list the reason %s", name)
		}
		seen, is := reasonsSeen[reason]
		guard, unseen := reasonsUnseen[reason]
		switch {
		case unseen && (is || !strings.Contains(list, guard)):
			t.Errorf("%s is seen, or docs/protocol.md does not say that %s", name, guard)
		case unseen:
		case !is:
			t.Errorf("%s must have a row in the table above: the test in which a task ends for it", name)
		case !seesReason(bodyOf(t, seen), name):
			t.Errorf("%s is not looked for by %s of %s", name, seen.test, seen.file)
		}
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bodyOf returns the text of a test.
func bodyOf(t *testing.T, seen seenBy) string {
	t.Helper()
	_, body, found := strings.Cut(contents(t, seen.file), "\nfunc "+seen.test+"(")
	if !found {
		t.Fatalf("%s has no test %s", seen.file, seen.test)
	}
	body, _, _ = strings.Cut(body, "\n}\n")
	return body
}

// seesReason says whether a test names a reason, by its protocol name or its constant.
func seesReason(body, name string) bool {
	constant := "api.Reason"
	for word := range strings.SplitSeq(name, "_") {
		constant += word[:1] + strings.ToLower(word[1:])
	}
	return saysWord(body, name) || saysWord(body, regexp.QuoteMeta(constant))
}

func saysWord(text, word string) bool {
	return regexp.MustCompile(`\b` + word + `\b`).MatchString(text)
}
