package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// gpusConfig gives an agent that runs as root GPUs that are really other device files in /dev, which the test removes.
func gpusConfig(t *testing.T, config Config) (with Config, pattern string) {
	t.Helper()
	pattern = "/dev/tender-test-" + strconv.Itoa(os.Getpid()) + "-"
	var paths []string
	for i, minor := range []uint32{7, 8, 9} { // full, random, urandom
		path := pattern + strconv.Itoa(i)
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, minor))); err != nil {
			t.Skipf("no device files can be made here: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		})
		paths = append(paths, path)
	}
	gpus, err := walls.NameGPUs(paths)
	if err != nil {
		t.Fatal(err)
	}
	config.Walls.GPUs, config.TaskUser = gpus, "root"
	config.Resources = config.Walls.AddGPUs(config.Resources)
	return config, pattern
}

// wantsGPUs is a task that prints which GPUs it is told about and which it can open, and runs until a file exists.
func wantsGPUs(id api.TaskID, count int, pattern string) api.Task {
	task := command(id, `echo "$TENDER_TASK_GPUS $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES"
		for i in 0 1 2; do head -c 1 `+pattern+`$i > /dev/null 2>&1 && echo "can open $i"; done; echo up > said
		until test -e end; do sleep 0.01; done`)
	task.Command.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "9"}
	if count > 0 {
		task.Resources = task.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: api.GPUs}, Scalar: api.Milli(count * 1000)}))
	}
	return task
}

// Each task has the GPUs that it was given and can open no other. After its end the next task gets them, also if the
// agent was restarted in between. This holds with control groups alone, and in namespaces.
func TestGPUsAreOneTasksOnly(t *testing.T) {
	for _, isolation := range []walls.Isolation{walls.Best, walls.Spaces} {
		t.Run(string(isolation), func(t *testing.T) {
			master := newScript(t)
			config, pattern := gpusConfig(t, spacesConfig(t, master))
			config.Walls.Isolation, config.RecoveryTimeout = isolation, 0
			first := run(t, config)
			root := cellsOf(t, first)
			registration := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			if registration.Agent.Resources.Scalar(api.GPUs) != 3000 {
				t.Errorf("it offers %v", registration.Agent.Resources)
			}
			if found := first.walls.findWalls(); !found.Has(api.GPUs) && root.Devices == "" {
				t.Skipf("no controller of devices here: %v", found.Lacks)
			}
			sandbox := func(task api.TaskID) string {
				return filepath.Join(config.DataDir, "sandboxes/f1/command/tasks", string(task))
			}
			launch := func(id api.TaskID, count int, want string) {
				t.Helper()
				launchOf(master, "f1", wantsGPUs(id, count, pattern))
				status := master.status(id, api.TaskRunning)
				awaitFile(t, filepath.Join(sandbox(id), "said"))
				if said := strings.ReplaceAll(textOf(t, filepath.Join(sandbox(id), "stdout")), "\n", "; "); said != want {
					t.Errorf("%s said %q", id, said)
				}
				if told, _, _ := strings.Cut(strings.TrimSpace(want), " "); count > 0 && told != strings.Trim(strings.ReplaceAll(fmt.Sprint(status.GPUs), " ", ","), "[]") {
					t.Errorf("%s has GPUs %v by its status", id, status.GPUs)
				}
			}
			end := func(id api.TaskID) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(sandbox(id), "end"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				master.status(id, api.TaskFinished)
			}
			launch("t1", 1, "0 0 0; can open 0")
			launch("t2", 2, "1,2 1,2 1,2; can open 1; can open 2")
			launch("t3", 0, "9")
			end("t3")
			end("t1")
			first.end()
			config.RecoveryTimeout = -1
			master.forget()
			second := run(t, config)
			await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
			launch("t4", 1, "0 0 0; can open 0")
			end("t2")
			launch("t5", 2, "1,2 1,2 1,2; can open 1; can open 2")
			end("t4")
			end("t5")
			killExecutors(t, second)
			second.end()
			if root.Exists() {
				t.Errorf("the agent has left %v", root.Children())
			}
		})
	}
}
