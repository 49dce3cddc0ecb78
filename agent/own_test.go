package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// ownEnv makes this test's program a framework's own executor.
const ownEnv = "TEST_OWN_EXECUTOR"

// agentEnv makes this test's program an agent, with the configuration that its value holds.
const agentEnv = "TEST_AGENT"

// agentProcess is the configuration of an agent that runs as a process of its own, which is to be killed.
type agentProcess struct{ Master, DataDir string }

// start starts an agent with namespaces, whose tasks run as their frameworks' users. Its output is in the test's log.
func (p agentProcess) start(t *testing.T) *exec.Cmd {
	t.Helper()
	told, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), agentEnv+"="+string(told))
	said := &bytes.Buffer{}
	child.Stdout, child.Stderr = said, said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // the test has killed it already, if it came so far
		_ = child.Wait()
		t.Logf("the agent that was killed said:\n%s", said)
	})
	return child
}

// runAgent runs the agent of a process that agentProcess.start has started, until it is killed.
func runAgent(told string) error {
	var p agentProcess
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		return err
	}
	a, err := New(Config{
		Masters: []string{p.Master}, DataDir: p.DataDir, Hostname: "h1", Port: -1, Logger: zerolog.New(os.Stderr),
		Resources: api.Scalars(4, 4096), Programs: Programs{CommandExecutor: []string{"/proc/self/exe"}},
		Walls: walls.Config{Isolation: walls.Spaces}, Users: Users{TaskUser: entry.Dynamic},
	})
	if err != nil {
		return err
	}
	return a.Run(context.Background())
}

// runOwn runs lines of shell as tasks, which report what the lines print. It ends when its agent orders it to.
func runOwn() {
	err := executor.Run(context.Background(), func(ctx context.Context, task *executor.Task) error {
		line := exec.CommandContext(ctx, "/bin/sh", "-c", string(task.Data))
		line.Dir = task.Sandbox
		if err := os.MkdirAll(task.Sandbox, 0o700); err != nil {
			return err
		}
		said, err := line.CombinedOutput()
		task.SetResult(said)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
