package frameworktest

import (
	"context"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
)

const (
	urgentRole     api.Role   = "frameworktest-urgent"
	urgentTask     api.TaskID = "urgent"
	urgentPriority            = 1000
	urgentName                = "frameworktest: urgent"
)

// Preempt starts a framework of a higher priority that needs these resources on one agent, so that they are taken from
// others, and waits until it has them. The cluster's Allocator must be "priority". The returned framework runs one
// task, called "urgent", until its Teardown gives the resources back.
func (h *Handle) Preempt(need api.Resources) *Framework {
	h.t.Helper()
	if h.cluster.Allocator != "priority" {
		h.t.Fatalf("Preempt needs Cluster.Allocator %q; it is %q, which preempts nobody", "priority", h.cluster.Allocator)
	}
	h.Priority(urgentRole, urgentPriority)
	f := h.Start(framework.Config{Name: string(urgentRole), Roles: []api.Role{urgentRole}}, &urgent{need: need})
	f.AwaitState(urgentTask, api.TaskRunning)
	return f
}

// urgent is a scheduler that runs one task until the end.
type urgent struct {
	need api.Resources
	has  bool
}

func (u *urgent) Subscribed(_ context.Context, client *framework.Client) error {
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: u.need, Count: 1}}})
}

func (u *urgent) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	for _, offer := range offers {
		if !u.has && offer.Resources.Contains(u.need) {
			u.has = true
			return []api.Answer{api.Launch(offer, api.Task{ID: urgentTask, Name: urgentName, Resources: u.need, Command: &api.Command{Argv: []string{"urgent"}}})}
		}
	}
	return nil
}

func (u *urgent) Update(context.Context, api.Status) error { return nil }

// scriptOf returns how a task is played: by the test's script, except for tasks that this package itself launches.
func (h *Handle) scriptOf(task *executor.Task) Play {
	if task.Name == urgentName {
		return Play{Forever: true}
	}
	return h.cluster.Script(task.Task)
}
