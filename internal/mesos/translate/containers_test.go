package translate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// TestContainers: what a container asks for is there when its command begins, or is refused with the reason.
func TestContainers(t *testing.T) {
	host, shared := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(host, "file"), filepath.Join(shared, "data", "file")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("content\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		volume, command string
		group           bool
		says            string // what the command says, or a part of why the task is refused
		fails           bool   // the command fails
		refused         bool
	}{
		"host path":           {`{"mode":"RW","container_path":"in/x","source":{"type":"HOST_PATH","host_path":{"path":"HOST/"}}}`, "cat in/x/file", false, "content\n", false, false},
		"of the older format": {`{"mode":"RW","container_path":"x","host_path":"HOST/"}`, "cat x/file", false, "content\n", false, false},
		"the same path":       {`{"mode":"RW","container_path":"HOST/","host_path":"HOST/"}`, "cat HOST/file", false, "content\n", false, false},
		"no such path":        {`{"mode":"RW","container_path":"x","host_path":"HOST/it's not"}`, "true", false, "it's not' in HOST_PATH volume does not exist\n", true, false},
		"of the group":        {`{"mode":"RW","container_path":"x","source":{"type":"SANDBOX_PATH","sandbox_path":{"type":"PARENT","path":"data"}}}`, "cat x/file", true, "content\n", false, false},
		"of no group":         {`{"mode":"RW","container_path":"x","source":{"type":"SANDBOX_PATH","sandbox_path":{"type":"PARENT","path":"data"}}}`, "", false, "only works for nested container", false, true},
		"of itself":           {`{"mode":"RW","container_path":"x","source":{"type":"SANDBOX_PATH","sandbox_path":{"type":"SELF","path":"y"}}}`, "", false, "'container_path' is relative", false, true},
		"out of the sandbox":  {`{"mode":"RW","container_path":"../x","host_path":"HOST/"}`, "", false, "leads out of the sandbox", false, true},
		"elsewhere":           {`{"mode":"RW","container_path":"/x","host_path":"HOST/"}`, "", false, "at another absolute path", false, true},
		"read only":           {`{"mode":"RO","container_path":"x","host_path":"HOST/"}`, "", false, "read only", false, true},
		"relative":            {`{"mode":"RW","container_path":"x","source":{"type":"HOST_PATH","host_path":{"path":"x"}}}`, "", false, "is not absolute", false, true},
		"two sources":         {`{"mode":"RW","container_path":"x","host_path":"x","image":{"type":"DOCKER"}}`, "", false, "Only one of them should be set", false, true},
		"none":                {`{"mode":"RW","container_path":"x"}`, "", false, "Only one of them should be set", false, true},
		"of docker":           {`{"mode":"RW","container_path":"x","source":{"type":"DOCKER_VOLUME","docker_volume":{"name":"v"}}}`, "", false, "of type DOCKER_VOLUME", false, true},
		"unset":               {`{"mode":"RW","container_path":"x","source":{"type":"SECRET"}}`, "", false, "'source.secret' is not set for SECRET volume", false, true},
		"secret": {`{"mode":"RO","container_path":"x","source":{"type":"SECRET","secret":{"type":"REFERENCE","reference":{"name":"web/key"}}}}`,
			"mkdir secrets; echo hush >secrets/volume-1; cat x", false, "hush\n", false, false},
		"secret in clear": {`{"mode":"RO","container_path":"x","source":{"type":"SECRET","secret":{"type":"VALUE","value":{"data":"aHVzaA=="}}}}`, "", false, "type VALUE", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			launch := Launch{Framework: &mesosv1.FrameworkInfo{Id: &mesosv1.FrameworkID{Value: ptr("f")}}}
			if c.group {
				launch.Group, launch.Executor = []string{"t"}, &mesosv1.ExecutorInfo{Type: mesosv1.ExecutorInfo_DEFAULT.Enum()}
			}
			task, err := readContained(t, launch, strings.ReplaceAll(`{"type":"MESOS","volumes":[`+c.volume+`]}`, "HOST/", host+"/"), strings.ReplaceAll(c.command, "HOST/", host+"/"))
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it is refused with %v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command("/bin/sh", "-c", task.Command.Shell)
			command.Dir, command.Env = t.TempDir(), append(os.Environ(), "TENDER_TASK_SHARED="+shared)
			out, err := command.CombinedOutput()
			if (err != nil) != c.fails || !strings.HasSuffix(string(out), c.says) {
				t.Errorf("%s\nsays %q, %v; want %q", task.Command.Shell, out, err, c.says)
			}
		})
	}
}

