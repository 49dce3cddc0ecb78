package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// More tasks than fit a message, and long command lines: all of them run, once each.
func TestManyTasksAndLongCommandLines(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "2", "--agent-resources", "cpus:1000;mem:1000000")
	stdout, stderr, code := tender(t, d.env, "run", "-n", "1000", "--mem", "1", "--", "echo", "here")
	lines := map[string]bool{}
	for line := range strings.Lines(stdout) {
		lines[line] = true
	}
	if code != 0 || len(lines) != 1000 || strings.Count(stdout, "\n") != 1000 || !lines["echo.999 | here\n"] {
		t.Errorf("exit code %d, %d lines, %d different ones: %.500s", code, strings.Count(stdout, "\n"), len(lines), stderr)
	}
	_, stderr, code = tender(t, d.env, "run", "-n", "60", "--mem", "1", "--", "true", strings.Repeat("x", 20_000))
	if code != 0 {
		t.Errorf("long command lines: exit code %d, %.500s", code, stderr)
	}
}

// With --retry a task of an agent that is drained or marked gone is started on another one.
func TestRetryOfWhatAnOperatorEnded(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "3")
	gate := filepath.Join(t.TempDir(), "gate")
	run := start(t, d.env, "run", "--retry", "--name", "again", "--grace", "1s", "--", "sh", "-c",
		"echo up on $TENDER_TASK_AGENT_ID; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	for _, args := range [][]string{{"drain"}, {"gone", "--force"}} {
		run.await("up on ")
		agent := get(t, d.env, "tasks").Items[0].AgentID
		if stdout, stderr, code := tender(t, d.env, append(args, agent)...); code != 0 {
			t.Fatalf("%v %s: exit code %d, %s%s", args, agent, code, stdout, stderr)
		}
	}
	run.await("up on ")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, words := range []string{"again.0 was not to be (KILLED: AGENT_DRAINING", "again.0.again1 was not to be (GONE_BY_OPERATOR: AGENT_GONE"} {
		if !strings.Contains(run.stderr.String(), words) {
			t.Errorf("%q does not say %q", &run.stderr, words)
		}
	}
}

// Another cluster at the same addresses does not know a run. The run says so and ends.
func TestARunWhoseClusterWasReplaced(t *testing.T) {
	t.Parallel()
	dir, grpc := t.TempDir(), strconv.Itoa(freePort(t))
	args := func(name string) []string {
		return []string{"master", "--insecure", "--data-dir", filepath.Join(dir, name), "--grpc-port", grpc, "--http-port", "0", "--raft-port", strconv.Itoa(freePort(t))}
	}
	first := start(t, nil, args("first")...)
	first.await(`"leading"`)
	run := start(t, []string{"TENDER_MASTER=127.0.0.1:" + grpc}, "run", "-n", "2", "--", "true")
	run.await("waiting: no agent has registered yet")
	first.signal(syscall.SIGKILL)
	first.wait()
	second := start(t, nil, args("second")...)
	second.await(`"leading"`)
	if code := run.wait(); code != 1 || !strings.Contains(run.stderr.String(), "the cluster was replaced") ||
		!strings.Contains(run.stderr.String(), "of the 2 tasks that had not ended nobody knows more") {
		t.Errorf("exit code %d, %s", code, &run.stderr)
	}
	second.signal(syscall.SIGTERM)
	second.wait()
}

// A run that waits names the agent that is nearest to holding its task, and who uses its resources.
func TestAWaitingRunNamesTheNearestAgent(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	web := start(t, d.env, "run", "--name", "web", "--cpus", "3", "--", "sh", "-c", "echo up; exec sleep 1000")
	web.await("up")
	waits := start(t, d.env, "run", "--cpus", "2", "--", "true")
	waits.await("waiting for resources: " + d.Agents[0].ID + " fits and is full: web holds 3 of 4 cpus")
	web.signal(syscall.SIGINT)
	if code := waits.wait(); code != 0 || strings.Count(waits.stderr.String(), "waiting for resources") != 1 {
		t.Errorf("exit code %d, %s", code, &waits.stderr)
	}
}

