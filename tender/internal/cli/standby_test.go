package cli_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestStandbyExample runs three instances of examples/standby against a quorum of processes and kills the active one
// twice. The next one goes on with the same framework, tasks and store.
func TestStandbyExample(t *testing.T) {
	t.Parallel()
	needsBinary(t)
	d := startDev(t, "--masters", "3", "--agents", "2")
	program := buildExample(t, "standby")
	instance := func() *proc {
		return launchProgram(t, program, d.env, true, []string{"-copies", "2", "--", "sleep", "100000"})
	}
	first := instance()
	first.await("active as framework-1 with 0 tasks")
	first.await("copy-0-1 RUNNING")
	first.await("copy-1-1 RUNNING")
	before := processesNamed(t, d, "sleep 100000", 2)
	waiting := map[*proc]bool{instance(): true, instance(): true}
	for p := range waiting {
		p.await("waiting for our turn")
	}
	var active *proc
	takeOver := func() {
		t.Helper()
		active = nil
		until(t, "another instance is active", func() bool {
			for p := range waiting {
				if p.hasSaid("active as framework-1 with 2 tasks") {
					active = p
				}
			}
			return active != nil
		})
		delete(waiting, active)
		active.await("copy-0-1 RUNNING")
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	takeOver()
	if out, _, code := tender(t, d.env, "kill", "copy-1-1"); code != 0 {
		t.Fatalf("kill: %s", out)
	}
	active.await("copy-1-2 RUNNING") // it knows from the store that it is the second
	active.signal(syscall.SIGKILL)
	active.wait()
	takeOver()
	active.await("copy-1-2 RUNNING")
	after := processesNamed(t, d, "sleep 100000", 2)
	if len(before) != 2 || len(after) != 2 {
		t.Errorf("%d copies ran before, %d after, want 2", len(before), len(after))
	}
	same := 0
	for pid := range after {
		if before[pid] {
			same++
		}
	}
	if same != 1 {
		t.Errorf("%d of the processes are those of before; the one that nobody ended should be", same)
	}
}

// processesNamed lists the processes of the cluster with that command line, once there are so many. A process that runs may
// not show its command line yet: the kernel lays that out after it has told whoever forked the process of the new program.
func processesNamed(t *testing.T, d *devCluster, command string, least int) map[int]bool {
	t.Helper()
	found := make(map[int]bool)
	until(t, fmt.Sprintf("%d processes %q", least, command), func() bool {
		clear(found)
		for _, p := range processesOf(d.dir) {
			if strings.TrimSpace(p.command) == command {
				found[p.pid] = true
			}
		}
		return len(found) >= least
	})
	return found
}
