package jobcmd

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestNews: a person who follows a job is told each step that changes, and not what happened before the version.
func TestNews(t *testing.T) {
	began := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	note := func(after time.Duration, text string) *apiv1.JobNote {
		return &apiv1.JobNote{At: timestamppb.New(began.Add(after)), Text: text}
	}
	said := newNews(began)
	for _, step := range []struct {
		notes []*apiv1.JobNote
		subs  []*apiv1.SubJobStatus
		want  []string
	}{
		{
			[]*apiv1.JobNote{note(-time.Hour, "version 2: updated")},
			[]*apiv1.SubJobStatus{{Name: "fetch", State: "running", Running: 1}, {Name: "convert", State: "blocked"}, {Name: "mend", State: "blocked"}},
			[]string{"fetch: 1 running, 0 waiting, 0 done, 0 failed"},
		},
		{
			[]*apiv1.JobNote{note(-time.Hour, "version 2: updated"), note(0, "version 3: updated")},
			[]*apiv1.SubJobStatus{{Name: "fetch", State: "success", Done: 1}, {Name: "convert", State: "running", Pausing: 2}, {Name: "mend", State: "blocked"}},
			[]string{"version 3: updated", "fetch: 0 running, 0 waiting, 1 done, 0 failed", "convert: 0 running, 2 waiting, 0 done, 0 failed"},
		},
		{
			[]*apiv1.JobNote{note(0, "version 3: updated")},
			[]*apiv1.SubJobStatus{{Name: "fetch", State: "success", Done: 1}, {Name: "convert", State: "success", Done: 2}, {Name: "mend", State: "skipped"}},
			[]string{"convert: 0 running, 0 waiting, 2 done, 0 failed", "mend: skipped"},
		},
		{nil, []*apiv1.SubJobStatus{{Name: "mend", State: "skipped"}}, nil},
	} {
		if got := said.of(&apiv1.JobStatus{Notes: step.notes, SubJobs: step.subs}); !slices.Equal(got, step.want) {
			t.Errorf("told is %q, not %q", got, step.want)
		}
	}
}

// TestAReasonIsToldOnce: why a job is not well is told, unless the note of what has happened says the same.
func TestAReasonIsToldOnce(t *testing.T) {
	said := newNews(time.Time{})
	failed := &apiv1.JobStatus{Phase: "RUNNING", Why: "a.1: FAILED", Notes: []*apiv1.JobNote{{Text: "a.1: FAILED"}}}
	other := &apiv1.JobStatus{Phase: "RUNNING", Why: "a.2: FAILED", Notes: failed.Notes}
	var got []string
	for _, status := range []*apiv1.JobStatus{failed, failed, other, other} {
		got = append(got, said.of(status)...)
	}
	if want := []string{"a.1: FAILED", "a.2: FAILED"}; !slices.Equal(got, want) {
		t.Errorf("told is %q, not %q", got, want)
	}
}

// TestSettled: following a job without an end stops when everything of it runs.
func TestSettled(t *testing.T) {
	for _, test := range []struct {
		kind           string
		tasks, running int32
		roll           *apiv1.JobRoll
		over           bool
	}{
		{"service", 3, 3, nil, true},
		{"service", 3, 2, nil, false},
		{"service", 3, 3, &apiv1.JobRoll{}, false},
		{"service", 0, 0, nil, true},
		{"service", 0, 1, nil, false},
		{"system", 3, 3, nil, true},
		{"system", 3, 2, nil, false},
		{"system", 3, 3, &apiv1.JobRoll{}, false},
		{"system", 0, 0, nil, false},
		{"batch", 3, 3, nil, false},
		{"gang", 3, 3, nil, false},
	} {
		status := &apiv1.JobStatus{Type: test.kind, Phase: "RUNNING", Version: 1, Roll: test.roll, SubJobs: []*apiv1.SubJobStatus{{Tasks: test.tasks, Running: test.running}}}
		if over, err := settled(status, 1); over != test.over || err != nil {
			t.Errorf("%+v: %t, %v", test, over, err)
		}
	}
}
