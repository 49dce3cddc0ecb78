package commands

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
)

var (
	killSeed   = flag.Uint64("kill-seed", 0, "when TestTheSpawnerIsKilled kills; 0 = any")
	killRounds = flag.Int("kill-rounds", 30, "how often it does")
)

// TestTheSpawnerIsKilled: the spawner is killed at any moment of starts and ends, again and again. No task is lost or
// told of twice. Each ends as it should, or has failed to start, and nothing of it is left. The next task starts with
// another spawner.
func TestTheSpawnerIsKilled(t *testing.T) {
	spaced(t, func(a *agent, around cell.Cell) {
		seed := *killSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("-kill-seed %d", seed)
		kills, failed := 0, 0
		for round := range *killRounds {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			killed, over := make(chan int), make(chan struct{})
			go func() { killed <- killNowAndThen(rand.New(rand.NewPCG(seed, 1<<32+uint64(round))), over) }()
			failed += aRoundOfTasks(a, r, round)
			close(over)
			kills += <-killed
			if left := tasksIn(around); len(left) > 0 {
				t.Fatalf("round %d: cells are left: %v", round, left)
			}
		}
		a.shell("last", "exit 0")
		a.want("last", api.TaskRunning)
		a.want("last", api.TaskFinished)
		if len(a.statuses) > 0 {
			t.Errorf("%d more are told", len(a.statuses))
		}
		if kills == 0 {
			t.Error("the spawner was never killed")
		}
		t.Logf("%d kills, %d of the tasks did not start", kills, failed)
	})
}

// aRoundOfTasks starts some tasks at once, ends those that do not end by themselves, and returns how many did not
// start.
func aRoundOfTasks(a *agent, r *rand.Rand, round int) (failed int) {
	a.t.Helper()
	lines := map[api.TaskState]string{api.TaskFinished: "exit 0", api.TaskFailed: "exit 3", api.TaskKilled: "exec sleep 1000"}
	ends := map[api.TaskID]api.TaskState{} // how the tasks that have not ended yet should end
	for i := range 1 + r.IntN(4) {
		id := api.TaskID(fmt.Sprintf("t%d-%d", round, i))
		ends[id] = []api.TaskState{api.TaskFinished, api.TaskFailed, api.TaskKilled}[r.IntN(3)]
		a.shell(id, lines[ends[id]])
		if ends[id] == api.TaskKilled && r.IntN(2) == 0 { // perhaps before it has started
			a.send(protocol.ExecutorKill{Task: id, Grace: time.Hour})
		}
	}
	for len(ends) > 0 {
		status := hang.Receive(a.t, fmt.Sprintf("the ends of %v", ends), a.state, a.statuses)
		want, is := ends[status.Task]
		if !is {
			a.t.Fatalf("%s is told to be %v (%s), and has ended or never begun", status.Task, status.State, status.Message)
		}
		switch {
		case !status.State.Terminal():
			if status.State == api.TaskRunning && want == api.TaskKilled {
				a.send(protocol.ExecutorKill{Task: status.Task, Grace: time.Hour})
			}
			continue
		case status.State == api.TaskFailed && status.Reason == api.ReasonAgentFailed:
			if !strings.Contains(status.Message, "namespaces can't be made") {
				a.t.Errorf("%s has not started, and it is said: %s", status.Task, status.Message)
			}
			failed++
		case status.State != want || want == api.TaskFailed && (status.ExitCode == nil || *status.ExitCode != 3):
			a.t.Errorf("%s is %v (%s), want %v", status.Task, status.State, status.Message, want)
		}
		delete(ends, status.Task)
	}
	return failed
}

// killNowAndThen kills the spawner again and again, with pauses of different lengths, until over is closed. It returns
// how often it has killed one.
func killNowAndThen(r *rand.Rand, over <-chan struct{}) (kills int) {
	for {
		for range r.IntN(5000) {
			runtime.Gosched()
		}
		select {
		case <-over:
			return kills
		default:
		}
		kills += killSpawner()
	}
}

// killSpawner kills each child of this process that has the name of a helper and is in no task's cell. These are
// spawners, and helpers that have just been forked. A child is held by a pidfd before it is looked at, so that no other
// process with its number is killed. It has ended when this returns: until then it could be given the next order.
func killSpawner() (kills int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	own, _ := os.ReadFile("/proc/self/cgroup")
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				continue
			}
			held, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if string(name) == spaces.Helper+"\x00" && bytes.Equal(where, own) && unix.PidfdSendSignal(held, unix.SIGKILL, nil, 0) == nil {
				for waits := true; waits; {
					_, err := unix.Poll([]unix.PollFd{{Fd: int32(held), Events: unix.POLLIN}}, -1)
					waits = err == unix.EINTR
				}
				kills++
			}
			_ = unix.Close(held)
		}
	}
	return kills
}
