package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stubborn is a task that ends only when, after it was told to end, somebody writes to its door.
const stubborn = `trap 'read word < %s; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`

// open waits until the task reads from its door, and then opens it.
func open(t *testing.T, door string) {
	t.Helper()
	until(t, "somebody waits at "+door, func() bool {
		file, err := os.OpenFile(door, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		return file.Close() == nil
	})
}

// A rolling drain is stopped and run again. Of three agents one at a time is drained, in the order in which they were
// named, and the next one begins when the one before is empty.
func TestDrainOneAtATime(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "3", "--own-hostnames")
	var doors, names []string
	for i, agent := range d.Agents {
		door := filepath.Join(t.TempDir(), "door")
		if err := syscall.Mkfifo(door, 0o600); err != nil {
			t.Fatal(err)
		}
		doors, names = append(doors, door), append(names, agent.ID)
		run := start(t, d.env, "run", "--name", fmt.Sprintf("task%d", i+1), "--grace", "10h",
			"--constraint", fmt.Sprintf(`attributes["dev"] == "%d"`, i+1), "--", "sh", "-c", fmt.Sprintf(stubborn, door))
		run.await("up")
	}
	marked := func(mark string) int {
		stdout, _, _ := tender(t, d.env, "get", "agents")
		return strings.Count(stdout, mark)
	}

	_, stderr, code := tender(t, d.env, "drain", "--wait", "host-2", "nosuch", names[0])
	if code != 1 || !strings.Contains(stderr, `no agent is called "nosuch"; 'tender get agents' lists them`) || marked("draining") != 0 {
		t.Errorf("a name that nobody has: exit code %d, %s, %d are draining", code, stderr, marked("draining"))
	}

	words := []string{"drain", "--at-a-time", "1", "host-2", names[0], "host-3"}
	drain := start(t, d.env, words...)
	drain.await("waiting: " + names[1] + " has 1 task")
	if n := marked("draining"); n != 1 {
		t.Errorf("%d agents are draining at once", n)
	}
	drain.signal(syscall.SIGINT)
	stop := fmt.Sprintf("the drain goes on without this command: %s; not begun: %s, %s", names[1], names[0], names[2])
	if code := drain.wait(); code != 130 || !strings.Contains(drain.stderr.String(), stop) {
		t.Errorf("a drain that is interrupted: exit code %d, %s", code, &drain.stderr)
	}

	again := start(t, d.env, words...)
	for turn, i := range []int{1, 0, 2} {
		again.await("waiting: " + names[i] + " has 1 task")
		if n := marked("draining"); n != turn+1 {
			t.Errorf("turn %d: %d agents are draining or drained", turn+1, n)
		}
		open(t, doors[i])
		again.await(fmt.Sprintf("%s is drained, %d of 3; host host-%d", names[i], turn+1, i+1))
	}
	if code := again.wait(); code != 0 || marked("drained") != 3 {
		t.Errorf("the drain of all: exit code %d, %d are drained, %s", code, marked("drained"), &again.stderr)
	}
}

// Agents can be named by their attributes. That one is taken back meanwhile is reported.
func TestDrainAllOfAndTakenBack(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "3")
	door := filepath.Join(t.TempDir(), "door")
	if err := syscall.Mkfifo(door, 0o600); err != nil {
		t.Fatal(err)
	}
	run := start(t, d.env, "run", "--grace", "10h", "--constraint", `attributes["dev"] == "2"`, "--", "sh", "-c", fmt.Sprintf(stubborn, door))
	run.await("up")

	drain := start(t, d.env, "drain", "--wait", "--all-of", "dev=2")
	drain.await(d.Agents[1].ID + " has 1 task")
	if _, stderr, code := tender(t, d.env, "reactivate", d.Agents[1].ID); code != 0 {
		t.Fatal(stderr)
	}
	if code := drain.wait(); code != 1 || !strings.Contains(drain.stderr.String(), "is offered again: somebody has taken the drain back") {
		t.Errorf("a drain that was taken back: exit code %d, %s", code, &drain.stderr)
	}
	open(t, door)

	for args, want := range map[string]string{
		"--all-of dev=9":               "no agent has dev=9",
		"--all-of dev":                 `--all-of is "dev"; write KEY=VALUE`,
		"--all-of dev=1 --wait host-1": "name agents or say --all-of dev=1, not both",
		"--at-a-time -1 host-1":        "--at-a-time is -1",
		"":                             "'tender drain' needs AGENT",
	} {
		if _, stderr, code := tender(t, d.env, append([]string{"drain"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("drain %s: exit code %d, %s", args, code, stderr)
		}
	}
	if stdout, stderr, code := tender(t, d.env, "drain", d.Agents[0].ID, d.Agents[2].ID); code != 0 || strings.Count(stdout, "is draining; it has 0 tasks") != 2 {
		t.Errorf("two agents: exit code %d, %s%s", code, stdout, stderr)
	}
}