// A run that detaches leaves its tasks behind, with ports of their own that are listed. teardown ends them. A program
// that fails is started again.
func TestRunAsPeopleUseIt(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	file := filepath.Join(t.TempDir(), "greeting")
	if err := os.WriteFile(file, []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line := "cat greeting; test -n \"$TENDER_TASK_PORT_HTTP\" && echo $TENDER_TASK_PORT_HTTP; exec sleep 1000"
	stdout, stderr, code := tender(t, d.env, "run", "--detach", "-n", "2", "--name", "web", "--port", "http", "--uri", file, "--spread", "agent", "--", "sh", "-c", line)
	tasks := strings.Fields(stdout)
	if code != 0 || len(tasks) != 2 || !strings.HasSuffix(tasks[0], "/web.0") || !strings.Contains(stderr, "2 tasks of framework-") {
		t.Fatalf("exit code %d, %q, %s", code, stdout, stderr)
	}
	until(t, "two endpoints", func() bool {
		stdout, _, _ = tender(t, d.env, "get", "endpoints", "web", "-o", "name")
		return len(strings.Fields(stdout)) == 2
	})
	_, port, err := net.SplitHostPort(strings.Fields(stdout)[0])
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the output of a task", func() bool {
		stdout, _, _ = tender(t, d.env, "logs", tasks[0])
		return stdout == "hello\n"+port+"\n"
	})
	if stdout, stderr, code := tender(t, d.env, "get", "endpoints", "-o", "json"); code != 0 || !strings.Contains(stdout, `"port": "http"`) {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
	if stdout, stderr, code := tender(t, d.env, "teardown", "web", "--force"); code != 0 {
		t.Errorf("teardown: exit code %d, %q, %s", code, stdout, stderr)
	}
	until(t, "the end of the tasks", func() bool { return len(get(t, d.env, "tasks").Items) == 0 })

	_, stderr, code = tender(t, d.env, "run", "--check", "interval=100ms,failures=1,shell:test -e up && touch seen", "--limit", "pids=50", "--",
		"sh", "-c", "touch up; until test -e seen; do sleep 0.01; done; rm up; exec sleep 1000")
	if code != 143 || !strings.Contains(stderr, "FAILED: HEALTH_CHECK_FAILED") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	_, stderr, code = tender(t, d.env, "run", "--limit", "mem=1", "--", "true")
	if code == 0 || !strings.Contains(stderr, "its limit of memory is 1 MB; it must be 0 or not less than the 32 MB that it asks for") {
		t.Errorf("exit code %d, %s", code, stderr)
	}

	count := filepath.Join(t.TempDir(), "count")
	_, stderr, code = tender(t, d.env, "run", "--restart", "2", "--", "sh", "-c", "echo >> "+count+"; exit 6")
	if code != 6 || strings.Count(stderr, "starting it again") != 2 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if lines, err := os.ReadFile(count); err != nil || len(lines) != 3 {
		t.Errorf("it has run %d times, %v", len(lines), err)
	}
}

// TestAPortThatAStrangerHas: a task whose port another program holds is told another one at its next try, also where the
// masters offer no more ports than it asks for. (R64)
func TestAPortThatAStrangerHas(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	first := d.Agents[0].Ports.First
	for port := first; port < first+2; port++ {
		stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
	}
	stdout, stderr, code := tender(t, d.env, "run", "--port", "web", "--", "sh", "-c", "echo $TENDER_TASK_PORT_WEB")
	if port, err := strconv.Atoi(strings.TrimSpace(stdout)); code != 0 || err != nil || port < first+2 || strings.Count(stderr, "PORT_TAKEN") > 2 {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
}
