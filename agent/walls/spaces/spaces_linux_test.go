package spaces

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/internal/testing/machine"
)

// walled is a task for a test, with its sandbox, in walls.
type walled struct {
	t       *testing.T
	spawner *Spawner
	view    View
	user    User
	helper  int
}

// build starts a line of a shell in new walls.
func build(t *testing.T, line string) *walled {
	t.Helper()
	folder := t.TempDir()
	sandbox := filepath.Join(folder, "sandbox")
	if err := os.Mkdir(sandbox, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &walled{t: t, view: View{Hidden: []string{folder}, Shown: []string{sandbox}, Temporary: sandbox}}
	machine.GivesNamespaces(t, Try(w.view))
	var err error
	if w.spawner, err = OpenSpawner(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.spawner.Forget(), await(w.spawner.process)); err != nil {
			t.Error(err)
		}
	})
	w.helper, _ = w.start(0, line)
	return w
}

// start starts a line of a shell in walls of its own, or beside the task of another helper. said is the read end of the
// pipe that the line writes to.
func (w *walled) start(beside int, line string) (helper int, said *os.File) {
	w.t.Helper()
	said, says, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer says.Close()
	w.t.Cleanup(func() { said.Close() })
	order := Order{View: w.view, User: w.user, Beside: beside, Path: "/bin/sh", Argv: []string{"sh", "-c", line}, Env: []string{"PATH=/usr/bin:/bin"}, Folder: "/"}
	helper, err = w.spawner.Start(order, [3]uintptr{says.Fd(), says.Fd(), says.Fd()})
	if err != nil {
		w.t.Fatal(err)
	}
	return helper, said
}

// await waits for the end of a line, and returns its wait status.
func (w *walled) await(helper int) syscall.WaitStatus {
	w.t.Helper()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(helper, &status, 0, nil)
		if err == nil {
			return w.spawner.Ended(helper, status)
		}
		if !errors.Is(err, syscall.EINTR) {
			w.t.Fatal(err)
		}
	}
}

// A program that is started beside a task is in the task's walls. A signal to the program's own helper ends it, with
// all that it has started.
func TestBeside(t *testing.T) {
	w := build(t, "echo $$ > /tmp/mark; exec sleep 1000")
	beside, said := w.start(w.helper, `until test -s /tmp/mark; do sleep 0.01; done; program=$(cat /tmp/mark)
		until test "$(head -c 5 /proc/$program/cmdline)" = sleep; do sleep 0.01; done; cat /proc/$program/cmdline; exit 5`)
	if text, err := io.ReadAll(said); err != nil || !strings.HasPrefix(string(text), "sleep\x00") {
		t.Errorf("%q, %v", text, err)
	}
	if status := w.await(beside); status.ExitStatus() != 5 {
		t.Errorf("it ended with %v", status)
	}
	beside, said = w.start(w.helper, "trap '' TERM; sleep 1000; exit 0")
	if err := syscall.Kill(-beside, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(said); err != nil || len(text) > 0 { // it ends when no process holds the other end any more
		t.Errorf("%q, %v", text, err)
	}
	if status := w.await(beside); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", status)
	}
	if err := syscall.Kill(w.helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := w.await(w.helper); !status.Signaled() {
		t.Errorf("the task ended with %v", status)
	}
}

// Orphaned processes of a task are reaped, and are killed when the task ends.
func TestOrphansEndWithTheirTask(t *testing.T) {
	w := build(t, "exit 0")
	if status := w.await(w.helper); status != 0 {
		t.Errorf("%v", status)
	}
	helper, said := w.start(0, `for i in 1 2 3; do (setsid sleep 0 &) ; done; (setsid sh -c 'trap "" TERM HUP; sleep 1000' &)
		until test $(grep -ls '^State:.Z' /proc/[0-9]*/status | wc -l) = 0; do sleep 0.01; done; exit 7`)
	if status := w.await(helper); status.ExitStatus() != 7 {
		t.Errorf("%v", status)
	}
	if text, err := io.ReadAll(said); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// With a read-only root a task writes to what is shown to it and to what is its own, and nowhere else.
func TestReadOnlyRoot(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	elsewhere, err := os.MkdirTemp("/var/lib", "tender-test-") // not in /tmp, which a task does not see anyway
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(elsewhere); err != nil {
			t.Error(err)
		}
	})
	shown, other := filepath.Join(elsewhere, "shown"), filepath.Join(elsewhere, "other")
	if err := errors.Join(os.Mkdir(shown, 0o777), os.Mkdir(other, 0o777)); err != nil {
		t.Fatal(err)
	}
	w.view.ReadOnly, w.view.Shown = true, append(w.view.Shown, shown)
	line := "for folder in " + w.view.Temporary + " /tmp /var/tmp /dev /dev/shm " + shown + " " + other + ` /var/lib /usr/bin / /proc /sys; do
		(echo new > $folder/new) 2> /dev/null && echo $folder; done; echo lost > /dev/null; mount -o remount,rw / 2> /dev/null || echo stays`
	_, said := w.start(0, line)
	text, err := io.ReadAll(said)
	if want := w.view.Temporary + "\n/tmp\n/var/tmp\n/dev\n/dev/shm\n" + shown + "\nstays\n"; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(other, "new"), nil, 0o600); err != nil {
		t.Errorf("it is read-only outside: %v", err)
	}
}

