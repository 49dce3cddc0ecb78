package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/internal/testing/program"
)

// buildExample builds an example's program and returns its path.
func buildExample(t *testing.T, name string) string {
	t.Helper()
	folder := t.TempDir()
	if err := program.Build(folder, "examples/"+name); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}

// TestHelloExecutorExample: agents start the scheduler's own binary, and one process runs all tasks of an agent.
func TestHelloExecutorExample(t *testing.T) {
	t.Parallel()
	needsBinary(t)
	program := buildExample(t, "hello-executor")
	d := startDev(t)
	hello := launchProgram(t, program, d.env, true, nil)
	if code := hello.wait(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	out := hello.stdout.String() + hello.stderr.String()
	greeting := regexp.MustCompile(`(?m)^(\w+) is FINISHED on agent-1: hello, (\w+), from process (\d+)$`)
	var names []string
	processes := make(map[string]bool)
	for _, found := range greeting.FindAllStringSubmatch(out, -1) {
		names, processes[found[3]] = append(names, found[2]), true
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"Ada", "Edsger", "Grace"}) || len(processes) != 1 {
		t.Errorf("not three greetings from one process:\n%s", out)
	}
	for _, args := range [][]string{{"greeter"}, {"greeter", "--agent", "agent-1", "--stderr"}} { // by the executor's own name
		if _, stderr, code := tender(t, d.env, append([]string{"logs", "--executor"}, args...)...); code != 0 {
			t.Errorf("logs --executor %v: exit code %d, %s", args, code, stderr)
		}
	}
	if _, stderr, code := tender(t, d.env, "logs", "--executor", "nobody"); code != 1 || !strings.Contains(stderr, "nobody") {
		t.Errorf("an unknown executor: exit code %d, %s", code, stderr)
	}
}

// TestWebExample: the file of examples/web names three different servers by host and port, and in the end none is
// running.
func TestWebExample(t *testing.T) {
	t.Parallel()
	needsBinary(t)
	program := buildExample(t, "web")
	d := startDev(t, "--agents", "3")
	file := filepath.Join(t.TempDir(), "servers.conf")
	serve := buildExample(t, "remote-allocator") + " -listen 127.0.0.1:$TENDER_TASK_PORT_HTTP" // it only listens
	web := launchProgram(t, program, d.env, false, []string{"-command", "exec " + serve, "-file", file})
	server := regexp.MustCompile(`(?m)^server \S+:(\d+); # web-[012] on (agent-\d+)$`)
	ports, agents := make(map[string]bool), make(map[string]bool)
	until(t, "three servers", func() bool {
		text, _ := os.ReadFile(file) // it does not exist yet
		for _, found := range server.FindAllStringSubmatch(string(text), -1) {
			ports[found[1]], agents[found[2]] = true, true
		}
		return len(ports) == 3 && len(agents) == 3
	})
	web.signal(syscall.SIGINT)
	if code := web.wait(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, &web.stderr)
	}
}

// TestBatchExample runs examples/batch on real processes. Its binary is both scheduler and executor.
func TestBatchExample(t *testing.T) {
	t.Parallel()
	needsBinary(t)
	program := buildExample(t, "batch")
	dir := t.TempDir()
	file := filepath.Join(dir, "hello")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, "--agents", "2")
	batch := launchProgram(t, program, d.env, true, []string{
		"-attempts", "2", "-wait", "100ms", file, file + "@elsewhere", filepath.Join(dir, "none"),
	})
	code := batch.wait()
	line := "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824  " + file + "\n"
	if batch.stdout.String() != line+line || code == 0 {
		t.Errorf("it ended with %d", code)
	}
	for _, words := range []string{"files done: 2, given up: 1, attempts: 4; 0 of 1 where they are", "file-2: 2 attempts failed", "no such file or directory"} {
		if !strings.Contains(batch.stderr.String(), words) {
			t.Errorf("it does not say %q", words)
		}
	}
}

// TestAProgramFindsAllMastersOfDev: a framework is told of one master of 'tender dev', and finds the others when that one
// is gone before it starts.
func TestAProgramFindsAllMastersOfDev(t *testing.T) {
	needsBinary(t)
	program := buildExample(t, "hello")
	d := startDev(t, "--masters", "3", "--agents", "1", "--master-processes", "--no-heal")
	if err := syscall.Kill(d.Masters[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.await("ended: signal: killed")
	hello := launchProgram(t, program, []string{"TENDER_MASTER=" + d.Masters[0].GRPC}, true, nil)
	if code := hello.wait(); code != 0 || !strings.Contains(hello.stdout.String(), "hello-1 is FINISHED") {
		t.Errorf("exit code %d, %s%s", code, &hello.stdout, &hello.stderr)
	}
}
