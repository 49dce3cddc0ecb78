package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
)

// crowd makes many sandboxes of tasks that nobody knows any more, as an agent leaves them that was marked gone or was
// killed in the middle of its work.
func crowd(t *testing.T, dataDir string, tasks int) {
	t.Helper()
	for i := range tasks {
		sandbox := filepath.Join(dataDir, "sandboxes/f1/command/tasks", fmt.Sprint("old", i))
		if err := os.MkdirAll(filepath.Join(sandbox, "a/b/c"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// staying is a task that waits until nothing of the old sandboxes is left. It finishes well if its own sandbox is still
// there, with what it wrote.
func staying(id api.TaskID, dataDir string) api.Task {
	return command(id, `echo here > mark; until [ -z "$(ls -A `+dataDir+`/trash)" ]; do sleep 0.02; done
[ "$(cat $TENDER_TASK_SANDBOX/mark)" = here ] && [ "$(cat mark)" = here ]`)
}

// On a machine whose old agent was given up, the new agent starts tasks in the very folders that it is about to delete.
// Their sandboxes stay, also after an ordinary restart.
func TestNewTasksKeepTheirSandboxes(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	id := a.runs.all()[0].process.ID()
	t.Cleanup(func() { _ = syscall.Kill(-id.PID, syscall.SIGKILL) })
	crowd(t, config.DataDir, 500)
	master.forget()
	master.say(protocol.AgentGone{Why: "test"})
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
	master.launch(staying("t1", config.DataDir))
	master.status("t1", api.TaskFinished)
	if left := a.folder.list(filepath.Join(config.DataDir, "sandboxes/f1/command/tasks")); len(left) != 1 {
		t.Errorf("%d sandboxes are left", len(left))
	}

	master.shutDown()
	a.end()
	crowd(t, config.DataDir, 500)
	crowd(t, filepath.Join(config.DataDir, "trash"), 50) // the deletion of these was interrupted
	master.forget()
	run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	master.launch(staying("old7", config.DataDir))
	master.status("old7", api.TaskFinished)
	master.shutDown()
}

// The data of an agent that was given up is kept under the name of that agent. A new volume of the same ID never shows
// it, nor a folder that somebody has put there.
func TestVolumesOfAGoneAgent(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	disk := func(id api.VolumeID) protocol.Volume {
		return protocol.Volume{Resource: api.Resource{Label: api.Label{Name: "disk", Reserved: "default", Volume: id}, Scalar: 1000}}
	}
	writer := func(id api.TaskID, volume api.VolumeID, shell string) protocol.LaunchTask {
		launch := master.launching(command(id, shell)).(protocol.LaunchTask)
		launch.Resources = launch.Resources.Plus(api.NewResources(disk(volume).Resource))
		launch.Task.Resources = launch.Resources
		return launch
	}
	path := func(parts ...string) string { return filepath.Join(append([]string{config.DataDir}, parts...)...) }
	for life := range 2 {
		foreign := api.VolumeID(fmt.Sprint("foreign", life))
		if err := os.MkdirAll(path("volumes", string(foreign), "gold"), 0o755); err != nil {
			t.Fatal(err)
		}
		master.say(protocol.CreateVolume{Volume: disk("v1")}, protocol.CreateVolume{Volume: disk(foreign)},
			writer("t1", "v1", "test -z \"$(ls volumes/v1)\" && echo gold > volumes/v1/file"),
			writer("t2", foreign, "test -z \"$(ls volumes/"+string(foreign)+")\""))
		master.status("t1", api.TaskFinished)
		master.status("t2", api.TaskFinished)
		master.forget()
		master.say(protocol.AgentGone{Why: "test"})
		await(master, "registration", func(protocol.RegisterAgent) bool { return true })
		await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
		name := []string{"v1", "v1.2"}[life]
		if text, err := os.ReadFile(path("volumes-of", "agent-1", name, "file")); err != nil || string(text) != "gold\n" {
			t.Errorf("the old agent's data: %q, %v", text, err)
		}
		if _, err := os.Stat(path("volumes-of", "unknown", string(foreign), "gold")); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(path("volumes")); err != nil || len(left) > 0 {
			t.Errorf("the new agent begins with %v, %v", left, err)
		}
	}
}

// TestAnAgentThatIsStoppedBeforeItHasJoined ends without an error: nothing is wrong, and it joins at its next start.
func TestAnAgentThatIsStoppedBeforeItHasJoined(t *testing.T) {
	token, err := trust.NewKey().FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig(t, "m1:5060")
	config.Token = token.String()
	ctx, stop := context.WithCancel(t.Context())
	config.Dial = func(context.Context, string) (net.Conn, error) {
		stop()
		return nil, errors.New("nobody is there")
	}
	agent, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Run(ctx); err != nil {
		t.Error(err)
	}
}
