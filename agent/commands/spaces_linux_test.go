package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/machine"
	"github.com/tenderhq/tender/internal/testing/mounts"
)

// spaced runs a test with an executor whose tasks have cells and namespaces. At its end all that tasks have mounted and
// started must be gone.
func spaced(t *testing.T, test func(a *agent, around cell.Cell)) {
	t.Helper()
	spacedIn(t, t.TempDir(), test)
}

// spacedIn does what spaced does, with hidden as the agent's folder.
func spacedIn(t *testing.T, hidden string, test func(a *agent, around cell.Cell)) {
	t.Helper()
	machine.GivesNamespaces(t, spaces.Try(spaces.View{Hidden: []string{hidden}, Shown: []string{hidden}, Temporary: hidden}))
	tree := cell.Open(cell.Place{Folder: t.TempDir()})
	around := tree.Executor("framework-1", "command")
	endAfterExecutor(t, tree, around)
	if !tree.Makes {
		t.Skip(tree.Lacks)
	}
	if err := around.MakeParent(); err != nil {
		t.Fatal(err)
	}
	mounted := mounts.List(t, hidden)
	a := startTold(t, cell.Handout{
		Cell: around, Rules: cell.Rules{PidsMax: 100}, Spaces: true, Hidden: []string{hidden}, Volumes: filepath.Join(hidden, "volumes"),
	}.String())
	a.folder = hidden
	test(a, around)
	if left := tasksIn(around); len(left) > 0 {
		t.Errorf("cells are left: %v", left)
	}
	mounts.Check(t, hidden, mounted)
}

// TestKillSignalInSpaces: the helper of a task in namespaces sends the signal that the task names.
func TestKillSignalInSpaces(t *testing.T) {
	spaced(t, func(a *agent, _ cell.Cell) { endsBySIGINT(t, a) })
}

// own gives the sandbox of a task to a user.
func (a *agent) own(id api.TaskID, user int) {
	a.t.Helper()
	sandbox := a.sandbox(id)
	for path := sandbox; strings.Contains(path, filepath.Base(a.folder)); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o711); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := os.Chown(sandbox, user, user); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Chmod(sandbox, 0o700); err != nil {
		a.t.Fatal(err)
	}
}

