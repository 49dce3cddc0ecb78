package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
	"github.com/tenderhq/tender/internal/web"
)

// submitted is a cluster that keeps the job that it is given.
type submitted struct {
	*fake
	job *structpb.Struct
}

func (s *submitted) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	if of, is := request.(*apiv1.SubmitJobRequest); is {
		s.job = of.GetJob()
	}
	return s.fake.Invoke(ctx, method, request, reply, options...)
}

// TestARunNowIsABatch: what a cron job says of a run becomes a batch that the job's file could say, under a name of its own.
func TestARunNowIsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &submitted{fake: answering("x")}
		long := strings.Repeat("n", 60)
		cron, err := structpb.NewStruct(map[string]any{
			"name": long, "type": "cron", "role": "eng", "task": map[string]any{"command": "report", "cpus": 0.5, "mem": 32},
			"cron": map[string]any{"schedule": "@daily", "zone": "Europe/Berlin", "overlap": "replace", "missed": "skip", "keep": 3, "completions": 4, "parallelism": 2, "failures": 1, "deadline": "1h"},
		})
		if err != nil {
			t.Fatal(err)
		}
		cluster.answers["GetJobHistory"] = func() (proto.Message, error) {
			return &apiv1.GetJobHistoryResponse{Items: []*apiv1.JobVersion{{Current: true, Job: cron}}}, nil
		}
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		if answer := post(page.Handler(), "ann", "/do/run-job-now", "job="+long); answer.Code != http.StatusOK {
			t.Fatalf("it is answered with %d %s", answer.Code, answer.Body)
		}
		text, err := protojson.Marshal(cluster.job)
		if err != nil {
			t.Fatal(err)
		}
		job, err := jobfile.DecodeJSON(text)
		if err != nil || job.Check() != nil {
			t.Fatalf("%s is no job: %v, %v", text, err, job.Check())
		}
		if job.Name != long[:43]+"-now-20000101-000000" || job.Type != "batch" || job.Role != "eng" || job.Cron != nil || job.Task.Command != "report" {
			t.Errorf("the run is %s", text)
		}
		if of := job.Batch; of == nil || of.Completions != 4 || of.Parallelism != 2 || of.Failures != 1 || of.Deadline == 0 {
			t.Errorf("its batch is %+v", of)
		}
	})
}
