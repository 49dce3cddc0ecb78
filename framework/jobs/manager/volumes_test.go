package manager_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestVolumes: a task that names volumes runs where they are, one at a time, with all of each; its role may be below
// the one that they are reserved for. It waits for a volume that is in use, or on an agent that is away, and the reason
// names one that nobody has.
func TestVolumes(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.MustParseResources("cpus:4;mem:4096;disk:1000")}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Machine: machine}, func(h *frameworktest.Handle) {
		c := begin(h)
		for _, order := range []*apiv1.ReserveRequest{
			{Action: apiv1.OperationKind_RESERVE, Resources: "disk:300"},
			{Action: apiv1.OperationKind_CREATE_VOLUME, Volume: "v1", SizeMb: 100},
			{Action: apiv1.OperationKind_CREATE_VOLUME, Volume: "v2", SizeMb: 50},
		} {
			order.AgentId, order.Role = "agent-2", "web"
			if _, err := c.Operator().Reserve(c.t.Context(), order); err != nil {
				c.t.Fatal(err)
			}
		}
		job := batch("kept", "sleep 10", 3, 3)
		job.Role, job.Task.Volumes, job.Task.Dir = "web/shop", []api.VolumeID{"v1", "v2"}, "volumes/v1"
		c.submit(job)
		c.awaitRunning("kept", 1)
		c.AwaitAgreement()
		running := 0
		for _, task := range c.status("kept").Tasks {
			if running++; task.Agent != "agent-2" {
				c.t.Errorf("%s runs on %s, which has no volume", task.Task, task.Agent)
			}
		}
		service := manager.ServiceOf(c.manager)
		waits := func(name string) string {
			status, err := service.GetJob(c.t.Context(), &apiv1.GetJobRequest{Name: name})
			if err != nil {
				c.t.Fatal(err)
			}
			return strings.Join(status.GetWaits(), "\n")
		}
		if told := waits("kept"); !strings.Contains(told, "the nearest is agent-2, whose volume v1 is in use\n2 of 3 agents have not the volumes") {
			c.t.Errorf("it waits for %s", told)
		}
		c.Agent(2).Reboot()
		c.Agent(2).Start()
		c.awaitPhase("kept", jobs.Succeeded)
		job.Name, job.Task.Volumes = "lost", []api.VolumeID{"v3"}
		c.submit(job)
		if told := waits("lost"); !strings.HasPrefix(told, "no agent that is up has a volume v3 that role web/shop may use") {
			c.t.Errorf("it waits for %s", told)
		}
	})
}
