package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/freeports"
)

func withPort(task api.Task, port int) api.Task {
	task.Ports = map[string]uint16{"http": uint16(port)}
	task.Resources = task.Resources.Plus(api.NewResources(api.Resource{
		Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: uint64(port), End: uint64(port)}),
	}))
	return task
}

// listenOn listens on a port that nobody has taken when it is free again.
func listenOn(t *testing.T, host string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(freeports.ReserveOne(t))))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

// Each way in which tasks end at an agent, with real processes, gives its status the right reason.
func TestReasonsOfAnAgent(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.RecoveryTimeout = 0 // 15 minutes
	expect := func(task api.TaskID, state api.TaskState, reason api.Reason) {
		t.Helper()
		if status := master.status(task, state); status.Reason != reason {
			t.Errorf("%s ended %v (%v): %s, want %v", task, status.State, status.Reason, status.Message, reason)
		}
	}

	config.BootID, config.ExecutorTimeout = "b1", 200*time.Millisecond
	hasty := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	mute := command("mute", "")
	mute.Command, mute.Executor = nil, &api.Executor{ID: "mute", Command: api.Command{Shell: "exec sleep 1000"}}
	master.launch(mute)
	expect("mute", api.TaskFailed, api.ReasonExecutorRegistrationTimeout)
	hasty.end()

	config.ExecutorTimeout = 0 // a minute, for a busy machine
	master.forget()
	first := run(t, config)
	await(master, "report", func(c protocol.AgentReport) bool { return c.Last })
	without := command("without", "true")
	without.Command.URIs = []api.URI{{Source: filepath.Join(t.TempDir(), "nothing")}}
	master.launch(without)
	expect("without", api.TaskFailed, api.ReasonFetchFailed)
	away := command("away", "true")
	away.Command.URIs = []api.URI{{Source: fmt.Sprintf("http://127.0.0.1:%d/file", freeports.ReserveOne(t)), SHA256: strings.Repeat("0", 64)}}
	master.launch(away)
	expect("away", api.TaskDropped, api.ReasonSourceUnavailable)
	brief := command("brief", "")
	brief.Command, brief.Executor = nil, &api.Executor{ID: "brief", Command: api.Command{Shell: "exit 3"}}
	master.launch(brief)
	expect("brief", api.TaskFailed, api.ReasonExecutorTerminated)
	absent := command("absent", "")
	absent.Command, absent.Executor = nil, &api.Executor{ID: "absent", Command: api.Command{Argv: []string{"/no/such/program"}}}
	master.launch(absent)
	expect("absent", api.TaskFailed, api.ReasonLaunchFailed)
	archive := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(archive, make([]byte, 2<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	large := command("large", "true")
	large.Command.URIs = []api.URI{{Source: archive}}
	large.Resources = large.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "disk"}, Scalar: 1000}))
	master.launch(large)
	expect("large", api.TaskFailed, api.ReasonDiskLimit)
	wrong := command("wrong", "true")
	wrong.Command = nil
	master.launch(wrong)
	expect("wrong", api.TaskError, api.ReasonTaskInvalid)
	greedy := command("greedy", "true")
	greedy.Resources = greedy.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: api.GPUs}, Scalar: 1000})) // it has none
	master.launch(greedy)
	expect("greedy", api.TaskDropped, api.ReasonInvalidOffers)
	for _, host := range []string{"0.0.0.0", "127.0.0.1", "::1"} {
		taken := listenOn(t, host)
		task := withPort(command(api.TaskID("port-"+taken.Addr().Network()+strconv.Itoa(portOf(taken))), "true"), portOf(taken))
		master.launch(task)
		expect(task.ID, api.TaskDropped, api.ReasonPortTaken)
		taken.Close()
		task.ID += "-free"
		master.launch(task)
		expect(task.ID, api.TaskFinished, api.ReasonNone)
	}
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	master.launch(withPort(command("port-udp", "true"), datagrams.LocalAddr().(*net.UDPAddr).Port))
	expect("port-udp", api.TaskDropped, api.ReasonPortTaken)
	master.launch(command("before", "echo $$ > pid; exec sleep 1000"))
	master.status("before", api.TaskRunning)
	file := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/before/pid")
	awaitFile(t, file)
	first.end()

	killExecutors(t, first) // as a reboot does
	pid, err := strconv.Atoi(textOf(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	config.BootID = "b2"
	second := run(t, config)
	expect("before", api.TaskGone, api.ReasonAgentRebooted)
	master.say(protocol.Drain{On: true})
	master.launch(command("late", "true"))
	expect("late", api.TaskDropped, api.ReasonAgentDraining)
	master.say(protocol.Drain{On: false})
	master.launch(command("orphan", "exec sleep 1000"))
	master.status("orphan", api.TaskRunning)
	master.say(protocol.RemoveFramework{Framework: "f1"})
	expect("orphan", api.TaskKilled, api.ReasonFrameworkRemoved)
	second.end()
}
