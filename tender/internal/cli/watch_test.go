package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGetWatches: `get -w` shows what there is and then a row for each change, also past a leader that is killed; with
// -o json each change is an object on a line of its own. (R68)
func TestGetWatches(t *testing.T) {
	d := startDev(t, "--masters", "3", "--agents", "1", "--master-processes", "--no-heal")
	table := start(t, d.env, "get", "tasks", "-w")
	table.await("AT ")
	lines := start(t, d.env, "get", "agents", "-w", "-o", "json")
	lines.await(`"id":"` + d.Agents[0].ID + `"`)
	endpoints := start(t, d.env, "get", "endpoints", "--watch", "-o", "name")
	executors := start(t, d.env, "get", "executors", "-w")
	executors.await("AT ")
	operations := start(t, d.env, "get", "operations", "-w", "-o", "json")

	gate := filepath.Join(t.TempDir(), "gate")
	run := start(t, d.env, "run", "--name", "first", "--", "sh", "-c", "echo up; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	table.await("RUNNING") // by a change, or by the first state if that was told only now
	executors.await("/command ")
	before := leader(t, d)
	for _, master := range d.Masters {
		if master.GRPC == before {
			if err := syscall.Kill(master.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	table.await(" term ") // what may be missing is said in one of two ways
	until(t, "the next leader knows that the task runs", func() bool {
		stdout, _, code := tender(t, d.env, "get", "tasks")
		return code == 0 && strings.Contains(stdout, "RUNNING") && leader(t, d) != before
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await("done")
	table.await("finished")
	if code := run.wait(); code != 0 {
		t.Errorf("the task's run ends with %d", code)
	}
	until(t, "it is told that the executor is no more", func() bool {
		text := executors.stdout.String()
		return strings.Contains(text, "ended") || strings.Contains(text, "lost") || strings.Contains(text, "gone")
	})
	for _, p := range []*proc{table, lines, endpoints, executors, operations} {
		p.signal(syscall.SIGINT)
		if code := p.wait(); code != 130 {
			t.Errorf("an interrupted watch ends with %d, %s", code, &p.stderr)
		}
	}
	events := 0
	for line := range strings.Lines(lines.stdout.String()) {
		var change struct {
			Event struct{ Kind, What string }
			Agent struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil || change.Agent.ID == "" && change.Event.Kind != "agent" {
			t.Errorf("%v in %q", err, line)
		}
		events++
	}
	if events < 2 {
		t.Errorf("of the agent is told %q", &lines.stdout)
	}
	for args, want := range map[string]string{
		"get tasks -w --all":     "--all means nothing with --watch",
		"get tasks -w --state=x": "state",
	} {
		if _, stderr, code := tender(t, d.env, strings.Fields(args)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
