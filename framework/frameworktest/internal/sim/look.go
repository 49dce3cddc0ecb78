package sim

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/verify"
	"github.com/tenderhq/tender/master/view"
)

// verifyCluster returns what `tender verify` would find in a cluster that has come to rest; "" if nothing. Volumes that the
// registry does not know, and tasks that no leader has launched, wait for a person (R22, R40).
func (t *truth) verifyCluster(l *leader) string {
	for _, f := range verify.Check(t.lookAtCluster(l)) {
		if f.Waits {
			continue
		}
		return f.String()
	}
	return ""
}

// all returns all pages of a list.
func all[Item any](cluster view.Cluster, list func(view.Cluster, view.Query) view.Listing[Item]) (items []Item) {
	for query := (view.Query{}); ; {
		page := view.PageOf(cluster, list, query)
		items = append(items, page.Items...)
		if query.After = page.Next; query.After == "" {
			return items
		}
	}
}

// lookAtCluster returns what the leader says, and what each agent says that has a machine here.
func (t *truth) lookAtCluster(l *leader) (look verify.Look) {
	cluster := l.core.View()
	for _, a := range all(cluster, view.AgentList) {
		var orphaned []verify.OrphanedVolume
		for _, o := range a.Volumes.Orphans {
			orphaned = append(orphaned, verify.OrphanedVolume{ID: string(o.Volume.Volume), Why: o.Why})
		}
		var apart []string
		for _, stub := range a.Apart {
			apart = append(apart, stub.TaskRef.String())
		}
		look.Agents = append(look.Agents, verify.Agent{
			ID: a.Agent.ID, State: a.State.String(), Why: a.Why, Since: a.Since, Marks: a.Marks.Strings(), Total: a.Agent.Resources,
			Allocated: a.Allocated, Offered: a.Offered, Revocable: a.Revocable, Tasks: a.Tasks,
			Volumes: a.Volumes.Booked, Orphaned: orphaned, Apart: apart, Said: t.readAgent(a.Agent.ID),
		})
	}
	for _, f := range all(cluster, view.FrameworkList) {
		shown := verify.Framework{
			ID: f.Framework.ID, State: f.State, Since: f.Since, Roles: f.Framework.Roles, Allocated: f.Allocated, Offered: f.Offered,
			Tasks: f.Tasks, Offers: f.Offers,
		}
		for _, demand := range f.Demand {
			for _, shape := range demand.Shapes {
				shown.Demand = append(shown.Demand, verify.Demand{Role: demand.Role, Count: shape.Count})
			}
		}
		look.Frameworks = append(look.Frameworks, shown)
	}
	for _, task := range all(cluster, view.TaskList) {
		look.Tasks = append(look.Tasks, verify.Task{
			Ref: api.TaskRef{Framework: task.Framework, Task: task.Task.ID}, Agent: task.Agent, Role: task.Role, State: task.Status.State,
			Resources: task.Resources, Launched: task.Launched, Since: task.Status.At,
		})
	}
	for _, o := range all(cluster, view.OfferList) {
		look.Offers = append(look.Offers, verify.Offer{
			ID: o.Offer.ID, Framework: o.Offer.Framework, Agent: o.Offer.Agent, Resources: o.Offer.Resources, Since: o.Since,
		})
	}
	for _, r := range all(cluster, view.RoleList) {
		look.Roles = append(look.Roles, verify.Role{Role: r.Role, Limit: r.Limit, Allocated: r.Allocated, Offered: r.Offered, Reserved: r.Reserved})
	}
	return look
}

// readAgent returns what the agent of this ID says; nil: it runs nowhere, or nobody can reach it.
func (t *truth) readAgent(id api.AgentID) *verify.Said {
	for _, m := range t.world.machines {
		if id == "" || m.agentOf() != id || m.isolated || m.twin {
			continue
		}
		picture := m.daemon.core.Picture()
		said := &verify.Said{Agent: picture.Agent, Registered: picture.Registered, Resources: m.config.Agent.Resources}
		for _, v := range picture.Volumes {
			said.Volumes = append(said.Volumes, verify.Volume{ID: v.Volume, Generation: v.Generation})
		}
		for _, e := range picture.Executors {
			said.Executors = append(said.Executors, verify.Executor{
				Ref: api.ExecutorRef{Framework: e.Framework, Executor: e.Executor}, Resources: parsed(e.Resources),
			})
		}
		for _, task := range picture.Tasks {
			state, err := api.ParseTaskState(task.State)
			if err != nil {
				t.world.breakStory("%s says that task %s is %q", m.name, task.Task, task.State)
			}
			said.Tasks = append(said.Tasks, verify.AgentTask{
				Ref: api.TaskRef{Framework: task.Framework, Task: task.Task}, State: state, Resources: parsed(task.Resources),
			})
		}
		return said
	}
	return nil
}

// parsed reads resources that an agent has written.
func parsed(text string) api.Resources {
	resources, err := api.ParseResources(text)
	if err != nil {
		panic(err) // what api writes it reads
	}
	return resources
}
