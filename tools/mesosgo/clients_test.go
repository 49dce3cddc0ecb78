package mesosgo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// commands are the programs of mesos-go that are run, below api/v1/cmd.
var commands = []string{"example-executor", "example-scheduler", "msh"}

// programs is the folder of the programs, and tender the program under test.
var programs, tender string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mesosgo-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	if tender, err = filepath.Abs("../../bin/tender"); err != nil {
		panic(err)
	}
	if _, err := os.Stat(tender); err != nil {
		fmt.Fprintln(os.Stderr, "no", tender+"; make build")
		return 1
	}
	args := []string{"build", "-o", dir + "/"}
	for _, command := range commands {
		args = append(args, "github.com/mesos/mesos-go/api/v1/cmd/"+command)
	}
	build := exec.Command("go", args...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building mesos-go:", err)
		return 1
	}
	return m.Run()
}

// child is a process of a test.
type child struct {
	*exec.Cmd
	lines chan string // of its output
}

// start starts a program whose process group ends with the test.
func start(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(name, args...), lines: make(chan string, 1<<16)}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	c.Env = append(os.Environ(), "TENDER_TOKEN=")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case c.lines <- scanner.Text():
			default: // nobody reads so much
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(c.kill)
	return c
}

// kill sends SIGKILL to the process and its group.
func (c *child) kill() {
	if c.ProcessState == nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	}
}

// await reads the output up to a line that has one of the words, and returns that line.
func (c *child) await(t *testing.T, words ...string) string {
	t.Helper()
	var before []string
	for line := range c.lines {
		before = append(before, line)
		for _, word := range words {
			if strings.Contains(line, word) {
				return line
			}
		}
	}
	t.Fatalf("%s ended before it said any of %q:\n%s", c.Path, words, strings.Join(before[max(0, len(before)-30):], "\n"))
	return ""
}

// cluster is a cluster of processes with a gateway.
type cluster struct {
	t       *testing.T
	dir     string
	master  string
	ports   map[string]string
	agent   *child
	gateway *child
	address string // of the gateway
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "mesosgo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // an agent of root runs its tasks as other users
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, ports: map[string]string{"agents": "0"}}
	dev := start(t, tender, "dev", "--free-ports", "--insecure", "--data-dir", filepath.Join(c.dir, "dev"), "--masters", "3", "--agents", "0", "--master-processes")
	c.master = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(dev.await(t, "TENDER_MASTER=")), "export TENDER_MASTER="))
	// These stay theirs when they are killed and started again: they are below the ports that systems give to outgoing
	// connections and those of 'tender dev', and above those that other tests reserve.
	for i, name := range []string{"gateway", "agent"} {
		for c.ports[name] == "" {
			port := strconv.Itoa(19_000 + 2*rand.IntN(50) + i)
			if listener, err := net.Listen("tcp4", "127.0.0.1:"+port); err == nil {
				_ = listener.Close()
				c.ports[name] = port
			}
		}
	}
	c.address = "127.0.0.1:" + c.ports["gateway"]
	c.startAgent()
	c.startGateway()
	return c
}

// startAgent starts the agent, which finds its tasks again if there are any.
func (c *cluster) startAgent() {
	c.t.Helper()
	c.agent = start(c.t, tender, "--master", c.master, "agent", "--insecure", "--data-dir", filepath.Join(c.dir, "agent"), "--bind", "127.0.0.1",
		"--http-port", c.ports["agent"], "--hostname", "127.0.0.1", "--resources", "cpus:8;mem:4096;disk:1000;ports:[31000-31099]", "--log-format", "console")
	c.agent.await(c.t, "registered")
}

func (c *cluster) startGateway() {
	c.t.Helper()
	c.gateway = start(c.t, tender, "--master", c.master, "mesos", "--insecure", "--port", c.ports["gateway"], "--agent-port", c.ports["agents"])
	c.gateway.await(c.t, "Mesos")
}

