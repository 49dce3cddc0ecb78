package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/commands"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/testlog"
	"github.com/tenderhq/tender/internal/wire"
)

// TestMain runs as the built-in executor, or as an agent, if an agent or a test has started this program as one.
func TestMain(m *testing.M) {
	if told := os.Getenv(agentEnv); told != "" && !executor.Active() {
		fmt.Fprintln(os.Stderr, runAgent(told))
		os.Exit(1)
	}
	if executor.Active() {
		if os.Getenv(ownEnv) != "" {
			runOwn()
		}
		if err := commands.Run(context.Background(), os.Getenv(protocol.ExecutorCellEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// running is an agent in a test.
type running struct {
	*Agent
	t    *testing.T
	stop context.CancelFunc
	done chan error
	once sync.Once
}

func testConfig(t *testing.T, masters ...string) Config {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := testlog.New(t)
	return Config{
		Masters: masters, DataDir: filepath.Join(t.TempDir(), "agent"), Hostname: "h1", Port: -1, Logger: log,
		Resources: api.Scalars(4, 4096), Programs: Programs{CommandExecutor: []string{self}}, RecoveryTimeout: -1,
	}
}

func run(t *testing.T, config Config) *running {
	agent, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Agent: agent, t: t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- agent.Run(ctx) }()
	t.Cleanup(func() { r.end() })
	return r
}

// end stops the agent and waits for it.
func (r *running) end() {
	r.stop()
	r.once.Do(func() {
		if err := <-r.done; err != nil {
			r.t.Errorf("the agent ended with %v", err)
		}
	})
}

func command(id api.TaskID, shell string) api.Task {
	return api.Task{ID: id, Resources: api.Scalars(1, 32), Command: &api.Command{Shell: shell}}
}

func TestLifeOfACommand(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	a := run(t, config)
	first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if first.Nonce == "" || first.Agent.Hostname != "h1" {
		t.Errorf("the first contact was %+v", first)
	}
	await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })

	master.launch(command("t1", "echo out; echo err >&2; exit 3"))
	master.status("t1", api.TaskRunning)
	status := master.status("t1", api.TaskFailed)
	if status.ExitCode == nil || *status.ExitCode != 3 {
		t.Errorf("the exit code is %v", status.ExitCode)
	}
	sandbox := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1")
	for name, want := range map[string]string{"stdout": "out\n", "stderr": "err\n"} {
		if got, err := os.ReadFile(filepath.Join(sandbox, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}

	master.launch(command("t2", "exec sleep 1000"))
	running := master.status("t2", api.TaskRunning)
	master.say(protocol.KillTask{TaskRef: running.Ref(), Reason: api.ReasonKilledByFramework})
	await(master, "kill taken", func(c protocol.KillTaken) bool { return c.Task == "t2" })
	if killed := master.status("t2", api.TaskKilled); killed.Reason != api.ReasonKilledByFramework {
		t.Errorf("killed for %v", killed.Reason)
	}
	a.end()
}

func TestDuplicateAndReconnect(t *testing.T) {
	master := newScript(t)
	run(t, testConfig(t, master.address))
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.silent.Store(true)
	master.launch(command("t1", "exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	master.silent.Store(false)
	master.forget()
	master.drop()
	await(master, "reregistration", func(c protocol.ReregisterAgent) bool { return c.Agent.ID == "agent-1" })
	report := await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if len(report.Tasks) != 1 || report.Tasks[0].Status.State != api.TaskRunning {
		t.Errorf("the report is %+v", report)
	}
	master.status("t1", api.TaskRunning) // again, at once
	master.launch(command("t1", "exit 1"))
	await(master, "refusal", func(c protocol.StatusUpdate) bool { return c.Status.Reason == api.ReasonTaskDuplicate })
}

// What runs is not touched when the agent ends and comes back.
func TestRestartKeepsTasks(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0
	first := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	flag := filepath.Join(t.TempDir(), "flag")
	master.launch(command("t1", "echo before; until test -e "+flag+"; do sleep 0.02; done; echo after"))
	master.status("t1", api.TaskRunning)
	executors := first.now.core // read only after the end
	first.end()
	started := executors.Runs()
	if len(started) != 1 || !proc.Alive(started[0].Process.PID, started[0].Process.Start) {
		t.Fatalf("the executor did not outlive its agent: %+v", started)
	}
	t.Cleanup(func() { _ = syscall.Kill(-started[0].Process.PID, syscall.SIGKILL) })
	master.forget()

	second := run(t, config)
	report := await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	if len(report.Tasks) != 1 || report.Tasks[0].Ended {
		t.Fatalf("the report is %+v", report)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	master.status("t1", api.TaskFinished)
	output, err := os.ReadFile(filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1/stdout"))
	if string(output) != "before\nafter\n" {
		t.Errorf("the output is %q, %v", output, err)
	}
	master.shutDown()
	second.end()
}

// The death of an executor ends its tasks, and their end is told only when they are gone (R11).
func TestExecutorDies(t *testing.T) {
	master := newScript(t)
	a := run(t, testConfig(t, master.address))
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	pidFile := filepath.Join(t.TempDir(), "pid")
	master.launch(command("t1", "echo $$ > "+pidFile+".new; mv "+pidFile+".new "+pidFile+"; trap '' TERM; while :; do sleep 1; done"))
	master.status("t1", api.TaskRunning)
	runs := a.runs.all()
	if len(runs) != 1 {
		t.Fatalf("%d executors", len(runs))
	}
	group := await(master, "usage", func(c protocol.AgentHeartbeat) bool { return len(c.Usage.Tasks) == 1 })
	if use := group.Usage.Tasks[api.TaskRef{Framework: "f1", Task: "t1"}]; use.Procs == 0 || use.Mem == 0 {
		t.Errorf("the task's usage is %+v", use)
	}
	if err := syscall.Kill(runs[0].process.ID().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status := master.status("t1", api.TaskFailed)
	if status.Reason != api.ReasonAgentFailed {
		t.Errorf("the reason is %v", status.Reason)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes(t) {
		if !p.Dead && strings.TrimSpace(string(text)) == itoa(p.PID) {
			t.Errorf("the task's process %d lives", p.PID)
		}
	}
}

// An agent on a real disk with real processes is marked gone: all processes end, and a new agent works.
func TestGoneOnDisk(t *testing.T) {
	master := newScript(t)
	a := run(t, testConfig(t, master.address))
	first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	id := a.runs.all()[0].process.ID()
	master.forget()
	master.say(protocol.AgentGone{Why: "test"})
	second := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	if second.Nonce == first.Nonce {
		t.Error("the new agent has the old one's nonce")
	}
	if proc.Alive(id.PID, id.Start) {
		t.Error("the old agent's executor lives")
	}
	master.launch(command("t1", "exit 0")) // the new agent does not know this ID
	master.status("t1", api.TaskFinished)
}

// An agent that was marked gone while it was away is told so when it returns: it kills what runs, and a new agent
// works. The same holds if it was killed in between and comes back as another process (R16).
func TestGoneWhileAway(t *testing.T) {
	for name, restarted := range map[string]bool{"in the same process": false, "in another process": true} {
		t.Run(name, func(t *testing.T) {
			master := newScript(t)
			config := testConfig(t, master.address)
			config.RecoveryTimeout = 0
			a := run(t, config)
			first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			master.launch(command("t1", "exec sleep 1000"))
			master.status("t1", api.TaskRunning)
			id := a.runs.all()[0].process.ID()
			t.Cleanup(func() { _ = syscall.Kill(-id.PID, syscall.SIGKILL) })
			master.forget()
			master.gone.Store(true)
			if restarted {
				a.end()
				run(t, config)
			} else {
				master.drop()
			}
			second := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			if second.Nonce == first.Nonce {
				t.Error("the new agent has the old one's nonce")
			}
			if proc.Alive(id.PID, id.Start) {
				t.Error("the old agent's executor lives")
			}
			master.launch(command("t1", "exit 0")) // the new agent does not know this ID
			master.status("t1", api.TaskFinished)
			master.shutDown()
		})
	}
}

// An agent that is killed while it is being marked gone, at any moment behind the record of that, begins anew at its
// next start: whether its executor lives or not, and also after a reboot (R16).
func TestKilledWhileItIsMarkedGone(t *testing.T) {
	for name, c := range map[string]struct{ executor, dies, reboot bool }{
		"with nothing on it":        {},
		"its executor lives":        {executor: true},
		"its executor died with it": {executor: true, dies: true},
		"the machine booted again":  {executor: true, dies: true, reboot: true},
		"an empty one booted again": {reboot: true},
	} {
		t.Run(name, func(t *testing.T) {
			master := newScript(t)
			config := testConfig(t, master.address)
			config.RecoveryTimeout, config.BootID = 0, "boot-1"
			a := run(t, config)
			first := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			if c.executor {
				master.launch(command("t1", "exec sleep 1000"))
				master.status("t1", api.TaskRunning)
				id := a.runs.all()[0].process.ID()
				t.Cleanup(func() { _ = syscall.Kill(-id.PID, syscall.SIGKILL) })
				a.end()
				if c.dies {
					_ = syscall.Kill(-id.PID, syscall.SIGKILL)
				}
			} else {
				await(master, "heartbeat", func(protocol.AgentHeartbeat) bool { return true })
				a.end()
			}
			markGone(t, config)
			master.forget()
			if c.reboot {
				config.BootID = "boot-2"
			}
			run(t, config)
			second := await(master, "registration", func(protocol.RegisterAgent) bool { return true })
			if second.Nonce == first.Nonce {
				t.Error("the new agent has the old one's nonce")
			}
			master.launch(command("t1", "exit 0")) // the new agent does not know this ID
			master.status("t1", api.TaskFinished)
			master.shutDown()
		})
	}
}

// markGone leaves an agent's folder as an agent does that was killed once the mark was on its disk.
func markGone(t *testing.T, config Config) {
	t.Helper()
	disk := checkpoint.NewDisk(checkpoint.Config{Folder: config.DataDir, BootID: config.BootID})
	records, err := disk.Load()
	if err != nil {
		t.Fatal(err)
	}
	who := core.New(core.Config{}, records).Identity()
	who.Gone = true
	if _, err := disk.Append([]core.Record{who}); err != nil {
		t.Fatal(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLogsFollowATask(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Listener = loopback(t)
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	flag := filepath.Join(t.TempDir(), "flag")
	master.launch(command("t1", "echo one; until test -e "+flag+"; do sleep 0.02; done; echo two"))
	master.status("t1", api.TaskRunning)
	<-a.Ready()
	url := "http://" + a.Address() + "/v1/logs/f1/t1/stdout"
	response := get(t, url+"?follow=1")
	defer response.Body.Close()
	buffer := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != "one\n" {
		t.Fatalf("%q, %v", buffer, err)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(response.Body)
	if err != nil || string(rest) != "two\n" {
		t.Errorf("%q, %v", rest, err)
	}
	master.status("t1", api.TaskFinished)
	whole := get(t, url+"?offset=-4")
	defer whole.Body.Close()
	if text, err := io.ReadAll(whole.Body); err != nil || string(text) != "two\n" {
		t.Errorf("%q, %v", text, err)
	}
	unknown := get(t, "http://"+a.Address()+"/v1/logs/f1/nope/stdout")
	defer unknown.Body.Close()
	if unknown.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown task answers %s", unknown.Status)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/", "/v1/files/f1/t1/"} {
		answer := get(t, "http://"+a.Address()+path)
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", path, answer.Status)
		}
	}
}

// A follower tells the agent who leads.
func TestRedirect(t *testing.T) {
	leader, follower := newScript(t), newScript(t)
	follower.refuse = wire.NotLeader("agent.session", leader.address)
	run(t, testConfig(t, follower.address))
	await(leader, "registration", func(protocol.RegisterAgent) bool { return true })
}

func TestMistakesAreSentences(t *testing.T) {
	taken := loopback(t)
	defer taken.Close()
	config := testConfig(t, "127.0.0.1:1")
	config.Port = port(taken)
	if err := start(t, config); !api.Is(err, api.Exists) || !strings.Contains(err.Error(), "the port is in use") {
		t.Errorf("a port in use: %v", err)
	}
	config.Port = -1
	first := run(t, config)
	<-first.Ready()
	locked := start(t, config)
	if !api.Is(locked, api.Exists) || !strings.Contains(locked.Error(), "another agent works on this data folder") {
		t.Errorf("a folder in use: %v", locked)
	}
	if _, err := New(Config{Masters: []string{"nowhere"}, Port: 70000}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes: %v", err)
	}
	master := newScript(t)
	master.refuse = api.E("agent.register", api.Denied, "agent-1", io.ErrUnexpectedEOF)
	if err := start(t, testConfig(t, master.address)); !api.Is(err, api.Denied) {
		t.Errorf("a refusal: %v", err)
	}
}

// start runs an agent that is expected to end by itself.
func start(t *testing.T, config Config) error {
	agent, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return agent.Run(t.Context())
}

// An agent without a session with a leader is not ready, and says so. Its HTTP listener serves all the same.
func TestAnAgentWithoutAMasterIsNotReady(t *testing.T) {
	config := testConfig(t, "127.0.0.1:1")
	config.Port, config.Listener = 0, loopback(t)
	a := run(t, config)
	<-a.Ready()
	answer := get(t, "http://"+a.Address()+"/readyz")
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "no session with the leading master") {
		t.Errorf("/readyz answers %s: %q, %v", answer.Status, text, err)
	}
}
