package cli_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// TestDevHasCertificates: gRPC, Raft and the agents' HTTP use TLS, and yet nobody types a token. Commands, a framework
// and curl find everything by themselves, also after dev was killed and its folder is used again, and beside another
// dev.
func TestDevHasCertificates(t *testing.T) {
	other := startDev(t, "--insecure")
	d := startDev(t, "--masters", "3", "--agents", "2", "--agent-processes")
	for _, address := range []string{d.Masters[0].GRPC, d.Masters[1].GRPC} {
		if err := callWith(t, address, insecure.NewCredentials()); err == nil || strings.Contains(err.Error(), "it is answered") {
			t.Errorf("in plain text %s says %v", address, err)
		}
	}
	usable(t, d)
	usable(t, other)
	stdout, stderr, code := tender(t, d.env, "whoami")
	if code != 0 || !strings.Contains(stdout, "admin") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if stdout, _, _ := tender(t, other.env, "whoami"); strings.Contains(stdout, "admin") {
		t.Errorf("without certificates one is %q", stdout)
	}
	nobody := append([]string{"TENDER_TOKEN=" + strings.Repeat("x", 8)}, d.env...)
	if _, stderr, code := tender(t, nobody, "get", "agents"); code == 0 || !strings.Contains(stderr, "TENDER_TOKEN") {
		t.Errorf("a token of one's own is not tried: exit code %d, %q", code, stderr)
	}
}

// TestDevIsKilledAndStartedAnew: what is left of a killed cluster misleads nobody, and its folder goes on with the same
// certificates. A framework that was started before it connects.
func TestDevIsKilledAndStartedAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dev")
	args := []string{"dev", "--free-ports", "--data-dir", dir, "--jobs=false"}
	first := start(t, nil, args...)
	first.await("Ctrl-C")
	d := described(t, dir)
	before, err := os.ReadFile(filepath.Join(dir, "host-1", "certificate.pem"))
	if err != nil {
		t.Fatal(err)
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	if _, stderr, code := tender(t, d.env, "get", "agents"); code == 0 || !strings.Contains(stderr, "connection refused") {
		t.Errorf("after it was killed: exit code %d, %q", code, stderr)
	}
	early := aFrameworkThatTries(t, d.Masters[0].GRPC)
	second := start(t, nil, args...)
	second.await("Ctrl-C")
	early()
	usable(t, described(t, dir))
	if after, err := os.ReadFile(filepath.Join(dir, "host-1", "certificate.pem")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the agent has another certificate (%v)", err)
	}
	second.signal(syscall.SIGINT)
	if code := second.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, stderr, code := tender(t, nil, args[0], "--free-ports", "--data-dir", dir, "--insecure"); code == 0 || !strings.Contains(stderr, "leave --insecure out") {
		t.Errorf("the same folder without certificates: exit code %d, %q", code, stderr)
	}
	nothingLeft(t, dir)
}

// TestAGoneAgentOfDevIsANewOne: its certificate is void, and it has a token to join anew, whether it is a process of
// its own or not. So an operator's experiment does not end the cluster.
func TestAGoneAgentOfDevIsANewOne(t *testing.T) {
	for _, args := range [][]string{{"--agents", "1"}, {"--agents", "1", "--agent-processes"}} {
		d := startDev(t, args...)
		if stdout, stderr, code := tender(t, d.env, "gone", "--force", "agent-1"); code != 0 {
			t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
		}
		until(t, "there is another agent", func() bool {
			for _, agent := range get(t, d.env, "agents").Items {
				if agent.ID == "agent-2" && agent.State == "RUNNING" {
					return true
				}
			}
			return false
		})
		usable(t, d)
	}
}

