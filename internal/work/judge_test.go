package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// TestOnlyTheTasksOwnFaultCounts: for each reason of the closed list, a task that FAILED for it has failed exactly when
// it is the task's fault; what never began, or may not have, is lost for any reason (R59).
func TestOnlyTheTasksOwnFaultCounts(t *testing.T) {
	for reason := api.ReasonNone; !strings.HasPrefix(reason.String(), "REASON_"); reason++ {
		want := work.Lost
		if reason.Blame() == api.BlameTask {
			want = work.Badly
		}
		if got := work.Judge(work.NotKilled, api.Status{State: api.TaskFailed, Reason: reason}); got != want {
			t.Errorf("FAILED %v: %v, want %v", reason, got, want)
		}
		for _, state := range []api.TaskState{api.TaskDropped, api.TaskGone, api.TaskGoneByOperator, api.TaskUnknown} {
			if got := work.Judge(work.NotKilled, api.Status{State: state, Reason: reason}); got != work.Lost {
				t.Errorf("%v %v: %v", state, reason, got)
			}
		}
		if got := work.Judge(work.Overdue, api.Status{State: api.TaskFailed, Reason: reason}); got != work.Badly {
			t.Errorf("FAILED %v after its time: %v", reason, got)
		}
	}
}

// TestTimeToFail: so long may the checks of a task need, each made after the other.
func TestTimeToFail(t *testing.T) {
	for want, checks := range map[time.Duration][]api.Check{
		0:                nil,
		45 * time.Second: {{}},
		18 * time.Second: {{Interval: time.Second}},
		2 * time.Second:  {{Interval: time.Second, Timeout: time.Second, Failures: 1}},
		60 * time.Second: {{}, {Interval: time.Second}},
	} {
		if got := work.TimeToFail(checks); got != want {
			t.Errorf("%+v: %v, wanted %v", checks, got, want)
		}
	}
}
