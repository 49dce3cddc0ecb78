package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tenderhq/tender/api"
)

func TestNothingLeavesATerminalState(t *testing.T) {
	for from := api.TaskUnspecified; from <= api.TaskUnknown+1; from++ {
		for to := api.TaskUnspecified; to <= api.TaskUnknown+1; to++ {
			may := api.MayMove(from, to, api.MoverMaster|api.MoverAgent|api.MoverExecutor)
			stored := from > api.TaskUnspecified && from < api.TaskUnknown && to > api.TaskUnspecified && to < api.TaskUnknown
			if may && (from.Terminal() || !stored) {
				t.Errorf("%v may become %v", from, to)
			}
		}
	}
}

// Every state that a task can be in can be reached, and leads to an end.
func TestEveryStateHasAWayInAndOut(t *testing.T) {
	all := api.MoverMaster | api.MoverAgent | api.MoverExecutor
	for state := api.TaskStaging; state < api.TaskUnknown; state++ {
		in, out := state == api.TaskStaging, state.Terminal()
		for other := api.TaskStaging; other < api.TaskUnknown; other++ {
			in = in || other != state && api.MayMove(other, state, all)
			out = out || other.Terminal() && api.MayMove(state, other, all)
		}
		if !in || !out {
			t.Errorf("%v: a way in %v, a way to an end %v", state, in, out)
		}
	}
}

func TestTaskMoves(t *testing.T) {
	if _, err := os.Stat(filepath.Join("testdata", "moves")); err != nil {
		t.Fatal(err)
	}
	datadriven.RunTest(t, filepath.Join("testdata", "moves"), func(t *testing.T, d *datadriven.TestData) string {
		var table strings.Builder
		for from := api.TaskStaging; from <= api.TaskUnknown; from++ {
			fmt.Fprintf(&table, "%v\n", from)
			for to := api.TaskStaging; to <= api.TaskUnknown; to++ {
				var movers api.Mover
				for _, mover := range []api.Mover{api.MoverMaster, api.MoverAgent, api.MoverExecutor} {
					if api.MayMove(from, to, mover) {
						movers |= mover
					}
				}
				if movers != 0 {
					fmt.Fprintf(&table, "  %-16v %v\n", to, movers)
				}
			}
		}
		return table.String()
	})
}

func TestReasonsByName(t *testing.T) {
	for reason := api.ReasonNone; !strings.HasPrefix(reason.String(), "REASON_"); reason++ {
		if got, err := api.ParseReason(strings.ToLower(reason.String())); err != nil || got != reason {
			t.Errorf("%v is %v: %v", reason, got, err)
		}
	}
	if _, err := api.ParseReason("BAD_LUCK"); err == nil || !strings.Contains(err.Error(), `"BAD_LUCK" is unknown`) {
		t.Error(err)
	}
}

func TestTaskStatesByName(t *testing.T) {
	for state := api.TaskStaging; state <= api.TaskUnknown; state++ {
		for _, name := range []string{state.String(), strings.ToLower(state.String())} {
			if got, err := api.ParseTaskState(name); err != nil || got != state {
				t.Errorf("%s is %v: %v", name, got, err)
			}
		}
	}
	_, err := api.ParseTaskState("DEAD")
	want := `task state "DEAD" is unknown; states are STAGING, STARTING, RUNNING, KILLING, FINISHED, FAILED, KILLED, ERROR, DROPPED, GONE, ` +
		`GONE_BY_OPERATOR, UNREACHABLE, UNKNOWN`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
	if _, err := api.ParseTaskState("UNSPECIFIED"); err == nil {
		t.Error("no state is called UNSPECIFIED")
	}
	for got, want := range map[string]string{
		api.TaskState(99).String(): "STATE_99", api.AgentState(99).String(): "STATE_99", api.Reason(99).String(): "REASON_99",
		api.AgentTombstone.String(): "TOMBSTONE", api.ReasonTaskGroupFailed.String(): "TASK_GROUP_FAILED", api.ReasonNone.String(): "",
		api.OperationKind(99).String(): "unspecified", api.OpDestroy.String(): "destroy", api.Kind(99).String(): "internal",
		strings.Join((api.MarkDraining | api.MarkGone).Strings(), "+"): "draining+gone",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !(api.MarkDraining | api.MarkGone).Has(api.MarkGone) || api.MarkGone.Has(api.MarkGone|api.MarkDraining) {
		t.Error("marks are bits")
	}
}