// TestAnotherDevTakesThePlace: members of a dev that has ended, with all that they had, find another one at its
// address. They can't go on, and say so in one sentence with what to do. What is started then connects.
func TestAnotherDevTakesThePlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dev")
	args := []string{"dev", "--free-ports", "--data-dir", dir, "--jobs=false", "--agents", "1"}
	first := start(t, nil, args...)
	first.await("Ctrl-C")
	d := described(t, dir)
	sleeper, ended := idle{make(chan struct{})}, make(chan error, 1)
	go func() {
		ended <- framework.Run(t.Context(), framework.Config{Masters: []string{d.Masters[0].GRPC}, Name: "idle"}, sleeper)
	}()
	<-sleeper.in
	joined := func(folder string) *proc {
		return launch(t, d.env, true, []string{"agent", "--data-dir", folder, "--http-port", "0", "--resources", "cpus:1;mem:256"})
	}
	old := filepath.Join(t.TempDir(), "agent")
	agent, manager, run := joined(old), launch(t, d.env, true, []string{"jobs"}), start(t, d.env, "run", "--", "sh", "-c", "echo begun; sleep 1000")
	agent.await(`"registered"`)
	manager.await("the jobs of the store are here")
	run.await("begun")
	first.signal(syscall.SIGINT)
	if code := first.wait(); code != 0 {
		t.Fatalf("dev: exit code %d", code)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range left { // except for its addresses
		if one.Name() != "dev-addresses.json" {
			if err := os.RemoveAll(filepath.Join(dir, one.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := start(t, nil, args...)
	second.await("Ctrl-C")
	const gone = "the cluster of 'tender dev' that was joined has ended, and another one runs there now: "
	if err := <-ended; !api.Is(err, api.Removed) || !strings.Contains(err.Error(), gone+"its tasks have ended with it; start the framework again") {
		t.Errorf("the framework ended with %v", err)
	}
	for what, one := range map[string]struct {
		*proc
		says string
	}{
		"the agent":       {agent, gone + "this agent's tasks and identity, in " + old},
		"the job manager": {manager, gone + "its jobs have ended with it; start the job manager again"},
		"tender run":      {run, gone + "give the command again"},
		"the agent again": {joined(old), gone + "this agent's tasks and identity, in " + old},
	} {
		if code := one.wait(); code == 0 || !strings.Contains(one.stderr.String(), one.says) {
			t.Errorf("%s: exit code %d, %s", what, code, &one.stderr)
		}
	}
	anew := joined(filepath.Join(t.TempDir(), "agent"))
	anew.await(`"registered"`)
	anew.signal(syscall.SIGTERM)
	if code := anew.wait(); code != 0 {
		t.Errorf("an agent with a folder of its own: exit code %d", code)
	}
	usable(t, described(t, dir))
	second.signal(syscall.SIGINT)
	if code := second.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	nothingLeft(t, dir)
}

// aFrameworkThatTries returns when a framework has tried to reach a master that is down. works waits until it has done
// its work.
func aFrameworkThatTries(t *testing.T, master string) (works func()) {
	t.Helper()
	listener, err := net.Listen("tcp", master)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		aFrameworkWorks(t, []string{master}, "")
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	return func() { <-done }
}

// usable does with a cluster what the first five minutes of the README do, without mentioning certificates.
func usable(t *testing.T, d *devCluster) {
	t.Helper()
	if stdout, stderr, code := tender(t, d.env, "run", "--", "echo", "hello"); code != 0 || stdout != "hello\n" {
		t.Errorf("run: exit code %d, %q, %q", code, stdout, stderr)
	}
	for _, url := range []string{
		"http://" + d.Masters[0].HTTP + "/readyz", "http://" + d.Masters[0].HTTP + "/v1/ListAgents", "http://" + d.Masters[0].HTTP + "/metrics",
		"http://" + d.Masters[0].HTTP + "/v1/log-level", // without it a master makes lines that nobody reads
		"http://" + d.Agents[0].HTTP + "/v1/state", "http://" + d.Agents[0].HTTP + "/v1/containers",
	} {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s says %s: %s", url, answer.Status, text)
		}
	}
	aFrameworkWorks(t, []string{d.Masters[0].GRPC}, "")
}

// TestDevSaysWhatLeadsElsewhere: commands use the context of the environment, whatever else is named, and dev warns of
// that.
func TestDevSaysWhatLeadsElsewhere(t *testing.T) {
	d := start(t, []string{"TENDER_CONTEXT=production"}, "dev", "--free-ports", "--agents", "0", "--jobs=false")
	d.await("unset TENDER_CONTEXT")
	d.signal(syscall.SIGINT)
	if code := d.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
