package agent

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// counted is a listener that counts who connects.
type counted struct {
	net.Listener
	accepted atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// overHTTP2 is a client that asks many things on one connection.
func overHTTP2(t *testing.T) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// follower reads both outputs of a task as they come.
type follower struct {
	mu       sync.Mutex
	out, err string
	up       chan struct{} // closed at the first byte
	done     chan error
}

func follow(t *testing.T, client *http.Client, url string) *follower {
	t.Helper()
	f := &follower{up: make(chan struct{}), done: make(chan error, 1)}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer response.Body.Close()
		f.done <- tail.ReadFrames(response.Body, f.take)
	}()
	return f
}

func (f *follower) take(kind byte, content []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out+f.err == "" {
		close(f.up)
	}
	switch kind {
	case tail.FrameStdout:
		f.out += string(content)
	case tail.FrameStderr:
		f.err += string(content)
	}
	return nil
}

// Fifty followers share one connection, hear both outputs as they come, and are told that they have all of it.
func TestOutputsAreFollowedOnOneConnection(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	listener := &counted{Listener: loopback(t)}
	config.Listener = listener
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	flag := filepath.Join(t.TempDir(), "flag")
	master.launch(command("t1", "echo one; until test -e "+flag+"; do sleep 0.02; done; echo two; echo three >&2"))
	master.status("t1", api.TaskRunning)
	<-a.Ready()
	client := overHTTP2(t)
	var followers []*follower
	for range 50 {
		followers = append(followers, follow(t, client, "http://"+a.Address()+"/v1/output/f1/t1?stdout=0&stderr=0&follow=1"))
	}
	for _, f := range followers {
		<-f.up
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range followers {
		if err := <-f.done; err != nil || f.out != "one\ntwo\n" || f.err != "three\n" {
			t.Errorf("%v, stdout %q, stderr %q", err, f.out, f.err)
		}
	}
	if n := listener.accepted.Load(); n != 1 {
		t.Errorf("%d connections for 50 followers", n)
	}
	// What is asked for from an offset on begins there; an output that is not named is not sent.
	rest := follow(t, client, "http://"+a.Address()+"/v1/output/f1/t1?stdout=4")
	if err := <-rest.done; err != nil || rest.out != "two\n" || rest.err != "" {
		t.Errorf("%v, stdout %q, stderr %q", err, rest.out, rest.err)
	}
	if status := master.status("t1", api.TaskFinished); status.Output == nil || *status.Output != (api.OutputSize{Stdout: 8, Stderr: 6}) {
		t.Errorf("the end tells %v", status.Output)
	}
}

// An agent that goes down does not pass for a task that has ended: its followers ask again.
func TestAnAgentThatStopsCutsItsFollowersOff(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Listener = loopback(t)
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "echo up; exec sleep 1000"))
	master.status("t1", api.TaskRunning)
	<-a.Ready()
	f := follow(t, overHTTP2(t), fmt.Sprintf("http://%s/v1/output/f1/t1?stdout=0&follow=1", a.Address()))
	<-f.up
	a.end()
	if err := <-f.done; err == nil || f.out != "up\n" {
		t.Errorf("%v, stdout %q", err, f.out)
	}
}

// What an executor of its own has written can be read by its task, also after it has crashed, and the last line of its
// stderr says in the task's status why it did; a line of an earlier run does not.
func TestOutputOfACrashedExecutor(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Listener = loopback(t)
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	<-a.Ready()
	begun := master.sessions()
	crash := func(id api.TaskID, shell string) api.Status {
		own := &api.Executor{ID: "own", Command: api.Command{Shell: shell}}
		master.launch(api.Task{ID: id, Resources: api.Scalars(1, 32), Executor: own})
		return await(master, string(id), func(c protocol.StatusUpdate) bool {
			return c.Status.Task == id && c.Status.State.Terminal()
		}).Status
	}
	if message := crash("t1", "echo begun; echo first >&2; printf 'no\\tluck\\n' >&2; exit 3").Message; !strings.HasSuffix(message, ": no luck") {
		t.Errorf("the status says %q and not why", message)
	}
	got := follow(t, overHTTP2(t), "http://"+a.Address()+"/v1/output/f1/t1?stdout=0&stderr=0&executor=1")
	if err := <-got.done; err != nil || got.out != "begun\n" || got.err != "first\nno\tluck\n" {
		t.Errorf("%v, stdout %q, stderr %q", err, got.out, got.err)
	}
	master.executorEnds(api.ExecutorRef{Framework: "f1", Executor: "own"}, begun, func() {})
	if message := crash("t2", "exit 4").Message; strings.Contains(message, "luck") {
		t.Errorf("the status of a run that wrote nothing says %q", message)
	}
}
