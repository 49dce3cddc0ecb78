package keeper

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// listener is masters that are told what becomes of jobs.
type listener struct {
	Masters
	told []string
}

func (l *listener) TellJob(event api.JobEvent) error {
	l.told = append(l.told, event.What)
	return nil
}

// TestNothingIsDoneForWhatWasRefused (R58): what has waited for a write that the store refuses is not done, and is done
// once when the store takes the job later.
func TestNothingIsDoneForWhatWasRefused(t *testing.T) {
	masters, now := &listener{}, transcript.Epoch
	k := New(Config{HistoryMost: 10, HistoryAge: time.Hour, Log: slog.New(slog.DiscardHandler), Changed: func(string, Step) {}}, now)
	k.Begin(masters)
	k.Add(core.New(jobs.Version{Number: 1, At: now, Job: jobs.Job{Name: "sum", Type: jobs.BatchType, Task: jobs.Task{Command: "true"}, Batch: &jobs.Batch{Completions: 1}}}, "r1"), now)
	write := func(refusal error) {
		batch := k.TakeBatch()
		for _, stage := range batch.Stages() {
			for _, one := range stage {
				if refusal != nil {
					batch.Refuse(one.Key, refusal)
				}
			}
		}
		k.Written(batch, now)
	}
	write(nil) // the job itself is in the store before it is added
	masters.told = nil
	k.Tell("sum", now, core.Asked{Why: "enough"})
	for range 2 {
		write(errors.New("it is full"))
		if len(masters.told) > 0 || k.Aside("sum") == nil {
			t.Fatalf("the store has refused the job, whose masters were told %q; it is set aside because %v", masters.told, k.Aside("sum"))
		}
		now = now.Add(Again)
		k.Ring(now)
	}
	write(nil)
	if !slices.Equal(masters.told, []string{"stopping", "stopped"}) || k.Aside("sum") != nil {
		t.Errorf("the store has taken the job, whose masters were told %q; it is set aside because %v", masters.told, k.Aside("sum"))
	}
}
