package jobcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

// aJob returns a job with this name and phase, with notes.
func aJob(name, phase string, running int32, notes ...string) *apiv1.JobStatus {
	job := &apiv1.JobStatus{Name: name, Type: "batch", Phase: phase, Version: 1, SubJobs: []*apiv1.SubJobStatus{{Name: "main", State: "running", Running: running}}}
	for i, text := range notes {
		job.Notes = append(job.Notes, &apiv1.JobNote{At: timestamppb.New(time.Unix(int64(i), 0)), Text: text})
	}
	return job
}

// TestWatchOfAllJobs: watching all jobs shows the jobs that have not ended, and then each change, each new job, and
// each that is deleted. What has changed while one manager took over from another is shown too, once.
func TestWatchOfAllJobs(t *testing.T) {
	var out bytes.Buffer
	w := newWatchAll(Env{Caller: &caller.Caller{Stdout: &out}}, false)
	for _, step := range []struct {
		anew bool
		news *apiv1.WatchJobsResponse
		want string
	}{
		{true, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("old", "SUCCEEDED", 0, "succeeded"), aJob("web", "RUNNING", 2, "of yesterday")}},
			"web is version 1 (RUNNING)\nweb: main: 2 running, 0 waiting, 0 done, 0 failed\n"},
		{false, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("zoo", "RUNNING", 1)}, Complete: true},
			"zoo is version 1 (RUNNING)\nzoo: main: 1 running, 0 waiting, 0 done, 0 failed\n"},
		{false, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("web", "RUNNING", 1, "of yesterday", "a task has failed")}, Complete: true},
			"web: a task has failed\nweb: main: 1 running, 0 waiting, 0 done, 0 failed\n"},
		{false, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("new", "RUNNING", 0, "submitted")}, Complete: true},
			"new is version 1 (RUNNING)\nnew: submitted\nnew: main: 0 running, 0 waiting, 0 done, 0 failed\n"},
		{false, &apiv1.WatchJobsResponse{RemovedNames: []string{"old", "never-seen"}, Complete: true}, "old: it is deleted\n"},
		// Another manager: web is unchanged, new has changed, zoo was deleted, and late was submitted and has ended in
		// between.
		{true, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("late", "SUCCEEDED", 0, "succeeded"), aJob("new", "SUCCEEDED", 0, "submitted", "succeeded")}},
			"late is version 1 (SUCCEEDED)\nlate: succeeded\nlate: main: 0 running, 0 waiting, 0 done, 0 failed\nnew: succeeded\n"},
		{false, &apiv1.WatchJobsResponse{Items: []*apiv1.JobStatus{aJob("web", "RUNNING", 1, "of yesterday", "a task has failed")}, Complete: true}, "zoo: it is deleted\n"},
	} {
		out.Reset()
		if over, err := w.see(step.anew, step.news); over || err != nil {
			t.Fatal(over, err)
		}
		if out.String() != step.want {
			t.Errorf("of %v is told\n%swant\n%s", step.news, &out, step.want)
		}
	}
}

// TestWatchOfAllJobsAsJSON: each line is a job; a job that is unchanged has none.
func TestWatchOfAllJobsAsJSON(t *testing.T) {
	var out bytes.Buffer
	w := newWatchAll(Env{Caller: &caller.Caller{Stdout: &out}}, true)
	web := aJob("web", "RUNNING", 2)
	for anew, news := range map[bool]*apiv1.WatchJobsResponse{true: {Items: []*apiv1.JobStatus{aJob("old", "FAILED", 0), web}, Complete: true}} {
		for range 2 {
			if _, err := w.see(anew, news); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.see(false, &apiv1.WatchJobsResponse{RemovedNames: []string{"web"}, Complete: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"name":"web"`) || !strings.Contains(lines[0], `"phase":"RUNNING"`) || !strings.Contains(lines[1], `"phase":"DELETED"`) {
		t.Errorf("told is\n%s", &out)
	}
}

// story is a stream that returns these items and then this error.
type story struct {
	grpc.ClientStream
	says []*apiv1.JobStatus
	err  error
}

func (s *story) Recv() (*apiv1.JobStatus, error) {
	if len(s.says) == 0 {
		return nil, s.err
	}
	one := s.says[0]
	s.says = s.says[1:]
	return one, nil
}

// TestFollowingOutlivesManagersAndMasters: a stream whose server has ended is opened again, for as long as a takeover
// may take. An error that a person has to know ends the following.
func TestFollowingOutlivesManagersAndMasters(t *testing.T) {
	gone := api.E("job.watch", api.Unavailable, "", errors.New("this instance stands by"))
	deleted := api.E("job.watch", api.NotFound, "web", errors.New("no job has this name"))
	dead := status.Error(codes.Unavailable, "connection reset by peer")
	job := []*apiv1.JobStatus{aJob("web", "RUNNING", 1)}
	forever := make([]*story, 1000)
	for i := range forever {
		forever[i] = &story{err: gone}
	}
	for _, test := range []struct {
		what   string
		opened []*story
		seen   int
		kind   api.Kind
	}{
		{"the job is deleted", []*story{{says: job, err: deleted}}, 1, api.NotFound},
		{"managers and masters go", []*story{{says: job, err: gone}, {err: dead}, {says: job, err: io.EOF}, {says: job, err: deleted}}, 3, api.NotFound},
		{"no manager comes back", append([]*story{{says: job, err: gone}}, forever...), 1, api.Unavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen, at, began := 0, 0, time.Now()
			err := read(t.Context(), io.Discard, func(context.Context) (grpc.ServerStreamingClient[apiv1.JobStatus], error) {
				at++
				return test.opened[at-1], nil
			}, func(bool, *apiv1.JobStatus) (bool, error) { seen++; return false, nil })
			if seen != test.seen || !api.Is(err, test.kind) {
				t.Errorf("%s: seen %d times, then %v", test.what, seen, err)
			}
			if took := time.Since(began); test.kind == api.Unavailable && took < takeoverMax {
				t.Errorf("%s: it gave up after %v", test.what, took)
			}
		})
	}
}
