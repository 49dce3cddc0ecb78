package translate

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// FuzzCall: whatever a framework of Mesos says of itself and of its tasks, it is refused, or is what masters take.
func FuzzCall(f *testing.F) {
	for _, text := range []string{
		`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u","name":"n","role":"r","failover_timeout":1e9,"offer_filters":{"r":{"min_allocatable_resources":
			{"quantities":[{"quantities":{"cpus":{"value":2}}}]}}}},"suppressed_roles":["r"],"offer_constraints":{"role_constraints":{"r":{"groups":[{"attribute_constraints":
			[{"selector":{"attribute_name":"a"},"predicate":{"text_equals":{"value":"b"}}}]}]}}}}}`,
		`{"type":"ACCEPT","accept":{"operations":[{"type":"LAUNCH","launch":{"task_infos":[{"name":"t","task_id":{"value":"t/é"},"agent_id":{"value":"a"},
			"resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":1,"end":9}]}},{"name":"cpus","type":"SCALAR","scalar":{"value":0.1},
			"reservations":[{"role":"r","labels":{"labels":[{"key":"k","value":"v"}]}}]}],"command":{"value":"./run","uris":[{"value":"http://h/a"}]},
			"container":{"type":"DOCKER","docker":{"image":"alpine","port_mappings":[{"host_port":1,"container_port":2}]},"volumes":[{"container_path":"x","mode":"RW"}]},
			"check":{"type":"HTTP","http":{"port":1,"path":"/"}},"discovery":{"visibility":"CLUSTER","ports":{"ports":[{"number":1,"name":"http"}]}}}]}}]}}`,
		`{"type":"ACCEPT","accept":{"operations":[{"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"CUSTOM","executor_id":{"value":"x"},"command":{"value":"./x"}},
			"task_group":{"tasks":[{"name":"t","task_id":{"value":"t"},"agent_id":{"value":"a"},"resources":[{"name":"mem","type":"SCALAR","scalar":{"value":1}}]}]}}}]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		call := &schedulerv1.Call{}
		if codec.JSON.Unmarshal(text, call) != nil {
			return
		}
		checkFramework(t, call.GetSubscribe())
		launch := Launch{Framework: &mesosv1.FrameworkInfo{Id: &mesosv1.FrameworkID{Value: ptr("f")}}, Adapter: api.Command{Argv: []string{"tender", "adapter"}}}
		for _, operation := range call.GetAccept().GetOperations() {
			checkTasks(t, launch, operation.GetLaunch().GetTaskInfos())
			group := launch
			group.Executor = operation.GetLaunchGroup().GetExecutor()
			checkTasks(t, group, operation.GetLaunchGroup().GetTaskGroup().GetTasks())
		}
	})
}

func checkFramework(t *testing.T, call *schedulerv1.Call_Subscribe) {
	t.Helper()
	f, err := ReadFramework(call.GetFrameworkInfo())
	if err != nil {
		return
	}
	if least, err := f.MinOffer(); err == nil && least.Check() != nil {
		t.Errorf("its least offer is %v", least)
	}
	if timeout := f.FailoverTimeout(); timeout < 0 || timeout > api.FailoverTimeoutMax {
		t.Errorf("its failover timeout is %v", timeout)
	}
	_, _ = f.SuppressedRoles(call.GetSuppressedRoles())
	_, _ = f.Constraint(call.GetOfferConstraints())
}

func checkTasks(t *testing.T, launch Launch, tasks []*mesosv1.TaskInfo) {
	t.Helper()
	for _, info := range tasks {
		task, err := launch.ReadTask(info)
		if err == nil && task.Check() != nil {
			t.Errorf("%v is read as a task that no master takes: %v", info, task.Check())
		}
		if id := info.GetTaskId(); err == nil && !proto.Equal(TaskID(task.ID), id) {
			t.Errorf("task %v is told of as %v", id, TaskID(task.ID))
		}
	}
}
