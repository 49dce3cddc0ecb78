package agent

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/oci"
)

// launchGroup launches tasks of f1 as one group.
func launchGroup(master *script, tasks ...api.Task) {
	var group protocol.LaunchGroup
	for _, task := range tasks {
		group.Tasks = append(group.Tasks, master.launching(task).(protocol.LaunchTask))
	}
	master.say(group)
}

// The tasks of a group pass something on in the folder that they share, whichever walls they have. When one fails, the
// other one is ended with all its processes. (R46.)
func TestTasksOfAGroup(t *testing.T) {
	for name, configOf := range map[string]func(*testing.T, *script) Config{
		"bare":       func(t *testing.T, master *script) Config { return testConfig(t, master.address) },
		"users":      usersConfig,
		"namespaces": spacesConfig,
		"images":     imagesConfig,
	} {
		t.Run(name, func(t *testing.T) {
			master := newScript(t)
			config := configOf(t, master)
			a := run(t, config)
			await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			in := func(task api.Task) api.Task { return task }
			if name == "images" {
				reference, _ := oci.Serve(t).Push(t, "app:v1", shellImage(t, v1.Config{Env: []string{"PATH=/bin"}}))
				in = func(task api.Task) api.Task { task.Image = reference; return task }
			}
			launchGroup(master,
				in(command("server", `mkfifo $TENDER_TASK_SHARED/socket && read word < $TENDER_TASK_SHARED/socket && echo "$word" > said; sleep 1000`)),
				in(command("client", `until test -p $TENDER_TASK_SHARED/socket; do sleep 0.01; done; echo hello > $TENDER_TASK_SHARED/socket; echo sent > said; until test -e end; do sleep 0.01; done; exit 4`)))
			master.status("server", api.TaskRunning)
			master.status("client", api.TaskRunning)
			sandbox := func(task string) string { return filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", task) }
			awaitFile(t, filepath.Join(sandbox("client"), "said"))
			awaitFile(t, filepath.Join(sandbox("server"), "said"))
			if said := textOf(t, filepath.Join(sandbox("server"), "said")); said != "hello" {
				t.Errorf("the server has heard %q", said)
			}
			if err := os.WriteFile(filepath.Join(sandbox("client"), "end"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if end := master.status("client", api.TaskFailed); end.ExitCode == nil || *end.ExitCode != 4 {
				t.Errorf("the client ended with %+v", end)
			}
			if end := master.status("server", api.TaskKilled); end.Reason != api.ReasonTaskGroupFailed {
				t.Errorf("the server ended with %+v", end)
			}
			killExecutors(t, a)
			a.end()
		})
	}
}
