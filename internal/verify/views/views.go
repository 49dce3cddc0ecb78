// Package views makes the values of package verify from what masters answer to operators and what agents answer over
// HTTP. It asks nobody itself.
package views

import (
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/verify"
	"github.com/tenderhq/tender/internal/wire"
)

// Lists are all lists of the leader, whole.
type Lists struct {
	Agents     []*apiv1.AgentView
	Frameworks []*apiv1.FrameworkView
	Tasks      []*apiv1.TaskView
	Offers     []*apiv1.OfferView
	Roles      []*apiv1.RoleView
}

// reader reads values, and remembers the first thing that could not be read.
type reader struct{ err error }

func (r *reader) resources(shown *structpb.Struct) api.Resources {
	resources, err := wire.ResourcesFromStruct(shown)
	r.err = errors.Join(r.err, err)
	return resources
}

func (r *reader) text(shown string) api.Resources {
	resources, err := api.ParseResources(shown)
	r.err = errors.Join(r.err, err)
	return resources
}

func (r *reader) state(name string) api.TaskState {
	state, err := api.ParseTaskState(name)
	r.err = errors.Join(r.err, err)
	return state
}

// Fill puts the lists into a look.
func (l Lists) Fill(look *verify.Look) error {
	var r reader
	for _, v := range l.Agents {
		look.Agents = append(look.Agents, r.agent(v))
	}
	for _, v := range l.Frameworks {
		look.Frameworks = append(look.Frameworks, r.framework(v))
	}
	for _, v := range l.Tasks {
		look.Tasks = append(look.Tasks, verify.Task{
			Ref: refOf(v.GetFrameworkId(), v.GetId()), Agent: api.AgentID(v.GetAgentId()), Role: api.Role(v.GetRole()), State: r.state(v.GetState()),
			Resources: r.resources(v.GetResources()), Launched: v.GetLaunched().AsTime(), Since: v.GetSince().AsTime(),
		})
	}
	for _, v := range l.Offers {
		look.Offers = append(look.Offers, verify.Offer{
			ID: api.OfferID(v.GetId()), Framework: api.FrameworkID(v.GetFrameworkId()), Agent: api.AgentID(v.GetAgentId()),
			Resources: r.resources(v.GetResources()), Since: v.GetSince().AsTime(),
		})
	}
	for _, v := range l.Roles {
		look.Roles = append(look.Roles, verify.Role{
			Role: api.Role(v.GetRole()), Limit: r.resources(v.GetLimit()), Allocated: r.resources(v.GetAllocated()),
			Offered: r.resources(v.GetOffered()), Reserved: r.resources(v.GetReserved()),
		})
	}
	return r.err
}

func refOf(framework, task string) api.TaskRef {
	return api.TaskRef{Framework: api.FrameworkID(framework), Task: api.TaskID(task)}
}

func (r *reader) agent(v *apiv1.AgentView) verify.Agent {
	a := verify.Agent{
		ID: api.AgentID(v.GetId()), Hostname: v.GetHostname(), Address: v.GetAddress(), State: v.GetState(), Why: v.GetWhy(),
		Since: v.GetSince().AsTime(), Marks: v.GetMarks(), Total: r.resources(v.GetTotal()), Allocated: r.resources(v.GetAllocated()),
		Offered: r.resources(v.GetOffered()), Revocable: r.resources(v.GetRevocable()), Tasks: int(v.GetTasks()), Apart: v.GetApart(),
		Volumes: map[api.VolumeID]uint64{},
	}
	for id, generation := range v.GetVolumes() {
		a.Volumes[api.VolumeID(id)] = generation
	}
	for _, o := range v.GetOrphaned() {
		a.Orphaned = append(a.Orphaned, verify.OrphanedVolume{ID: o.GetVolume(), Why: o.GetWhy()})
	}
	return a
}

func (r *reader) framework(v *apiv1.FrameworkView) verify.Framework {
	f := verify.Framework{
		ID: api.FrameworkID(v.GetId()), State: v.GetState(), Since: v.GetSince().AsTime(), Allocated: r.resources(v.GetAllocated()),
		Offered: r.resources(v.GetOffered()), Tasks: int(v.GetTasks()), Offers: int(v.GetOffers()),
	}
	for _, role := range v.GetRoles() {
		f.Roles = append(f.Roles, api.Role(role))
	}
	for _, d := range v.GetDemand() {
		f.Demand = append(f.Demand, verify.Demand{Role: api.Role(d.GetRole()), Count: d.GetCount()})
	}
	return f
}

// Said reads what an agent says of itself, its answer to GET /v1/state.
func Said(answer []byte) (*verify.Said, error) {
	var shown struct {
		Agent      api.AgentID `json:"agent"`
		Registered bool        `json:"registered"`
		Resources  string      `json:"resources"`
		Volumes    []struct {
			ID         api.VolumeID `json:"id"`
			Generation uint64       `json:"generation"`
			Lost       bool         `json:"lost"`
		} `json:"volumes"`
		Executors []struct {
			Framework string `json:"framework_id"`
			ID        string `json:"id"`
			Resources string `json:"resources"`
		} `json:"executors"`
		Tasks []struct {
			Framework string `json:"framework_id"`
			ID        string `json:"id"`
			State     string `json:"state"`
			Resources string `json:"resources"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(answer, &shown); err != nil {
		return nil, err
	}
	var r reader
	said := &verify.Said{Agent: shown.Agent, Registered: shown.Registered, Resources: r.text(shown.Resources)}
	for _, v := range shown.Volumes {
		said.Volumes = append(said.Volumes, verify.Volume(v))
	}
	for _, e := range shown.Executors {
		ref := api.ExecutorRef{Framework: api.FrameworkID(e.Framework), Executor: api.ExecutorID(e.ID)}
		said.Executors = append(said.Executors, verify.Executor{Ref: ref, Resources: r.text(e.Resources)})
	}
	for _, t := range shown.Tasks {
		said.Tasks = append(said.Tasks, verify.AgentTask{Ref: refOf(t.Framework, t.ID), State: r.state(t.State), Resources: r.text(t.Resources)})
	}
	return said, r.err
}
