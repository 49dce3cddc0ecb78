package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/testing/program"
)

// The tests below run the real binary on loopback and kill it as operators and accidents do. They wait for conditions.
// The only time limit is that of hang_test.go, for waits that do not end.

// binary builds bin/tender once, into a folder that is removed after the last test.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tender-e2e-")
	if err != nil {
		return "", err
	}
	built = dir
	return filepath.Join(dir, "tender"), program.Build(dir, "")
})

var built string // the folder of the binary; "" if none was built

func TestMain(m *testing.M) {
	if shipped() {
		return
	}
	code := m.Run()
	if built != "" {
		if err := os.RemoveAll(built); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// needsBinary skips what is too slow for the quick tests.
func needsBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks for left processes in /proc")
	}
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// devCluster is a running `tender dev` as dev.json describes it.
type devCluster struct {
	*proc
	dir     string
	env     []string
	Masters []struct {
		ID, GRPC, HTTP string
		PID            int
	}
	Agents []struct {
		ID, HTTP string
		PID      int
		Ports    struct{ First int } // of its tasks
	}
}

// devStarts is held while a cluster starts: one that starts beside it could find the same ports free.
var devStarts sync.Mutex

// startDev starts a cluster and ends it with the test. A test that has one of its members killed must not run beside
// others, since a cluster that starts meanwhile may take the ports that are free until the member is back.
func startDev(t *testing.T, args ...string) *devCluster {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dev")
	process := startReady(t, append([]string{"--data-dir", dir, "--jobs=false"}, args...)...)
	d := described(t, dir)
	d.proc = process
	t.Cleanup(func() {
		if !d.over() {
			d.signal(syscall.SIGINT)
		}
		if code := d.wait(); code != 0 && !t.Failed() {
			t.Errorf("dev ended with %d:\n%s", code, &d.stderr)
		}
		nothingLeft(t, dir)
	})
	return d
}

func startReady(t *testing.T, args ...string) *proc {
	t.Helper()
	devStarts.Lock()
	defer devStarts.Unlock()
	process := start(t, nil, append([]string{"dev", "--free-ports"}, args...)...)
	process.await("Ctrl-C")
	return process
}

// described reads the description of the cluster in the folder, and sets how commands find it.
func described(t *testing.T, dir string) *devCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := &devCluster{dir: dir}
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, master := range d.Masters {
		addresses = append(addresses, master.GRPC)
	}
	d.env = []string{"TENDER_MASTER=" + strings.Join(addresses, ",")}
	return d
}

// nothingLeft fails the test if a process mentions the folder in its arguments or its environment.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, left := range processesOf(dir) {
		t.Errorf("process %d is left: %s", left.pid, left.command)
	}
}

type process struct {
	pid     int
	command string
}

func processesOf(dir string) (found []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, err1 := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		environ, err2 := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err1 != nil || err2 != nil {
			continue // it has ended meanwhile
		}
		if bytes.Contains(command, []byte(dir)) || bytes.Contains(environ, []byte(dir)) {
			found = append(found, process{pid, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))})
		}
	}
	return found
}

// until asks again and again, as fast as the answers come, until yes returns true.
func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !yes(); {
		if t.Failed() {
			t.Fatalf("will not come any more: %s", what)
		}
		if time.Since(began) > hang.After {
			hung(t, what)
		}
		<-tick.C
	}
}

type listed struct {
	Items []struct {
		ID          string
		State       string
		Hostname    string
		FrameworkID string `json:"framework_id"`
		Address     string
		GrpcAddress string `json:"grpc_address"`
		AgentID     string `json:"agent_id"`
		ExitCode    *int   `json:"exit_code"`
	}
}

func get(t *testing.T, env []string, args ...string) (list listed) {
	t.Helper()
	stdout, stderr, code := tender(t, env, append(append([]string{"get"}, args...), "-o", "json")...)
	if code != 0 {
		t.Fatalf("get %v: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRunShowsBothStreamsAndTheExitCode(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--", "sh", "-c", "echo out; echo err >&2; exit 3"}, 3, "out\n", "err\n"},
		{[]string{"--", "true"}, 0, "", ""},
		{[]string{"--", "sh", "-c", "kill -9 $$"}, 137, "", ""},
		{[]string{"--env", "WORD=hi", "--shell", "--", "printf %s $WORD | tr a-z A-Z"}, 0, "HI", ""},
		{[]string{"--", "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"}, 0, countedLines(3000), ""},
	} {
		stdout, stderr, code := tender(t, d.env, append([]string{"run"}, test.args...)...)
		if code != test.code || stdout != test.stdout || stderr != test.stderr {
			t.Errorf("%v: exit code %d, stdout %.200q, stderr %.200q", test.args, code, stdout, stderr)
		}
	}
	_, stderr, code := tender(t, d.env, "run", "--timeout", "50ms", "--", "sleep", "1000")
	if code != 143 || !strings.Contains(stderr, "FAILED: MAX_COMPLETION_TIME: exit code 143: it had run for its longest time of 50ms: ended by signal 15") {
		t.Errorf("a task whose time is over: exit code %d, %q", code, stderr)
	}
	_, stderr, code = tender(t, d.env, "run", "--", "no-such-program-anywhere")
	if code == 0 || !strings.Contains(stderr, "no-such-program-anywhere") {
		t.Errorf("a program that does not exist: exit code %d, %q", code, stderr)
	}
}

