package cli_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A machine that dies unnoticed is marked gone after the time of its class, and its task runs elsewhere.
func TestADeadMachineIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := func() string { return strconv.Itoa(freePort(t)) }
	grpc := port()
	env := []string{"TENDER_MASTER=127.0.0.1:" + grpc}
	start(t, nil, "master", "--insecure", "--data-dir", filepath.Join(dir, "m"), "--grpc-port", grpc, "--http-port", "0", "--raft-port", port(),
		"--session-timeout", "1m", "--tombstone-after", "1s", "--gone-after", "0s", "--gone-after-of", "pool=spot:1s").await(`"leading"`)
	agent := func(name, pool string) *proc {
		p := start(t, env, "agent", "--insecure", "--data-dir", filepath.Join(dir, name), "--http-port", port(), "--hostname", name,
			"--attributes", "pool="+pool, "--resources", "cpus:1;mem:512")
		p.await(`"registered"`)
		return p
	}
	spot := agent("spot", "spot")
	run := start(t, env, "run", "--retry", "--unreachable-timeout", "0", "--cpus", "1", "--", "sh", "-c", "echo up; exec sleep 1000")
	run.await("up")
	agent("firm", "firm")

	spot.signal(syscall.SIGKILL)
	run.await("GONE_BY_OPERATOR: AGENT_GONE: agent agent-1: marked gone: TOMBSTONE for 1s (gone-after)")
	run.await("up")
	stdout, _, _ := tender(t, env, "get", "agents")
	if !strings.Contains(stdout, "TOMBSTONE,gone") || strings.Count(stdout, "gone-after") != 1 {
		t.Errorf("the agents are\n%s", stdout)
	}
	run.signal(syscall.SIGINT)
	run.wait()
	for _, left := range processesOf(dir) { // the dead agent's executor waits for it
		if strings.Contains(left.command, "executor") {
			_ = syscall.Kill(left.pid, syscall.SIGKILL) // it may have ended already
		}
	}
}
