package nouns

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

func TestGPUsOf(t *testing.T) {
	total, err := structpb.NewStruct(map[string]any{"cpus": 4.0, "gpus": 3.0})
	if err != nil {
		t.Fatal(err)
	}
	tasks := &Listing{Items: []Item{
		{Message: &apiv1.TaskView{FrameworkId: "f1", Id: "t2", Gpus: []uint32{2}}},
		{Message: &apiv1.TaskView{FrameworkId: "f1", Id: "t1", Gpus: []uint32{0}}},
		{Message: &apiv1.TaskView{FrameworkId: "f1", Id: "t3"}},
	}}
	const owners = "0 of f1/t1\n2 of f1/t2\n1 of 3 not given to a task"
	for _, one := range []struct {
		agent *apiv1.AgentView
		want  string
	}{
		{&apiv1.AgentView{}, ""},
		{&apiv1.AgentView{Total: total, Attributes: map[string]string{"isolation": "hybrid,cpu,gpus,memory"}}, owners},
		{&apiv1.AgentView{Total: total, Attributes: map[string]string{"isolation": "cgroup2,cpu"}},
			owners + "\nnot enforced: tasks are told which are theirs, and nothing keeps them from the others"},
	} {
		if got := gpusOf(one.agent, tasks); got != one.want {
			t.Errorf("%q", got)
		}
	}
}
