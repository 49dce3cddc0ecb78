package cli_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// expect waits for the task's next status with this state and reason.
func (f *paperFramework) expect(task api.TaskID, state api.TaskState, reason api.Reason) {
	f.t.Helper()
	for {
		status := taken(f, f.statuses, string(task)+" "+state.String()+" "+reason.String())
		if status.Task == task && status.State == state && status.Reason == reason {
			return
		}
		if status.State.Terminal() && status.Task == task {
			f.t.Fatalf("%s is %v %v: %s; want %v %v", task, status.State, status.Reason, status.Message, state, reason)
		}
	}
}

// TestReasonsOfMasters: with real processes, a scheduler is told AGENT_RESTARTED, AGENT_DISCONNECTED,
// AGENT_REREGISTERED, RECONCILIATION and PREEMPTED when that is the reason.
func TestReasonsOfMasters(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 8), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer slow.Close()
	defer close(release)
	dir := t.TempDir()
	t.Cleanup(func() { // the agent's executor waits for the next agent
		for _, left := range processesOf(dir) {
			if strings.Contains(left.command, "executor") {
				_ = syscall.Kill(left.pid, syscall.SIGKILL) // it may have ended already
			}
		}
	})
	port := func() string { return strconv.Itoa(freePort(t)) }
	grpc := port()
	d := &devCluster{env: []string{"TENDER_MASTER=127.0.0.1:" + grpc}}
	start(t, nil, "master", "--insecure", "--data-dir", filepath.Join(dir, "m"), "--grpc-port", grpc, "--http-port", "0", "--raft-port", port(),
		"--session-timeout", "3s", "--tombstone-after", "1s", "--allocator", "priority", "--preemption-grace", "100ms").await(`"leading"`)
	startAgent := func() *proc {
		a := start(t, d.env, "agent", "--insecure", "--data-dir", filepath.Join(dir, "a"), "--http-port", "0", "--resources", "cpus:2;mem:1024")
		a.await(`"registered"`)
		return a
	}
	agent := startAgent()

	tasks := make(chan api.Task, 8)
	launch := func(client *framework.Client, task api.Task) {
		t.Helper()
		tasks <- task
		if err := client.Demand(api.Demand{Shapes: []api.Shape{{Resources: task.Resources, Count: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	f := subscribe(t, d, "told", func(client *framework.Client, offer api.Offer) api.Answer {
		select {
		case task := <-tasks:
			if err := client.Demand(api.Demand{}); err != nil {
				t.Error(err)
			}
			return api.Launch(offer, task)
		default:
			return api.Decline(offer, 0)
		}
	})
	client := taken(f, f.clients, "it is subscribed")

	fetches := api.Command{Shell: "true", URIs: []api.URI{{Source: slow.URL + "/program", SHA256: strings.Repeat("0", 64)}}}
	launch(client, api.Task{ID: "fetched", Resources: api.Scalars(1, 64), Executor: &api.Executor{ID: "own", Command: fetches}})
	hang.Receive(t, "the agent fetches", func() string { return "" }, asked)
	agent.told.Store(true)
	agent.signal(syscall.SIGKILL)
	agent.wait()
	agent = startAgent()
	f.expect("fetched", api.TaskDropped, api.ReasonAgentRestarted)

	launch(client, api.Task{ID: "sleeps", Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "exec sleep 1000"}})
	f.awaitRunning("sleeps")
	if err := client.Reconcile("nobody"); err != nil {
		t.Fatal(err)
	}
	f.expect("nobody", api.TaskUnknown, api.ReasonReconciliation)

	agent.signal(syscall.SIGSTOP)
	f.expect("sleeps", api.TaskUnreachable, api.ReasonAgentDisconnected)
	agent.signal(syscall.SIGCONT)
	f.expect("sleeps", api.TaskRunning, api.ReasonAgentReregistered)

	if stdout, stderr, code := tender(t, d.env, "priority", "high", "10"); code != 0 {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	high := start(t, d.env, "run", "--role", "high", "--cpus", "2", "--", "true")
	f.expect("sleeps", api.TaskKilled, api.ReasonPreempted)
	if code := high.wait(); code != 0 {
		t.Errorf("what it made room for ends with exit code %d: %s", code, &high.stderr)
	}
}
