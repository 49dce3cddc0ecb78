package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestChaosVolumesKeepTheirData writes to a volume from one task and reads it from others: after the task, while the
// agent is killed and started again under the task that holds the volume, and with another leader.
func TestChaosVolumesKeepTheirData(t *testing.T) {
	d := startDev(t, "--masters", "3", "--agents", "0", "--master-processes", "--no-heal")
	data := filepath.Join(t.TempDir(), "agent")
	t.Cleanup(func() { nothingLeft(t, data) })
	args := []string{"agent", "--data-dir", data, "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:2;mem:1024;disk:1000", "--recovery-timeout", "1m"}
	agent := start(t, d.env, args...)
	until(t, "the agent is there", func() bool {
		items := get(t, d.env, "agents").Items
		return len(items) == 1 && items[0].State == "RUNNING"
	})
	id := get(t, d.env, "agents").Items[0].ID
	say := func(want string, args ...string) {
		t.Helper()
		stdout, stderr, _ := tender(t, d.env, args...)
		if !strings.Contains(stdout+stderr, want) {
			t.Fatalf("tender %v: %q %q, no %q", args, stdout, stderr, want)
		}
	}
	say("reserve disk:100 for role eng first", "volume", "create", id, "v1", "--role", "eng", "--size", "100")
	say("is done", "reserve", id, "disk:300", "--role", "eng")
	say("is done", "volume", "create", id, "v1", "--role", "eng", "--size", "100")
	say("there is no volume \"v2\"", "run", "--volume", "v2", "--", "true")
	say("is of role eng, which role ops may not use", "run", "--volume", "v1", "--role", "ops", "--", "true")
	say("one", "run", "--volume", "v1", "--", "sh", "-c", "echo one >>volumes/v1/log; cat volumes/v1/log")

	// The agent is killed under a task that holds the volume, and comes back.
	gate := filepath.Join(t.TempDir(), "gate")
	run := start(t, d.env, "run", "--volume", "v1", "--", "sh", "-c",
		"echo two >>$TENDER_TASK_SANDBOX/volumes/v1/log; echo up; while [ ! -e "+gate+" ]; do sleep 0.05; done; cat volumes/v1/log")
	run.await("up")
	say("v1       "+id, "volume", "list")
	say("that nobody uses", "volume", "destroy", id, "v1", "--role", "eng", "--force")
	agent.signal(syscall.SIGKILL)
	agent.wait()
	until(t, "the master has noticed", func() bool {
		return slices.Contains([]string{"DISCONNECTED", "TOMBSTONE"}, get(t, d.env, "agents").Items[0].State)
	})
	agent = start(t, d.env, args...)

	// Another master leads.
	before := leader(t, d)
	for _, master := range d.Masters {
		if master.GRPC == before {
			if err := syscall.Kill(master.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "another master leads", func() bool { now := leader(t, d); return now != "" && now != before })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await("two")
	if code := run.wait(); code != 0 {
		t.Errorf("exit code %d: %s", code, &run.stderr)
	}
	say("one\ntwo\n", "run", "--volume", "v1", "--", "cat", "volumes/v1/log")

	// Only a Destroy that names it deletes it.
	folder := filepath.Join(data, "volumes", "v1")
	if _, err := os.Stat(filepath.Join(folder, "log")); err != nil {
		t.Error(err)
	}
	until(t, "nobody uses it", func() bool {
		stdout, _, _ := tender(t, d.env, "volume", "destroy", id, "v1", "--role", "eng", "--force")
		return strings.Contains(stdout, "is done")
	})
	until(t, "its data is gone", func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) })
	agent.signal(syscall.SIGTERM)
	agent.wait()
	for _, left := range processesOf(data) {
		if err := syscall.Kill(left.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	until(t, "nothing of the agent is left", func() bool { return len(processesOf(data)) == 0 })
}
