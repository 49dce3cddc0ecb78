package run

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// counter is the operator's service of a cluster in which tasks hold resources.
type counter struct {
	apiv1.OperatorServiceClient
	tasks []*apiv1.TaskView
	why   map[string]string // of agents
	whole string            // of the framework
}

func (c *counter) Explain(context.Context, *apiv1.ExplainRequest, ...grpc.CallOption) (*apiv1.ExplainResponse, error) {
	answer := &apiv1.ExplainResponse{Framework: []string{c.whole}}
	for id, why := range c.why {
		answer.Agents = append(answer.Agents, &apiv1.ExplainedAgent{AgentId: id, Why: why})
	}
	return answer, nil
}

func (c *counter) ListTasks(_ context.Context, r *apiv1.ListTasksRequest, _ ...grpc.CallOption) (*apiv1.ListTasksResponse, error) {
	answer := &apiv1.ListTasksResponse{}
	for _, task := range c.tasks {
		if task.GetAgentId() == r.GetAgentId() {
			answer.Items = append(answer.Items, task)
		}
	}
	return answer, nil
}

func amounts(cpus, mem float64) *structpb.Struct {
	fields, err := structpb.NewStruct(map[string]any{"cpus": cpus, "mem": mem})
	if err != nil {
		panic(err)
	}
	return fields
}

func holding(agent, framework string, cpus float64) *apiv1.TaskView {
	return &apiv1.TaskView{AgentId: agent, FrameworkId: "framework-9", FrameworkName: framework, Resources: amounts(cpus, 1)}
}

// The agent that is nearest to holding a task is named, and what stands in between.
func TestTheNearestReason(t *testing.T) {
	view := func(id string, total, free float64, marks ...string) *apiv1.AgentView {
		return &apiv1.AgentView{Id: id, State: "RUNNING", Total: amounts(total, 4096), Free: amounts(free, 4000), Marks: marks}
	}
	away := &apiv1.AgentView{Id: "agent-4", State: "DISCONNECTED", Why: "no heartbeat for 3s", Total: amounts(8, 4096), Free: amounts(8, 4096)}
	for _, test := range []struct {
		name   string
		agents []*apiv1.AgentView
		why    map[string]string
		want   string
	}{
		{"who holds it", []*apiv1.AgentView{view("agent-1", 4, 0), view("agent-2", 4, 1)},
			map[string]string{"agent-1": "agent-1 has nothing free", "agent-2": "agent-2 has cpus:1 free; framework-2 wants cpus:3"},
			"agent-2 fits and is full: web holds 2.5, batch holds 0.5 of 4 cpus"},
		{"an agent that is too small is not near", []*apiv1.AgentView{view("agent-1", 2, 2), view("agent-2", 4, 1)},
			map[string]string{"agent-1": "agent-1 has cpus:2 free", "agent-2": "agent-2 has cpus:1 free"},
			"agent-2 fits and is full: web holds 2.5, batch holds 0.5 of 4 cpus"},
		{"a mark", []*apiv1.AgentView{view("agent-2", 4, 4, "draining")},
			map[string]string{"agent-2": "not offered: draining"}, "agent-2 fits and is draining"},
		{"a silent agent", []*apiv1.AgentView{away},
			map[string]string{"agent-4": "not offered"}, "agent-4 fits and is DISCONNECTED: no heartbeat for 3s"},
		{"room, and a limit", []*apiv1.AgentView{view("agent-2", 4, 1), view("agent-3", 4, 4)},
			map[string]string{"agent-2": "agent-2 has cpus:1 free", "agent-3": "role lim has cpus:0 of cpus:0.5"},
			"agent-3: role lim has cpus:0 of cpus:0.5"},
		{"what a constraint excludes comes last", []*apiv1.AgentView{view("agent-2", 4, 1), view("agent-3", 4, 4)},
			map[string]string{"agent-2": "agent-2 has cpus:1 free", "agent-3": "agent-3 fails the constraint zone == \"a\" of framework-2"},
			"agent-2 fits and is full: web holds 2.5, batch holds 0.5 of 4 cpus"},
		{"nobody is known to be large enough", []*apiv1.AgentView{{Id: "agent-5", State: "INITING"}}, nil, "the leader's word"},
	} {
		operator := &counter{
			tasks: []*apiv1.TaskView{holding("agent-2", "batch", 0.5), holding("agent-2", "web", 1.5), holding("agent-2", "web", 1), holding("agent-1", "x", 4)},
			why:   test.why, whole: "the leader's word",
		}
		s := tell(1, func(c *Config) { c.Task.Resources = api.Scalars(3, 100) })
		config := s.config
		config.Operator = operator
		r := &runner{config: config, job: s.job}
		if got := r.reason(t.Context(), test.agents); got != "waiting for resources: "+test.want {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

// A reason is said once until another one holds; a number that counts on is no other reason.
func TestAReasonIsSaidOnce(t *testing.T) {
	s := tell(1, nil)
	r := &runner{config: s.config}
	var last said
	for _, text := range []string{
		"agent-2 is full: web holds 3 of 4 cpus", "agent-2 is full: web holds 3.5 of 4 cpus", "it is filtered for 0.4s", "it is filtered for 12ms",
		"agent-2 is full: web holds 3 of 4 cpus", "agent-3 is full: web holds 3 of 4 cpus",
	} {
		r.say(&last, text)
	}
	same(t, s.said, "agent-2 is full: web holds 3 of 4 cpus", "it is filtered for 0.4s", "it is filtered for 12ms",
		"agent-2 is full: web holds 3 of 4 cpus", "agent-3 is full: web holds 3 of 4 cpus")
}
