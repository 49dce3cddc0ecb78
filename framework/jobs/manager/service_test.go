package manager_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestAnswersNameTheCurrentVersion: a plan says what an update will do, also that it will refuse the job. The version that a change answers with is marked as current, in the answer and in
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
		plan := func(change func(*structpb.Struct)) (*apiv1.PlanJobResponse, error) {
			object := job("sleep infinity")
			change(object)
			return service.PlanJob(ctx, &apiv1.PlanJobRequest{Job: object})
		}
		if answer, err := plan(func(*structpb.Struct) {}); err != nil || answer.GetAction() != "update" {
			t.Errorf("the plan of a change: %v, %v", answer, err)
		}
		batch := func(object *structpb.Struct) { object.Fields["type"] = structpb.NewStringValue("batch") }
		if answer, err := plan(batch); err == nil || !strings.Contains(err.Error(), "can't become a batch") {
			t.Errorf("the plan of a change that is refused: %v, %v", answer, err)
		}
		check(service.RollbackJob(ctx, &apiv1.RollbackJobRequest{Name: "web"}))
		if _, err := service.DeleteJob(ctx, &apiv1.DeleteJobRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		c.AwaitQuiet()
	})
}
