package manager_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestAnswersNameTheCurrentVersion: the version that a change answers with is marked as current, in the answer and in
// the job's history.
func TestAnswersNameTheCurrentVersion(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c := begin(h)
		ctx, service := c.t.Context(), manager.ServiceOf(c.manager)
		job := func(command string) *structpb.Struct {
			object, err := structpb.NewStruct(map[string]any{"name": "web", "type": "service", "task": map[string]any{"command": command}})
			if err != nil {
				t.Fatal(err)
			}
			return object
		}
		check := func(version *apiv1.JobVersion, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			history, err := service.GetJobHistory(ctx, &apiv1.GetJobHistoryRequest{Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range history.GetItems() {
				if one.GetCurrent() != (one.GetVersion() == version.GetVersion()) || !version.GetCurrent() {
					t.Errorf("version %d is answered as current: %v; in the history %d is: %v", version.GetVersion(), version.GetCurrent(), one.GetVersion(), one.GetCurrent())
				}
			}
		}
		check(service.SubmitJob(ctx, &apiv1.SubmitJobRequest{Job: job("sleep infinity")}))
		check(service.UpdateJob(ctx, &apiv1.UpdateJobRequest{Job: job("sleep infinity; true")}))
		check(service.RollbackJob(ctx, &apiv1.RollbackJobRequest{Name: "web"}))
		if _, err := service.DeleteJob(ctx, &apiv1.DeleteJobRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		c.AwaitQuiet()
	})
}