// killLeader kills the process of the leading master. Dev starts it again.
func (c *cluster) killLeader() {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "dev", "dev.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var all struct {
		Masters []struct {
			ID  string `json:"id"`
			PID int    `json:"pid"`
		} `json:"masters"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		c.t.Fatal(err)
	}
	leader := c.leader()
	for _, master := range all.Masters {
		if master.ID == leader {
			_ = syscall.Kill(master.PID, syscall.SIGKILL)
		}
	}
}

// leader asks which master leads.
func (c *cluster) leader() string {
	c.t.Helper()
	out, err := exec.Command(tender, "--master", c.master, "get", "masters", "-o", "json").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	var list struct {
		Items []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"items"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		c.t.Fatal(err)
	}
	for _, master := range list.Items {
		if master.State == "leader" {
			return master.ID
		}
	}
	c.t.Fatalf("no master leads: %s", out)
	return ""
}

// schedule starts the example scheduler with its executor.
func (c *cluster) schedule(codec string, tasks int) *child {
	return start(c.t, filepath.Join(programs, "example-scheduler"), "-url", "http://"+c.address+"/api/v1/scheduler", "-codec", codec,
		"-executor", filepath.Join(programs, "example-executor"), "-tasks", fmt.Sprint(tasks), "-cpu", "0.1", "-checkpoint=false",
		"-failoverTimeout", "60s", "-jobRestartDelay", "100ms", "-metrics.port", "0", "-verbose")
}

// TestExampleScheduler: the scheduler sends its executor to the agents, runs tasks in it and ends when all are finished.
func TestExampleScheduler(t *testing.T) {
	c := newCluster(t)
	for _, codec := range []string{"protobuf", "json"} {
		t.Run(codec, func(t *testing.T) {
			c.schedule(codec, 40).await(t, "mission accomplished")
		})
	}
}

// TestPartsAreKilled: the scheduler ends well while the gateway, the leader and the agent are killed at random. A launch
// that was under way is repeated: the scheduler would take its loss for the end of the world.
func TestPartsAreKilled(t *testing.T) {
	for _, codec := range []string{"protobuf", "json"} {
		t.Run(codec, func(t *testing.T) {
			c := newCluster(t)
			seed := time.Now().UnixNano()
			t.Logf("seed %d", seed)
			chance := rand.New(rand.NewPCG(uint64(seed), 0))
			scheduler := c.schedule(codec, 600)
			for range 8 {
				for range 1 + chance.IntN(40) {
					if strings.Contains(scheduler.await(t, "TASK_FINISHED", "mission accomplished", givenUp), givenUp) {
						scheduler = c.schedule(codec, 600)
					}
				}
				part := []string{"gateway", "leader", "agent"}[chance.IntN(3)]
				t.Logf("kill -9 of the %s", part)
				switch part {
				case "gateway":
					c.gateway.kill()
					c.startGateway()
				case "leader":
					c.killLeader()
				case "agent":
					c.agent.kill()
					c.startAgent()
				}
			}
			for strings.Contains(scheduler.await(t, "mission accomplished", givenUp), givenUp) {
				scheduler = c.schedule(codec, 600)
			}
		})
	}
}

// givenUp is what the scheduler says when the connection broke on which it has sent an accept. It never launches those
// tasks again, nor notices that they are missing, so it would wait for ever.
const givenUp = "failed to launch tasks"

// TestLeaderAndAgentAreKilled: a command runs on, and msh hears of its end.
func TestLeaderAndAgentAreKilled(t *testing.T) {
	c := newCluster(t)
	gate := filepath.Join(c.dir, "gate")
	if err := errors.Join(syscall.Mkfifo(gate, 0o666), os.Chmod(gate, 0o666)); err != nil {
		t.Fatal(err)
	}
	shell := start(t, filepath.Join(programs, "msh"), "-master", c.address, "--", "cat", gate)
	shell.await(t, "TASK_RUNNING")
	c.killLeader()
	c.agent.kill()
	c.startAgent()
	pipe, err := os.OpenFile(gate, os.O_WRONLY, 0) // cat reads, and ends with it
	if err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	shell.await(t, "TASK_FINISHED")
}

// TestShell: msh runs a command, alone and in a pod, and ends as the command does.
func TestShell(t *testing.T) {
	c := newCluster(t)
	for name, run := range map[string]struct {
		args []string
		code int
	}{
		"command": {[]string{"--", "echo", "hello"}, 0},
		"failing": {[]string{"--", "false"}, 3},
		"pod":     {[]string{"-pod", "--", "echo", "hello"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			shell := exec.CommandContext(context.Background(), filepath.Join(programs, "msh"), append([]string{"-master", c.address}, run.args...)...)
			shell.Stdout, shell.Stderr = &out, &out
			_ = shell.Run() // the exit code says it
			if code := shell.ProcessState.ExitCode(); code != run.code {
				t.Errorf("exit code %d, want %d:\n%s", code, run.code, out.String())
			}
		})
	}
}

// TestInteractive: msh attaches to its command's terminal at the agent's host, where clients expect agents at port 5051:
// what it reads the command reads, and what the command says it writes.
func TestInteractive(t *testing.T) {
	c := newCluster(t)
	c.gateway.kill()
	c.ports["agents"] = "5051"
	c.startGateway()
	shell := exec.Command(filepath.Join(programs, "msh"), "-master", c.address, "-interactive", "--", "sh", "-c", "echo ready; read line; echo got $line; read line")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	typed, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	shell.Stderr = &log
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) })
	scanner := bufio.NewScanner(said)
	for _, step := range []struct{ hear, typed string }{{"ready", "hello\n"}, {"got hello", "bye\n"}} {
		for {
			if !scanner.Scan() {
				t.Fatalf("it ended before it said %q\n%s", step.hear, log.String())
			}
			if strings.Contains(scanner.Text(), step.hear) {
				break
			}
		}
		if _, err := io.WriteString(typed, step.typed); err != nil {
			t.Fatal(err)
		}
	}
	if err := shell.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
}

// TestTools: what tools read of a master is there.
func TestTools(t *testing.T) {
	c := newCluster(t)
	for _, path := range []string{"/version", "/health", "/state", "/slaves", "/tasks", "/frameworks", "/roles", "/metrics/snapshot"} {
		response, err := http.Get("http://" + c.address + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}
