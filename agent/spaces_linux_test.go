package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/testing/machine"
	"github.com/tenderhq/tender/internal/testing/mounts"
)

// spacesConfig returns the configuration of an agent whose tasks have namespaces.
func spacesConfig(t *testing.T, master *script) Config {
	t.Helper()
	config := usersConfig(t, master)
	config.Walls.Isolation = walls.Spaces
	if err := os.MkdirAll(config.DataDir, 0o711); err != nil {
		t.Fatal(err)
	}
	machine.GivesNamespaces(t, spaces.Try(spaces.View{Temporary: t.TempDir()}))
	cells, err := walls.OpenCells(config.DataDir, config.Walls)
	if err != nil {
		t.Skipf("no walls here: %v", err)
	}
	if err := cells.Close(); err != nil {
		t.Fatal(err)
	}
	return config
}

// A task with namespaces sees nothing of others and goes on when its agent goes away. The next agent finds it by the
// process that stands for it outside, and ends it. No process, mount or control group of it is left.
func TestNamespacesOutliveTheAgent(t *testing.T) {
	master := newScript(t)
	config := spacesConfig(t, master)
	config.RecoveryTimeout = 0 // 15 minutes
	mounted := mounts.List(t, config.DataDir)
	first := run(t, config)
	root := cellsOf(t, first)
	registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if found := registration.Agent.Attributes[walls.Attribute]; !strings.Contains(found, ",namespaces,") {
		t.Errorf("found %s", found)
	}
	launchOf(master, "f1", command("t1", "echo mine > /tmp/mark; "+daemon+"until test -e pid; do sleep 0.01; done; touch up; exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	sandbox := func(task string) string { return filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", task) }
	pidIn(t, config, "t1", "pid")
	launchOf(master, "f1", command("t2", "cat "+sandbox("t1")+"/pid "+config.DataDir+"/identity /tmp/mark; cat /proc/[0-9]*/comm; exit 0"))
	master.status("t2", api.TaskFinished)
	if said := textOf(t, filepath.Join(sandbox("t2"), "stdout")); said != spaces.Helper+"\nsh" { // its helper and itself
		t.Errorf("it saw %q", said)
	}
	helper := runningOf(t, first, "t1")
	program := spaces.ProgramOf(helper.PID)
	first.end()
	if program == helper.PID || !proc.Alive(helper.PID, helper.Start) {
		t.Fatalf("program %d of helper %+v is gone with the agent", program, helper)
	}
	config.RecoveryTimeout = -1
	master.forget()
	second := run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if again := runningOf(t, second, "t1"); again != helper {
		t.Errorf("the agent has found %+v, not %+v", again, helper)
	}
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "t1"}, Reason: api.ReasonKilledByFramework})
	master.status("t1", api.TaskKilled)
	if err := syscall.Kill(program, 0); err == nil {
		t.Errorf("program %s lives", strconv.Itoa(program))
	}
	killExecutors(t, second)
	second.end()
	if root.Exists() {
		t.Errorf("the agent has left %v", root.Children())
	}
	mounts.Check(t, config.DataDir, mounted)
}

// The configured limits and the read-only root also hold for a task that runs as root.
func TestReadOnlyRootAndRlimits(t *testing.T) {
	master := newScript(t)
	config := spacesConfig(t, master)
	config.TaskUser = "root"
	config.Walls.ReadOnlyRoot = true
	config.Walls.Rlimits = entry.Rlimits{{Name: "nofile", Soft: 300, Hard: 400}, {Name: "core", Soft: 7 << 20, Hard: 7 << 20}}
	a := run(t, config)
	registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if found := registration.Agent.Attributes[walls.Attribute]; !strings.Contains(found, ",namespaces,pids,readonly") {
		t.Errorf("found %s", found)
	}
	const line = `for folder in . /tmp /dev/shm /var/lib /usr/bin /; do (echo new > $folder/new) 2> /dev/null && echo $folder; done
		grep -E '^Max (core file size|open files)' /proc/self/limits | tr -s ' '`
	launchOf(master, "f1", command("t1", line))
	master.status("t1", api.TaskFinished)
	said := textOf(t, filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1/stdout"))
	if want := ".\n/tmp\n/dev/shm\nMax core file size 7340032 7340032 bytes \nMax open files 300 400 files"; said != want {
		t.Errorf("%s", said)
	}
	killExecutors(t, a)
	a.end()
}

// With denied system calls tasks work, as root and as others, and none of the denied calls that they try succeeds.
func TestDeniedCalls(t *testing.T) {
	if err := calls.Try(); err != nil {
		t.Skip(err)
	}
	for _, user := range []string{"root", entry.Dynamic} {
		master := newScript(t)
		config := spacesConfig(t, master)
		config.TaskUser, config.Walls.DenyCalls = user, true
		a := run(t, config)
		registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
		if found := registration.Agent.Attributes[walls.Attribute]; !strings.Contains(found, ","+calls.Ability) {
			t.Errorf("found %s", found)
		}
		const line = `for tried in "unshare -U true" "unshare -m true" "mount -t tmpfs none /tmp" "nsenter -t 1 -u true" "umount /proc"; do
				$tried 2> /dev/null && echo "can $tried"; done
			grep -h ^Seccomp: /proc/1/status /proc/self/status; (sleep 0; echo lives) & wait`
		launchOf(master, "f1", command("t1", line))
		master.status("t1", api.TaskFinished)
		if said := textOf(t, filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1/stdout")); said != "Seccomp:\t2\nSeccomp:\t2\nlives" {
			t.Errorf("%s: %s", user, said)
		}
		killExecutors(t, a)
		a.end()
	}
}

// runningOf waits until the agent knows the process of a task, and returns it.
func runningOf(t *testing.T, a *running, task api.TaskID) (process core.Process) {
	t.Helper()
	return hang.Await(t, "the process of "+string(task), nil, func() core.Process {
		for process.PID == 0 {
			a.inbox.ask(t.Context(), func(c *core.Core) {
				view, _ := c.Task(api.TaskRef{Framework: "f1", Task: task})
				process = view.Process
			})
		}
		return process
	})
}
