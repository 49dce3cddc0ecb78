package translate

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// TestURIsOfCommands: files of the agent's machine are brought by the agent, those of others by the task itself, which
// needs no checksum.
func TestURIsOfCommands(t *testing.T) {
	launch := Launch{Framework: &mesosv1.FrameworkInfo{Id: &mesosv1.FrameworkID{Value: ptr("f")}}, Adapter: api.Command{Argv: []string{"/opt/ten der", "adapter"}}}
	for name, c := range map[string]struct {
		command string
		want    func(api.Task) bool
		refused bool
	}{
		"local": {`{"value":"./run","uris":[{"value":"file:///a.tgz"},{"value":"/b","executable":true}]}`, func(task api.Task) bool {
			return len(task.Command.URIs) == 2 && task.Command.URIs[0].Extract && task.Command.URIs[1].Executable && !strings.Contains(task.Command.Shell, "fetch")
		}, false},
		"shell": {`{"value":"./run","uris":[{"value":"http://h/it's"},{"value":"/b"}]}`, func(task api.Task) bool {
			return len(task.Command.URIs) == 0 &&
				strings.Contains(task.Command.Shell, `'/opt/ten der' 'adapter' 'fetch' '{"uris":[{"value":"http://h/it'\''s"},{"value":"/b"}]}' || exit 1; ./run`)
		}, false},
		"argv": {`{"shell":false,"value":"./run","arguments":["run","x"],"uris":[{"value":"https://h/a"}]}`, func(task api.Task) bool {
			return strings.Contains(task.Command.Argv[2], "'fetch'") && strings.HasSuffix(task.Command.Argv[2], `exec "$@"`) && task.Command.Argv[5] == "x"
		}, false},
		"image": {`{"value":"./run","uris":[{"value":"https://h/a"}]}`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			info := &mesosv1.TaskInfo{
				Name: ptr("t"), TaskId: &mesosv1.TaskID{Value: ptr("t")}, AgentId: &mesosv1.AgentID{Value: ptr("a")}, Command: new(mesosv1.CommandInfo),
				Resources: []*mesosv1.Resource{{Name: ptr("cpus"), Type: mesosv1.Value_SCALAR.Enum(), Scalar: &mesosv1.Value_Scalar{Value: proto.Float64(1)}}},
			}
			if err := codec.JSON.Unmarshal([]byte(c.command), info.Command); err != nil {
				t.Fatal(err)
			}
			if c.refused {
				info.Container = &mesosv1.ContainerInfo{Type: mesosv1.ContainerInfo_DOCKER.Enum(), Docker: &mesosv1.ContainerInfo_DockerInfo{Image: ptr("alpine")}}
			}
			task, err := launch.ReadTask(info)
			if (err != nil) != c.refused {
				t.Fatal(err)
			}
			if !c.refused && !c.want(task) {
				t.Errorf("%+v", task.Command)
			}
		})
	}
}

// TestGraceOfAnExecutorsTask: an executor of a framework's own is given the time that the framework says, or very much.
func TestGraceOfAnExecutorsTask(t *testing.T) {
	launch := Launch{Framework: &mesosv1.FrameworkInfo{User: ptr("u"), Name: ptr("f"), Id: &mesosv1.FrameworkID{Value: ptr("f")}}, Adapter: api.Command{Argv: []string{"tender", "adapter"}}}
	for said, want := range map[time.Duration]time.Duration{0: ownKillGrace, time.Minute: time.Minute} {
		info := &mesosv1.TaskInfo{
			Name: ptr("t"), TaskId: &mesosv1.TaskID{Value: ptr("t")}, AgentId: &mesosv1.AgentID{Value: ptr("a")},
			Executor:  &mesosv1.ExecutorInfo{ExecutorId: &mesosv1.ExecutorID{Value: ptr("x")}, Command: &mesosv1.CommandInfo{Value: ptr("./x")}},
			Resources: []*mesosv1.Resource{{Name: ptr("cpus"), Type: mesosv1.Value_SCALAR.Enum(), Scalar: &mesosv1.Value_Scalar{Value: proto.Float64(1)}}},
		}
		if said > 0 {
			info.KillPolicy = &mesosv1.KillPolicy{GracePeriod: &mesosv1.DurationInfo{Nanoseconds: proto.Int64(int64(said))}}
		}
		if task, err := launch.ReadTask(info); err != nil || task.KillGrace != want {
			t.Errorf("%v is %v, %v", said, task.KillGrace, err)
		}
	}
}

// TestStatesOfAnExecutor: what an executor, or the adapter for it, has said is told in the words that the framework knows.
func TestStatesOfAnExecutor(t *testing.T) {
	data, err := proto.Marshal(&mesosv1.TaskStatus{TaskId: &mesosv1.TaskID{Value: ptr("t")}, State: mesosv1.TaskState_TASK_DROPPED.Enum()})
	if err != nil {
		t.Fatal(err)
	}
	aware := &mesosv1.FrameworkInfo_Capability{Type: mesosv1.FrameworkInfo_Capability_PARTITION_AWARE.Enum()}
	for want, can := range map[mesosv1.TaskState][]*mesosv1.FrameworkInfo_Capability{
		mesosv1.TaskState_TASK_LOST: nil, mesosv1.TaskState_TASK_DROPPED: {aware},
	} {
		f, err := ReadFramework(&mesosv1.FrameworkInfo{User: ptr("u"), Name: ptr("f"), Capabilities: can})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.WriteStatus(api.Status{Task: "t", State: api.TaskFailed, Data: data}, "").GetState(); got != want {
			t.Errorf("it is told %v, not %v", got, want)
		}
	}
}

// TestLimitsOfAContainer: a command has the limits that its container names, or is refused in Mesos's words.
func TestLimitsOfAContainer(t *testing.T) {
	launch := Launch{Framework: &mesosv1.FrameworkInfo{Id: &mesosv1.FrameworkID{Value: ptr("f")}}}
	for limits, want := range map[string]string{
		`{"type":"RLMT_NOFILE","soft":99,"hard":100},{"type":"RLMT_CORE","soft":0,"hard":0}`: "99 100 0\n",
		`{"type":"RLMT_NOFILE","soft":99}`:                                                   "Invalid rlimit values",
		`{}`:                                                                                 "Unknown rlimit type",
	} {
		info := &mesosv1.TaskInfo{
			Name: ptr("t"), TaskId: &mesosv1.TaskID{Value: ptr("t")}, AgentId: &mesosv1.AgentID{Value: ptr("a")},
			Command:   &mesosv1.CommandInfo{Value: ptr("echo $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Sc)")},
			Container: &mesosv1.ContainerInfo{Type: mesosv1.ContainerInfo_MESOS.Enum()},
			Resources: []*mesosv1.Resource{{Name: ptr("cpus"), Type: mesosv1.Value_SCALAR.Enum(), Scalar: &mesosv1.Value_Scalar{Value: proto.Float64(1)}}},
		}
		if err := codec.JSON.Unmarshal([]byte(`{"rlimit_info":{"rlimits":[`+limits+`]}}`), info.Container); err != nil {
			t.Fatal(err)
		}
		task, err := launch.ReadTask(info)
		if err != nil {
			if err.Error() != want {
				t.Errorf("%s: %v", limits, err)
			}
			continue
		}
		if out, err := exec.Command("sh", "-c", task.Command.Shell).CombinedOutput(); string(out) != want {
			t.Errorf("%s: %s, %v", limits, out, err)
		}
	}
}