// readContained reads a task that runs a command in a container.
func readContained(t *testing.T, launch Launch, container, command string) (api.Task, error) {
	t.Helper()
	info := &mesosv1.TaskInfo{
		Name: ptr("t"), TaskId: &mesosv1.TaskID{Value: ptr("t")}, AgentId: &mesosv1.AgentID{Value: ptr("a")},
		Command: &mesosv1.CommandInfo{Value: ptr(command)}, Container: new(mesosv1.ContainerInfo),
		Resources: []*mesosv1.Resource{{Name: ptr("cpus"), Type: mesosv1.Value_SCALAR.Enum(), Scalar: &mesosv1.Value_Scalar{Value: proto.Float64(1)}}},
	}
	if err := codec.JSON.Unmarshal([]byte(container), info.Container); err != nil {
		t.Fatal(err)
	}
	return launch.ReadTask(info)
}

// TestNetworks: what runs on the machine's network runs, whatever it says of others, and nothing else does.
func TestNetworks(t *testing.T) {
	for container, refused := range map[string]string{
		`{"type":"MESOS"}`: "",
		`{"type":"MESOS","network_infos":{"port_mappings":[{"host_port":31000,"container_port":80}]},"linux_info":{"share_cgroups":false}}`:                                     "",
		`{"type":"MESOS","network_infos":[{"name":"weave"}]}`:                                                                                                                   "a network of the container's own",
		`{"type":"MESOS","linux_info":{"share_pid_namespace":true}}`:                                                                                                            "'ContainerInfo.linux_info'",
		`{"type":"DOCKER","docker":{"image":"a","network":"HOST","parameters":[{"key":"volume-driver","value":"local"}]},"network_infos":[{"name":"default"}],"linux_info":{}}`: "",
		`{"type":"DOCKER","docker":{"image":"a","network":"USER"},"network_infos":[{"name":"default"}]}`:                                                                        "a network of the container's own",
		`{"type":"DOCKER","docker":{"image":"a","port_mappings":[{"host_port":1,"container_port":2}]}}`:                                                                         "Port mappings are only supported for bridge and user-defined networks",
		`{"type":"DOCKER","hostname":"h","docker":{"image":"a"}}`:                                                                                                               "Unable to set hostname with host network mode",
		`{"type":"DOCKER","docker":{"image":"a","parameters":[{"key":"cap-add","value":"ALL"}]}}`:                                                                               "'cap-add'",
	} {
		if _, err := readContained(t, Launch{Framework: new(mesosv1.FrameworkInfo)}, container, "true"); err == nil && refused != "" || err != nil && (refused == "" || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", container, err, refused)
		}
	}
	executor := &mesosv1.ExecutorInfo{Type: mesosv1.ExecutorInfo_DEFAULT.Enum(), Container: &mesosv1.ContainerInfo{
		Type: mesosv1.ContainerInfo_MESOS.Enum(), NetworkInfos: []*mesosv1.NetworkInfo{{Name: ptr("weave")}},
	}}
	if _, err := readContained(t, Launch{Framework: new(mesosv1.FrameworkInfo), Group: []string{"t"}, Executor: executor}, `{"type":"MESOS"}`, "true"); err == nil {
		t.Error("a default executor has a network of its own")
	}
}