func countedLines(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	return text.String()
}

func TestFiftyInstances(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--masters", "3", "--agents", "2")
	stdout, stderr, code := tender(t, d.env, "run", "--instances", "50", "--cpus", "0.1", "--", "sh", "-c", "echo $TENDER_TASK_ID")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	slices.Sort(lines)
	if code != 0 || len(slices.Compact(lines)) != 50 {
		t.Fatalf("exit code %d, %d lines, stderr %s\n%s", code, len(lines), stderr, stdout)
	}
	for _, line := range lines {
		task, text, _ := strings.Cut(line, " | ")
		if task != text {
			t.Errorf("line %q", line)
		}
	}
	list := get(t, d.env, "tasks", "--all")
	if len(list.Items) != 50 {
		t.Errorf("%d tasks are listed", len(list.Items))
	}
	for _, item := range list.Items {
		if item.State != "FINISHED" {
			t.Errorf("task %s is %s", item.ID, item.State)
		}
	}
	stdout, stderr, code = tender(t, d.env, "logs", list.Items[0].FrameworkID+"/"+list.Items[0].ID)
	if code != 0 || stdout != list.Items[0].ID+"\n" {
		t.Errorf("logs after the end: exit code %d, %q %q", code, stdout, stderr)
	}
}

func TestATaskLargerThanAnyAgentIsSaidSo(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agent-resources", "cpus:4;mem:4096")
	_, stderr, code := tender(t, d.env, "run", "--cpus", "8", "--", "true")
	want := "no agent is large enough: the largest has cpus 4, mem 4096; the task asks for cpus 8, mem 32"
	if code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestCtrlCOnRunKillsItsTasks(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	marker := "ends-by-sigterm-" + strconv.Itoa(os.Getpid())
	run := start(t, d.env, "run", "--", "sh", "-c", "trap 'echo "+marker+"; exit 7' TERM; echo up; while :; do sleep 0.1; done")
	run.await("up")
	run.signal(syscall.SIGINT)
	run.await(marker)
	if code := run.wait(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	until(t, "the task has ended", func() bool { return len(get(t, d.env, "tasks").Items) == 0 })
}

func TestKillExplainDescribeAndLogs(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	run := start(t, d.env, "run", "--name", "sleeper", "--", "sh", "-c", "echo awake; exec sleep 1000")
	run.await("awake")
	task := get(t, d.env, "tasks").Items[0]
	if task.State != "RUNNING" || task.ID != "sleeper.0" {
		t.Errorf("got %+v", task)
	}
	for _, args := range [][]string{
		{"describe", "task", "sleeper"}, {"describe", "agent", task.AgentID}, {"describe", "framework", "sleeper"}, {"explain", task.FrameworkID},
		{"get", "masters"}, {"get", "offers"}, {"get", "roles"}, {"get", "frameworks", "-o", "wide"}, {"raft", "peers"},
	} {
		if _, stderr, code := tender(t, d.env, args...); code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	follow := start(t, d.env, "logs", "-f", "sleeper")
	follow.await("awake")
	left := start(t, d.env, "logs", "-f", "sleeper")
	left.await("awake")
	left.signal(syscall.SIGINT)
	if code := left.wait(); code != 130 || left.stderr.String() != "" {
		t.Errorf("logs -f that a Ctrl-C ended: exit code %d, %q", code, left.stderr.String())
	}
	stdout, stderr, code := tender(t, d.env, "kill", "sleeper")
	if code != 0 || !strings.Contains(stdout, "sleeper.0") {
		t.Errorf("kill: exit code %d, %q %q", code, stdout, stderr)
	}
	if code := run.wait(); code != 128+15 {
		t.Errorf("the killed run's exit code is %d", code)
	}
	if !strings.Contains(run.stderr.String(), "KILLED_BY_OPERATOR") {
		t.Errorf("the killed run says %s", run.stderr.String())
	}
	if code := follow.wait(); code != 0 {
		t.Errorf("logs -f ended with %d", code)
	}
	if _, stderr, code := tender(t, d.env, "kill", "nobody-knows-it"); code != 1 || !strings.Contains(stderr, "nobody-knows-it") {
		t.Errorf("an unknown task: exit code %d, %q", code, stderr)
	}
}

// The last lines of an output can be asked for, of both streams, and old output can be left out.
func TestLogsOfWhatIsWanted(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	if _, stderr, code := tender(t, d.env, "run", "--name", "talks", "--", "sh", "-c", "echo one; echo two; echo three; echo bad >&2; echo worse >&2"); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, c := range []struct{ args, stdout, stderr string }{
		{"", "one\ntwo\nthree\n", ""},
		{"--tail 2", "two\nthree\n", ""},
		{"--tail 1 --stderr", "worse\n", ""},
		{"--tail 1 --both", "three\n", "worse\n"},
		{"--both -f", "one\ntwo\nthree\n", "bad\nworse\n"},
		{"--since 1h", "one\ntwo\nthree\n", ""},
		{"--since 1ns", "", ""},
	} {
		stdout, stderr, code := tender(t, d.env, append([]string{"logs", "talks"}, strings.Fields(c.args)...)...)
		if code != 0 || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("logs %s: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

// A command runs inside a task with the task's files and environment, and its exit code is returned.
func TestExec(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	run := start(t, d.env, "run", "--name", "host", "-e", "OF_THE_TASK=1", "--", "sh", "-c", "echo here > file; cat /proc/self/cgroup > groups; echo awake; exec sleep 1000")
	run.await("awake")
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"host -- cat file", "here\n", "", 0},
		{"host -- diff groups /proc/self/cgroup", "", "", 0},
		{"host -- sh -c echo${IFS}$OF_THE_TASK;echo${IFS}bad>&2;exit${IFS}9", "1\n", "bad\n", 9},
		{"-t host -- test -t 0", "", "", 0},
		{"host -- test -t 0", "", "", 1},
		{"host -- no-such-program", "", "tender: no-such-program: no such program in the task's PATH (/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)\n", 1},
		{"host", "", "tender: 'tender exec' needs a task and a command; write 'tender exec TASK -- COMMAND'\n", 2},
	} {
		stdout, stderr, code := tender(t, d.env, append([]string{"exec"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("exec %s: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	// An interrupt is passed on to the command.
	trap := start(t, d.env, "exec", "host", "--", "sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done")
	trap.await("ready")
	trap.signal(syscall.SIGINT)
	trap.await("caught")
	if code := trap.wait(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	// The command ends with its task.
	beside := start(t, d.env, "exec", "host", "--", "sh", "-c", "echo beside; exec sleep 1000")
	beside.await("beside")
	run.signal(syscall.SIGINT)
	beside.await("the task has ended, and the command with it")
	if code := beside.wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if _, stderr, code := tender(t, d.env, "exec", "host", "--", "true"); code != 1 || !strings.Contains(stderr, "a command runs only beside a task that runs") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestCtrlCOnDevEndsAll(t *testing.T) {
	temp := t.TempDir()
	d := start(t, []string{"TMPDIR=" + temp}, "dev", "--free-ports", "--masters", "3", "--agents", "2")
	d.await("Ctrl-C")
	entries, err := filepath.Glob(filepath.Join(temp, "tender-dev-*", "dev.json"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %v, %v", entries, err)
	}
	cluster := &devCluster{}
	data, err := os.ReadFile(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, cluster); err != nil {
		t.Fatal(err)
	}
	env := []string{"TENDER_MASTER=" + cluster.Masters[0].GRPC}
	run := start(t, env, "run", "--instances", "3", "--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
	for range 3 {
		run.await("up")
	}
	d.signal(syscall.SIGINT)
	if code := d.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	run.signal(syscall.SIGKILL)
	run.wait()
	nothingLeft(t, temp)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestChaosKilledLeaderWhileATaskRuns kills the leading master with SIGKILL while a task runs.
func TestChaosKilledLeaderWhileATaskRuns(t *testing.T) {
	d := startDev(t, "--masters", "3", "--agents", "2", "--master-processes", "--no-heal")
	gate := filepath.Join(t.TempDir(), "gate")
	run := start(t, d.env, "run", "--", "sh", "-c", "echo up; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	run.await("up")
	before := leader(t, d)
	for _, master := range d.Masters {
		if master.GRPC == before {
			if err := syscall.Kill(master.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "another master leads", func() bool { now := leader(t, d); return now != "" && now != before })
	until(t, "the task is RUNNING for the new leader", func() bool {
		list := get(t, d.env, "tasks")
		return len(list.Items) == 1 && list.Items[0].State == "RUNNING"
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await("done")
	if code := run.wait(); code != 0 || run.stdout.String() != "up\ndone\n" {
		t.Errorf("exit code %d, %q", code, &run.stdout)
	}
}

// TestDevHeals: masters and agents of dev that are processes come up again when they are killed, dev.json tells of their
// new processes, and nothing of the cluster is lost. With --no-heal they stay away.
func TestDevHeals(t *testing.T) {
	d := startDev(t, "--masters", "3", "--agents", "1", "--master-processes", "--agent-processes")
	kill := func(pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, master := range d.Masters {
		kill(master.PID)
		d.await("master " + master.ID + " is started again")
	}
	kill(d.Agents[0].PID)
	d.await("agent 1 is started again")
	until(t, "all is well", func() bool { _, _, code := tender(t, d.env, "verify", "--wait", "1s"); return code == 0 })
	until(t, "dev.json tells of the new processes", func() bool {
		now := described(t, d.dir)
		return now.Agents[0].PID != d.Agents[0].PID && now.Masters[2].PID != d.Masters[2].PID && now.Agents[0].ID == d.Agents[0].ID
	})

	dead := startDev(t, "--agents", "1", "--agent-processes", "--no-heal")
	kill(dead.Agents[0].PID)
	dead.await("ended: signal: killed")
	until(t, "the master has noticed", func() bool { return get(t, dead.env, "agents").Items[0].State != "RUNNING" })
	if now := described(t, dead.dir); now.Agents[0].PID != dead.Agents[0].PID {
		t.Errorf("the agent is process %d, and was %d", now.Agents[0].PID, dead.Agents[0].PID)
	}
}

// TestDevChaos: with --chaos dev breaks its cluster as soon as a framework is there, one fault after the other, and tells
// what was broken and what the framework did. A task outlives its agent's process.
func TestDevChaos(t *testing.T) {
	d := startDev(t, "--chaos", "7", "--agents", "2")
	d.await("seed 7 breaks this cluster")
	run := start(t, d.env, "run", "--name", "work", "--retry", "--", "sleep", "1000")
	d.await("work (framework-1): is active")
	for _, fault := range []string{"kill/leader", "kill/agent", "kill/executor"} {
		d.await(fault + " begins: ")
		d.await("all masters and agents are well")
	}
	d.await("became FAILED") // with its executor; before that nothing has ended it
	if said := d.stderr.String(); strings.Contains(said[:strings.Index(said, "kill/executor begins")], "FAILED") {
		t.Errorf("the task has ended before its executor was killed:\n%s", said)
	}
	run.signal(syscall.SIGINT)
	run.wait()
	if _, stderr, code := tender(t, nil, "dev", "--chaos", "7", "--no-heal"); code != 2 || !strings.Contains(stderr, "exclude each other") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func leader(t *testing.T, d *devCluster) string {
	t.Helper()
	stdout, _, code := tender(t, d.env, "get", "masters", "-o", "json")
	if code != 0 {
		return ""
	}
	var list listed
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if item.State == "leader" {
			return item.GrpcAddress
		}
	}
	return ""
}

// TestChaosKilledAgentWhileATaskRuns kills an agent's own process with SIGKILL while a task runs, and starts it again.
func TestChaosKilledAgentWhileATaskRuns(t *testing.T) {
	d := startDev(t, "--agents", "0")
	data := filepath.Join(t.TempDir(), "agent")
	t.Cleanup(func() { nothingLeft(t, data) })
	args := []string{"agent", "--data-dir", data, "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:1024", "--recovery-timeout", "1m"}
	agent := start(t, d.env, args...)
	gate := filepath.Join(t.TempDir(), "gate")
	run := start(t, d.env, "run", "--", "sh", "-c", "echo up; echo more >&2; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	run.await("up")
	run.await("more")
	agent.signal(syscall.SIGKILL)
	agent.wait()
	until(t, "the master has noticed", func() bool { // on a slow machine it is TOMBSTONE before anybody looks
		return slices.Contains([]string{"DISCONNECTED", "TOMBSTONE"}, get(t, d.env, "agents").Items[0].State)
	})
	// The task ends while there is no agent.
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	agent = start(t, d.env, args...)
	run.await("done")
	if code := run.wait(); code != 0 || run.stdout.String() != "up\ndone\n" || !strings.HasPrefix(run.stderr.String(), "more\n") {
		t.Errorf("exit code %d, %q %q", code, &run.stdout, &run.stderr)
	}
	agent.signal(syscall.SIGTERM)
	if code := agent.wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	// Its executor waits for the next agent, which this folder will not have.
	for _, left := range processesOf(data) {
		if err := syscall.Kill(left.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	until(t, "nothing of the agent is left", func() bool { return len(processesOf(data)) == 0 })
}

func TestTwoAgentsDoNotShareAPort(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	_, port, _ := strings.Cut(d.Agents[0].HTTP, ":")
	_, stderr, code := tender(t, d.env, "agent", "--insecure", "--data-dir", filepath.Join(t.TempDir(), "agent"), "--http-port", port)
	if code != 1 || !strings.Contains(stderr, d.Agents[0].HTTP) || !strings.Contains(stderr, "in use") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