// Walls that can't be built start nothing, and say why.
func TestWhatCannotBeShown(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	missing := filepath.Join(t.TempDir(), "missing")
	err := Try(View{Shown: []string{missing}, Temporary: w.view.Temporary})
	if err == nil || err.Error() != missing+" can't be shown: no such file or directory" {
		t.Errorf("%v", err)
	}
	trap := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(trap, ".tmp")); err != nil {
		t.Fatal(err)
	}
	if err := Try(View{Temporary: trap}); err == nil || !strings.HasPrefix(err.Error(), trap+"/.tmp can't be made: ") {
		t.Errorf("%v", err)
	}
}

// A spawner whose process was killed starts another one. Its helpers live on, and how their programs end is still told.
func TestASpawnerThatWasKilled(t *testing.T) {
	w := build(t, "sleep 1000; exit 4")
	if err := syscall.Kill(w.spawner.process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := await(w.spawner.process); err != nil {
		t.Fatal(err)
	}
	next, said := w.start(0, "echo next; exit 3")
	if text, err := io.ReadAll(said); err != nil || string(text) != "next\n" {
		t.Errorf("%q, %v", text, err)
	}
	if status := w.await(next); status.ExitStatus() != 3 {
		t.Errorf("the next one ended with %v", status)
	}
	if err := syscall.Kill(w.helper, syscall.SIGTERM); err != nil { // the shell ends, and its child with the walls
		t.Fatal(err)
	}
	if status := w.await(w.helper); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the first one ended with %v", status)
	}
}

// Helpers that are started at the same time do not inherit each other's files: the pipe that a program writes to ends
// with the program, while others still live.
func TestManyAtOnce(t *testing.T) {
	w := build(t, "exec sleep 1000")
	const count = 20
	var starts sync.WaitGroup
	helpers := make([]int, count)
	for i := range count {
		starts.Go(func() {
			helper, said := w.start(0, "echo $$ in $(ls /proc | grep -c '^[0-9]'); exit "+strconv.Itoa(i))
			text, err := io.ReadAll(said)
			if err != nil || !strings.HasPrefix(string(text), "2 in ") {
				t.Errorf("%q, %v", text, err)
			}
			helpers[i] = helper
		})
	}
	starts.Wait()
	for i, helper := range helpers {
		if status := w.await(helper); status.ExitStatus() != i {
			t.Errorf("%d ended with %v", i, status)
		}
	}
	if err := syscall.Kill(w.helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(w.helper)
}

// No process of a task can look into the task's helper, not even one of root.
func TestNobodyLooksIntoAHelper(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	_, said := w.start(0, `cat /proc/1/comm; for name in mem environ maps fd/4 root cwd; do
		head -c 1 /proc/1/$name > /dev/null 2>&1 || ls /proc/1/$name/ > /dev/null 2>&1 && echo "can see $name"; done; kill -9 1; echo lives`)
	if text, err := io.ReadAll(said); err != nil || string(text) != Helper+"\nlives\n" {
		t.Errorf("%s, %v", text, err)
	}
}

// A program is not started when one of its control groups is missing.
func TestAControlGroupThatIsMissing(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	missing := filepath.Join(t.TempDir(), "tasks")
	for _, order := range []Order{{Join: []string{missing}}, {Born: missing}} {
		order.View = w.view
		want := "its control group can't be entered: open " + missing + ": no such file or directory"
		if pid, err := w.spawner.Start(order, [3]uintptr{0, 1, 2}); pid != 0 || err == nil || err.Error() != want {
			t.Errorf("%d, %v", pid, err)
		}
	}
	if pid, err := w.spawner.Start(Order{View: w.view, Join: []string{"/dev/full"}}, [3]uintptr{0, 1, 2}); err == nil ||
		err.Error() != "its control group can't be entered: no space left on device" {
		t.Errorf("%d, %v", pid, err)
	} else {
		w.await(pid)
	}
}
