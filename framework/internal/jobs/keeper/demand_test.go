package keeper

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
)

// TestManyJobsWait: the jobs of which most tasks wait are named, and the others are summed.
func TestManyJobsWait(t *testing.T) {
	w := newWants()
	for i := range api.JobDemandMax + 20 {
		w.byJob[fmt.Sprintf("j%03d", i)] = &want{asks: []core.Ask{{Count: 1}, {Count: i}}}
	}
	told := w.byJobs()
	if err := api.CheckJobDemand(told); err != nil {
		t.Error(err)
	}
	if told["j119"] != 120 || told["j020"] != 21 || told["j019"] != 0 || told[api.OtherJobs] != 210 {
		t.Errorf("told are %v", told)
	}
}
