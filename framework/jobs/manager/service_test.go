package manager_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestAnswersNameTheCurrentVersion: a plan says what an update will do, also that it will refuse the job. The version
// that a change answers with is marked as current, in the answer and in the job's history.
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

// TestChangesCompareWhatWasSeen: R77. Who has planned a change of a version that is no longer the job's overwrites
// nothing, neither by an update nor by a rollback. A second copy of a change that was made is answered like the first.
func TestChangesCompareWhatWasSeen(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c := begin(h)
		ctx, m := c.t.Context(), c.manager
		c.submit(service("web", "sleep infinity", 1))
		object, err := structpb.NewStruct(map[string]any{"name": "web", "type": "service", "task": map[string]any{"command": "sleep 1h"}})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := manager.ServiceOf(m).PlanJob(ctx, &apiv1.PlanJobRequest{Job: object})
		if err != nil || plan.GetVersion() != 1 {
			t.Fatalf("the plan says %v, %v", plan, err)
		}
		mine, others := service("web", "sleep 1h", 1), service("web", "sleep 2h", 1)
		for _, seen := range []int{1, 1} {
			if version, err := m.UpdateJob(ctx, others, seen); err != nil || version.Number != 2 {
				t.Errorf("a change of what was seen: %+v, %v", version, err)
			}
		}
		if _, err := m.UpdateJob(ctx, mine, int(plan.GetVersion())); !api.Is(err, api.Stale) || !strings.Contains(err.Error(), "version 2 by now") {
			t.Errorf("a change of what is no more: %v", err)
		}
		if _, err := m.RollbackJob(ctx, "web", 1, 1); !api.Is(err, api.Stale) {
			t.Errorf("a rollback of what is no more: %v", err)
		}
		if version, err := m.RollbackJob(ctx, "web", 1, 2); err != nil || version.Number != 1 {
			t.Errorf("a rollback of what was seen: %+v, %v", version, err)
		}
		c.AwaitFor(time.Hour, "the rollback", func() bool { return c.status("web").Version == 1 && c.status("web").Roll == nil })
	})
}

// TestABadVersionGoesBackBeforeItsChangeIsStored: R77. A change is compared once more when it is stored: the version that
// was seen may have been bad, and have gone back meanwhile.
func TestABadVersionGoesBackBeforeItsChangeIsStored(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c, store := beginCramped(h, 1<<30)
		c.submit(service("web", "sleep infinity", 1))
		c.AwaitFor(time.Hour, "it to be proven", func() bool { return c.status("web").Roll == nil })
		if _, err := c.manager.UpdateJob(c.t.Context(), service("web", "sleep 1; exit 3", 1), 1); err != nil {
			t.Fatal(err)
		}
		store.slowDown("/version/3")
		if version, err := c.manager.UpdateJob(c.t.Context(), service("web", "sleep 1h", 1), 2); !api.Is(err, api.Stale) {
			t.Errorf("told %+v, %v", version, err)
		}
		if status := c.status("web"); status.Version != 1 {
			t.Errorf("it is of version %d", status.Version)
		}
		c.Await("the version that it did not get to be deleted", func() bool { return !store.has("jobs/web/version/3") })
	})
}
