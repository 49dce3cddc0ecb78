package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// counted is a listener that counts connections.
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

// overHTTP2 returns a client that makes many requests on one connection.
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

// Fifty followers share one connection, get both outputs as they come, and are told that they have everything.
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
	// One is enough. But Go's client dials a second one if it is asked again before the first one is in its pool.
	if n := listener.accepted.Load(); n > 2 {
		t.Errorf("%d connections for 50 followers", n)
	}
	// An answer begins at the offset that was asked for. An output that is not named is not sent.
	rest := follow(t, client, "http://"+a.Address()+"/v1/output/f1/t1?stdout=4")
	if err := <-rest.done; err != nil || rest.out != "two\n" || rest.err != "" {
		t.Errorf("%v, stdout %q, stderr %q", err, rest.out, rest.err)
	}
	if status := master.status("t1", api.TaskFinished); status.Output == nil || *status.Output != (api.OutputSize{Stdout: 8, Stderr: 6}) {
		t.Errorf("the end tells %v", status.Output)
	}
}

// The stop of an agent does not look like the end of a task: followers ask again.
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

// What a framework's own executor has written can be read by naming its task, also after it has crashed. The last line
// of its stderr is in the task's status as the reason; a line of an earlier run is not.
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

// A task that prints for ever takes no more disk than may be kept. Its newest lines can be read, at the same offsets as
// before.
func TestATaskPrintsForEver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux gives the head of a file back")
	}
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Listener, config.OutputBytesMax = loopback(t), 1<<20
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	master.launch(command("t1", "exec seq 1000000000"))
	status := master.status("t1", api.TaskRunning)
	<-a.Ready()
	url := "http://" + a.Address() + "/v1/output/f1/t1?stdout=0"
	path := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1/stdout")
	response := get(t, url+"&follow=1")
	defer response.Body.Close()
	trimmed := errors.New("trimmed")
	err := tail.ReadFrames(response.Body, func(byte, []byte) error { // the answer never pauses
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() > 8<<20 && info.Sys().(*syscall.Stat_t).Blocks*512 < info.Size()/2 {
			return trimmed
		}
		return nil
	})
	if !errors.Is(err, trimmed) {
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal("the task has ended")
	}
	master.say(protocol.KillTask{TaskRef: status.Ref(), Reason: api.ReasonKilledByFramework})
	size := master.status("t1", api.TaskKilled).Output.Stdout
	if size < 8<<20 {
		t.Errorf("the end tells of %d bytes", size)
	}
	at, kept := int64(0), ""
	all := get(t, url)
	defer all.Body.Close()
	err = tail.ReadFrames(all.Body, func(kind byte, content []byte) error {
		if kind == tail.FrameStdoutAt {
			at, kept = tail.OffsetOf(content), ""
			return nil
		}
		kept += string(content)
		return nil
	})
	if err != nil || at+int64(len(kept)) != size || len(kept) < 1<<20 {
		t.Errorf("%d bytes from %d on of %d, %v", len(kept), at, size, err)
	}
	last := get(t, url+"&stdout.lines=2")
	defer last.Body.Close()
	lines := ""
	err = tail.ReadFrames(last.Body, func(kind byte, content []byte) error {
		if kind == tail.FrameStdout {
			lines += string(content)
		}
		return nil
	})
	if err != nil || !strings.HasSuffix(kept, "\n"+lines) || strings.Count(lines, "\n") > 2 {
		t.Errorf("the last two lines are %q, %v", lines, err)
	}
}

// A task that fills a volume beyond its size is ended with a reason that names it, and so is one that goes on filling
// what is too full.
func TestATaskOutgrowsItsVolume(t *testing.T) {
	master := newScript(t)
	run(t, testConfig(t, master.address))
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	volume := api.Resource{Label: api.Label{Name: "disk", Reserved: "r", Volume: "v1"}, Scalar: 8000}
	master.say(protocol.CreateVolume{Volume: protocol.Volume{Resource: volume, Generation: 1}})
	for _, id := range []api.TaskID{"first", "second"} {
		task := command(id, "mkdir -p volumes/v1/deep; head -c 12M /dev/zero > volumes/v1/deep/$$; exec sleep 1000")
		task.Resources = task.Resources.Plus(api.NewResources(volume))
		master.launch(task)
		status := master.status(id, api.TaskFailed)
		if want := "volume v1 had more than its 8 MB"; status.Reason != api.ReasonDiskLimit || !strings.HasPrefix(status.Message, want) {
			t.Errorf("%s: %v: %q, want %q", id, status.Reason, status.Message, want)
		}
	}
}

// A task that grows beyond the disk that it asked for is ended; its neighbour is not.
func TestATaskOutgrowsItsDisk(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	fills := func(id api.TaskID, mb int) api.Task {
		task := command(id, fmt.Sprintf("mkdir deep; head -c %d /dev/zero > deep/file; exec sleep 1000", mb<<20))
		task.Resources = task.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 8000}))
		return task
	}
	master.launch(fills("modest", 4))
	master.launch(fills("greedy", 12))
	status := master.status("greedy", api.TaskFailed)
	if status.Reason != api.ReasonDiskLimit || !strings.Contains(status.Message, "more than the 8 MB of disk") {
		t.Errorf("%v: %q", status.Reason, status.Message)
	}
	master.say(protocol.KillTask{TaskRef: api.TaskRef{Framework: "f1", Task: "modest"}, Reason: api.ReasonKilledByFramework})
	if status := master.status("modest", api.TaskKilled); status.Reason != api.ReasonKilledByFramework {
		t.Errorf("the neighbour was ended for %v", status.Reason)
	}
}