// A task sees only its own processes, its own /tmp, and in the agent's folder only its own sandbox and volumes. No
// other path leads to those of its neighbour, whatever user it runs as.
func TestATaskSeesOnlyItsOwn(t *testing.T) {
	folder, err := os.MkdirTemp("/var/lib", "tender-test-") // what is in /tmp is hidden anyway
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	spacedIn(t, folder, func(a *agent, _ cell.Cell) {
		secret := filepath.Join(a.folder, "identity")
		if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, volume := range []string{"v1", "v2"} {
			kept := filepath.Join(a.folder, "volumes", volume, "kept")
			if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		disk := api.NewResources(api.Resource{Label: api.Label{Name: "disk", Reserved: "eng", Volume: "v2"}, Scalar: 1000})
		for _, user := range []int{0, 71234} {
			neighbour, id := api.TaskID(fmt.Sprintf("neighbour%d", user)), api.TaskID(fmt.Sprintf("t%d", user))
			a.own(neighbour, user)
			a.own(id, user)
			a.launch(api.Task{ID: neighbour, Command: &api.Command{Shell: "echo mine > /tmp/mark; exec sleep 54321", Env: map[string]string{"SECRET": "x"}}})
			running := a.want(neighbour, api.TaskRunning)
			a.await(neighbour, ".tmp/mark")
			line := fmt.Sprintf(`
				look() { "$@" > /dev/null 2>&1 && echo "can: $*"; }
				cat /proc/*/environ | tr '\0' '\n' | grep SECRET
				cat /proc/*/cmdline | tr '\0' ' ' | grep -o 'sleep 5432[1]'
				look cat %[1]s; look ls %[2]s; look cat %[2]s/stdout; look kill -0 %[3]d; look ls /proc/%[3]d; look cat /tmp/mark
				look umount /proc; look mount -t tmpfs none /mnt; look mknod /tmp/disk b 8 0; look sh -c 'echo 1 > /proc/sys/vm/drop_caches'
				look mkdir /sys/fs/cgroup/pids/x; look touch %[4]s/new; look cat $TENDER_TASK_SANDBOX/../volumes/v1/kept
				look touch /tmp/new; look touch $TENDER_TASK_SANDBOX/new; look cat $TENDER_TASK_SANDBOX/../volumes/v2/kept
				id -u; cat /proc/self/status | grep -E 'NoNewPrivs|CapEff'`,
				secret, filepath.Join(a.folder, string(neighbour)), running.ProcessGroup, a.folder)
			task := api.Task{ID: id, Resources: disk, Command: &api.Command{Shell: line}}
			a.launch(task)
			a.want(id, api.TaskRunning)
			a.want(id, api.TaskFinished)
			got, want := a.read(id, "stdout"), "can: touch /tmp/new\ncan: touch "+filepath.Join(a.folder, string(id))+"/new\n"+
				"can: cat "+filepath.Join(a.folder, string(id))+"/../volumes/v2/kept\n"+strconv.Itoa(user)+"\nCapEff:\t"+map[int]string{0: "00000000000004fb", 71234: "0000000000000000"}[user]+"\nNoNewPrivs:\t1"
			if got != want {
				t.Errorf("user %d:\n%s\nwant\n%s\nstderr: %s", user, got, want, a.read(id, "stderr"))
			}
			a.send(protocol.ExecutorKill{Task: neighbour, Grace: time.Hour})
			a.want(neighbour, api.TaskKilled)
		}
	})
}

// The status of a program's end says how it ended: by an exit code, by a signal, or because the kernel refused it.
func TestEndsInNamespaces(t *testing.T) {
	spaced(t, func(a *agent, _ cell.Cell) {
		for i, one := range [][2]string{
			{"exit 3", "exited with 3"}, {"exit 137", "exited with 137"}, {"kill -9 $$", "ended by signal 9 (killed)"}, {"kill -SEGV $$", "ended by signal 11 (segmentation fault)"},
		} {
			id := api.TaskID("ends" + strconv.Itoa(i))
			a.shell(id, one[0])
			a.want(id, api.TaskRunning)
			if failed := a.want(id, api.TaskFailed); failed.Message != one[1] {
				t.Errorf("%s: %s", one[0], failed.Message)
			}
		}
		a.launch(api.Task{ID: "none", Command: &api.Command{Argv: []string{"/no/such/program"}}})
		if failed := a.want("none", api.TaskFailed); failed.Reason != api.ReasonLaunchFailed || !strings.HasPrefix(failed.Message, "/no/such/program: no such file") {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
		if err := os.Symlink("/etc", filepath.Join(a.sandbox("trap"), ".tmp")); err != nil {
			t.Fatal(err)
		}
		a.shell("trap", "touch /tmp/here")
		if failed := a.want("trap", api.TaskFailed); !strings.HasPrefix(failed.Message, "its namespaces can't be made: ") {
			t.Errorf("%v: %s", failed.Reason, failed.Message)
		}
	})
}

// Signals reach the program and its process group. A program that ignores them is killed when its grace is over.
// Nothing that it has started is left, whatever that has done to hide.
func TestSignalsInNamespaces(t *testing.T) {
	spaced(t, func(a *agent, around cell.Cell) {
		a.shell("polite", "trap 'echo bye; exit 0' TERM; touch up; while :; do sleep 0.01; done")
		a.want("polite", api.TaskRunning)
		a.await("polite", "up")
		a.send(protocol.ExecutorKill{Task: "polite", Grace: time.Hour})
		a.want("polite", api.TaskKilled)
		if said := a.read("polite", "stdout"); said != "bye" {
			t.Errorf("it said %q", said)
		}
		a.shell("deaf", `trap '' TERM; env -i /usr/bin/setsid /bin/sh -c 'trap "" TERM HUP; sleep 1000 & touch up; wait' & until test -e up; do sleep 0.01; done; sleep 1000`)
		running := a.want("deaf", api.TaskRunning)
		a.await("deaf", "up")
		if pid := spaces.ProgramOf(running.ProcessGroup); pid == running.ProcessGroup {
			t.Errorf("the program of helper %d is not found", pid)
		}
		a.send(protocol.ExecutorKill{Task: "deaf", Grace: time.Millisecond})
		a.want("deaf", api.TaskKilled)
		if populated, err := around.Populated(); populated || err != nil {
			t.Errorf("something is left: %v", err)
		}
	})
}

// Hostile tasks end as they do without namespaces, with the same reasons, and nothing of them is left. Their neighbour
// is not touched.
func TestHostileTasksInNamespaces(t *testing.T) {
	spaced(t, func(a *agent, around cell.Cell) {
		a.shell("neighbour", "trap 'exit 0' TERM; touch up; while :; do sleep 0.01; done")
		a.want("neighbour", api.TaskRunning)
		a.await("neighbour", "up")
		const deaf = `trap "" TERM HUP INT; `
		for _, one := range []struct {
			id, line string
			state    api.TaskState
			reason   api.Reason
		}{
			{"hungry", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit 5", api.TaskFailed, api.ReasonMemoryLimit},
			{"half", "sleep 1000 & dd if=/dev/zero of=/dev/null bs=200M count=1; exec sleep 1000", api.TaskFailed, api.ReasonMemoryLimit},
			{"counts", "for i in $(seq 200); do sleep 1000 & done; exit 3", api.TaskFailed, api.ReasonPidsLimit},
			{"spreads", deaf + `touch up; while :; do (setsid sh -c '(` + deaf + `exec sleep 1000 &)' &); sleep 0.01; done`, api.TaskKilled, api.ReasonNone},
			{"ends helper", deaf + `touch up; while :; do kill -9 1; kill -TERM 1; sleep 0.01; done 2>/dev/null`, api.TaskKilled, api.ReasonNone},
		} {
			id := api.TaskID(strings.ReplaceAll(one.id, " ", "-"))
			a.launch(sized(id, one.line))
			a.want(id, api.TaskRunning)
			if one.state == api.TaskKilled {
				a.await(id, "up")
				a.send(protocol.ExecutorKill{Task: id, Grace: 200 * time.Millisecond})
			}
			if ended := a.want(id, one.state); ended.Reason != one.reason {
				t.Errorf("%s: %v %s", one.id, ended.Reason, ended.Message)
			}
			if left := tasksIn(around); len(left) != 1 || left[0] != cell.TaskName("neighbour") {
				t.Errorf("after the end of %s there are %v", one.id, left)
			}
		}
		a.send(protocol.ExecutorKill{Task: "neighbour", Grace: time.Hour})
		a.want("neighbour", api.TaskKilled)
	})
}

// Checks run in the namespaces of their task, and end with all that they have started.
func TestChecksInNamespaces(t *testing.T) {
	spaced(t, func(a *agent, around cell.Cell) {
		a.own("t1", 71234)
		look := api.Command{Shell: "grep -aqs ^sleep /proc/[0-9]*/cmdline || exit 1; id -u > /tmp/look; cat /proc/*/cmdline | tr '\\0' ' ' >> /tmp/look; mv /tmp/look /tmp/looked; sleep 4321"}
		a.launch(api.Task{
			ID: "t1", Command: &api.Command{Shell: "exec sleep 54321"},
			Checks: []api.Check{{Readiness: true, Command: &look, Interval: 100 * time.Millisecond, Timeout: time.Second, Failures: 1000}},
		})
		running := a.want("t1", api.TaskRunning)
		a.await("t1", ".tmp/looked")
		if said := a.read("t1", ".tmp/looked"); !strings.HasPrefix(said, "71234\n") || !strings.Contains(said, "sleep 54321") {
			t.Errorf("the check saw %q", said)
		}
		if running.ProcessGroup == 0 {
			t.Error("no process stands for the task")
		}
		a.send(protocol.ExecutorKill{Task: "t1", Grace: time.Hour})
		ended := a.next("t1")
		for ended.State == api.TaskRunning { // a check was made before the task had begun, or took too long
			ended = a.next("t1")
		}
		if ended.State != api.TaskKilled {
			t.Errorf("it is %v (%s)", ended.State, ended.Message)
		}
	})
}

// BenchmarkTasksInSpaces is BenchmarkTasks with a cell and namespaces for each task. The difference is the cost of
// these.
func BenchmarkTasksInSpaces(b *testing.B) {
	tree := cell.Open(cell.Place{Folder: b.TempDir()})
	around := tree.Executor("framework-1", "command")
	if !tree.Makes || os.Geteuid() != 0 {
		b.Skip(tree.Lacks)
	}
	b.Cleanup(func() {
		if err := tree.Root.End(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := around.MakeParent(); err != nil {
		b.Fatal(err)
	}
	benchmarkTasks(b, startTold(b, cell.Handout{Cell: around, Rules: cell.Rules{PidsMax: 4096}, Spaces: true}.String()))
}
