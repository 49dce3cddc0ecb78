package spaces

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// walled is a task for a test, with a sandbox in a folder.
type walled struct {
	t      *testing.T
	ends   *Ends
	view   View
	user   User
	helper *Started
}

// build builds walls for a line of a shell, which runs in them.
func build(t *testing.T, line string) *walled {
	t.Helper()
	folder := t.TempDir()
	sandbox := filepath.Join(folder, "sandbox")
	if err := os.Mkdir(sandbox, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &walled{t: t, view: View{Hidden: []string{folder}, Shown: []string{sandbox}, Temporary: sandbox}}
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces for tasks")
	}
	if err := Try(w.view); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	var err error
	if w.ends, err = OpenEnds(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.ends.Close(); err != nil {
			t.Error(err)
		}
	})
	w.helper, _ = w.start(0, line)
	return w
}

// start starts a line in walls of its own, or beside the helper of another one. What it writes comes from said.
func (w *walled) start(beside int, line string) (helper *Started, said *os.File) {
	w.t.Helper()
	said, says, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer says.Close()
	w.t.Cleanup(func() { said.Close() })
	helper, err = Start(&syscall.SysProcAttr{}, beside != 0, [3]uintptr{says.Fd(), says.Fd(), says.Fd()}, w.ends)
	if err == nil {
		err = helper.Finish(Order{View: w.view, User: w.user, Beside: beside, Path: "/bin/sh", Argv: []string{"sh", "-c", line}, Env: []string{"PATH=/usr/bin:/bin"}, Folder: "/"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return helper, said
}

// await waits for the end of a line.
func (w *walled) await(helper *Started) syscall.WaitStatus {
	w.t.Helper()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(helper.PID, &status, 0, nil)
		if err == nil {
			return w.ends.Of(helper.PID, status)
		}
		if !errors.Is(err, syscall.EINTR) {
			w.t.Fatal(err)
		}
	}
}

// What is started beside a task is in its walls, and is ended by a signal to its own helper, with what it has started.
func TestBeside(t *testing.T) {
	w := build(t, "echo $$ > /tmp/mark; exec sleep 1000")
	beside, said := w.start(w.helper.PID, "until test -s /tmp/mark; do sleep 0.01; done; cat /proc/$(cat /tmp/mark)/cmdline; exit 5")
	if text, err := io.ReadAll(said); err != nil || !strings.HasPrefix(string(text), "sleep\x00") {
		t.Errorf("%q, %v", text, err)
	}
	if status := w.await(beside); status.ExitStatus() != 5 {
		t.Errorf("it ended with %v", status)
	}
	beside, said = w.start(w.helper.PID, "trap '' TERM; sleep 1000; exit 0")
	if err := syscall.Kill(-beside.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(said); err != nil || len(text) > 0 { // until nobody holds the other end
		t.Errorf("%q, %v", text, err)
	}
	if status := w.await(beside); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", status)
	}
	if err := syscall.Kill(w.helper.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := w.await(w.helper); !status.Signaled() {
		t.Errorf("the task ended with %v", status)
	}
}

// What is orphaned in a task is waited for, and dies with it.
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
	elsewhere, err := os.MkdirTemp("/var/lib", "tender-test-") // what is in /tmp is not seen anyway
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
