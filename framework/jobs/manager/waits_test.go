package manager_test

import (
	"strings"
	"testing"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// TestAJobSaysWhyItWaits: each job that waits is told its own reason, not that of another, in its status and in the list; one
// that waits in vain says so at once as what is wrong with it, also a gang.
func TestAJobSaysWhyItWaits(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		gang := func(name string, members int) jobs.Job {
			return jobs.Job{Name: name, Type: jobs.GangType, Gang: &jobs.Gang{Members: members}, Task: jobs.Task{Command: "sleep 1h", CPUs: 1}}
		}
		huge := batch("huge", "true", 1, 1)
		huge.Task.CPUs = 64
		afar := batch("afar", "true", 1, 1)
		afar.Task.Where = map[string]jobs.Match{"zone": jobs.Is("nowhere")}
		fill := batch("fill", "sleep 10h", 100, 100)
		fill.Task.CPUs = 1
		fill.Task.Attempts = 1
		c.submit(fill)
		c.Await("the cluster to be full", func() bool { return c.status("fill").SubJobs[0].Running > 0 })
		for _, job := range []jobs.Job{huge, afar, gang("all", 8), gang("many", 200)} {
			c.submit(job)
		}
		service := manager.ServiceOf(c.manager)
		list, err := service.ListJobs(c.t.Context(), &apiv1.ListJobsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		listed := make(map[string]*apiv1.JobStatus)
		for _, one := range list.GetItems() {
			listed[one.GetName()] = one
		}
		for _, test := range []struct {
			name, want string
			inVain     bool
		}{
			{"huge", "no agent is large enough for cpus:64;mem:64", true},
			{"afar", `no agent that is up meets the constraint zone == "nowhere"`, true},
			{"many", "all 200 have to begin together", true},
			{"all", "all 8 have to begin together, and the agents have room for 0 now", false},
			{"fill", "agents would have room for cpus:1;mem:64 if they were empty", false},
		} {
			status, err := service.GetJob(c.t.Context(), &apiv1.GetJobRequest{Name: test.name})
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range []*apiv1.JobStatus{status, listed[test.name]} {
				told := strings.Join(one.GetWaits(), "\n")
				if !strings.Contains(told, test.want) || strings.Contains(told, "cpus:64") != (test.name == "huge") {
					t.Errorf("%s waits for\n%s", test.name, told)
				}
				if strings.HasPrefix(one.GetWhy(), test.want) != test.inVain {
					t.Errorf("%s says %q", test.name, one.GetWhy())
				}
			}
		}
	})
}
