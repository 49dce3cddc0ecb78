package api_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestNamedPorts: each named port must be one of the task's resources, and the task is told it by a variable of its
// own.
func TestNamedPorts(t *testing.T) {
	resources, err := api.ParseResources("cpus:1;ports:[80-81]")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ports map[string]uint16
		want  string // of the error; "": none
	}{
		{map[string]uint16{"http": 80, "admin-2": 81}, ""},
		{map[string]uint16{"http": 0}, "from 1 to 65535"},
		{map[string]uint16{"http": 82}, "ask for ports:[82]"},
		{map[string]uint16{"--": 80}, "begin with a letter or a digit"},
		{map[string]uint16{"a-b": 80, "A_b": 81}, `ports "A_b" and "a-b" are both told as TENDER_TASK_PORT_A_B`},
		{map[string]uint16{"b": 80, "a": 80}, `ports "a" and "b" are both 80`},
	} {
		task := api.Task{ID: "t", Resources: resources, Command: &api.Command{Shell: "true"}, Ports: c.ports}
		err := task.Check()
		if c.want == "" && err != nil {
			t.Errorf("%v is refused: %v", c.ports, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: the error is %v; it must say %q", c.ports, err, c.want)
		}
	}
}

func TestPortVariable(t *testing.T) {
	for name, want := range map[string]string{"http": "TENDER_TASK_PORT_HTTP", "grpc-2.x": "TENDER_TASK_PORT_GRPC_2_X", "café": "TENDER_TASK_PORT_CAF_"} {
		if got := api.PortVariable(name); got != want {
			t.Errorf("port %s is told as %s, not %s", name, got, want)
		}
	}
}
