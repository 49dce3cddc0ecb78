package work_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// TestTally: what follows from the ends of the attempts of one piece of work, one after the other.
func TestTally(t *testing.T) {
	failed := api.Status{Task: "t", State: api.TaskFailed}
	lost := api.Status{Task: "t", State: api.TaskGone}
	well := api.Status{Task: "t", State: api.TaskFinished}
	killed := api.Status{Task: "t", State: api.TaskKilled, Reason: api.ReasonKilledByFramework}
	refused := api.Status{Task: "t", State: api.TaskError}
	work3 := work.Rules{Attempts: 3, Backoff: work.Backoff{First: time.Second, Max: time.Minute}}
	service := work.Rules{Service: true, Attempts: 3, Backoff: work3.Backoff}
	type end struct {
		kill   work.Kill
		status api.Status
		ran    time.Duration
		want   work.Verdict
		gone   bool // it is given up
		row    int
	}
	for _, c := range []struct {
		name  string
		rules work.Rules
		ends  []end
	}{
		{"the third failure is the last", work3, []end{{0, failed, 0, work.Badly, false, 1}, {0, failed, 0, work.Badly, false, 2}, {0, failed, 0, work.Badly, true, 3}}},
		{"a loss is no failure, and is in the row", work3, []end{{0, lost, 0, work.Lost, false, 1}, {0, failed, 0, work.Badly, false, 2}, {0, failed, 0, work.Badly, false, 3}}},
		{"a long attempt ends the row, and not the count", work3, []end{{0, failed, 0, work.Badly, false, 1}, {0, failed, time.Minute, work.Badly, false, 1}, {0, failed, 0, work.Badly, true, 2}}},
		{"what can't run is given up at once", work3, []end{{0, refused, 0, work.Refused, true, 1}}},
		{"an overdue attempt has failed", work3, []end{{work.Overdue, killed, 0, work.Badly, false, 1}}},
		{"nobody is interested", work3, []end{{work.Unwanted, failed, 0, work.Ignored, false, 0}, {work.Unwanted, killed, 0, work.Ignored, false, 0}}},
		{"done is done", work3, []end{{work.Unwanted, well, 0, work.Well, false, 0}}},
		{"a service should not have ended", service, []end{{0, well, 0, work.Badly, false, 1}, {0, failed, 0, work.Badly, false, 2}, {0, refused, 0, work.Refused, false, 3}}},
		{"nobody is interested in that end of a service", service, []end{{work.Unwanted, well, 0, work.Ignored, false, 0}}},
	} {
		var tally work.Tally
		for i, e := range c.ends {
			got := tally.End(e.kill, e.status, e.ran, c.rules)
			if got.Verdict != e.want || got.GivenUp != e.gone || tally.Row != e.row || (got.Pause > 0) != (e.row > 1 || e.row == 1 && e.want != work.Lost && e.want != work.Ignored) {
				t.Errorf("%s, end %d: %+v, %+v", c.name, i+1, got, tally)
			}
		}
	}
}
