package spaces

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The threads that start helpers are used again: none is left in the walls of a task, and none is made anew for the
// next.
func TestThreadsComeHome(t *testing.T) {
	w := build(t, "exec sleep 1000")
	home, err := os.Readlink("/proc/" + strconv.Itoa(w.spawner.process) + "/ns/mnt") // nothing is being started
	walls, err2 := os.Readlink("/proc/" + strconv.Itoa(w.helper) + "/ns/mnt")
	if err := errors.Join(err, err2); err != nil || home == walls {
		t.Fatal(home, walls, err)
	}
	first := w.servants(home)
	if len(first) == 0 {
		t.Fatal("no thread has started the task")
	}
	for range 20 {
		helper, _ := w.start(0, "exit 0")
		w.await(helper)
	}
	now := w.servants(home)
	for thread := range first {
		if !now[thread] {
			t.Errorf("thread %s has ended", thread)
		}
	}
	if len(now) > 2 { // one that starts, and one that listens meanwhile
		t.Errorf("there are %d threads for one start after the other", len(now))
	}
	if err := syscall.Kill(w.helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(w.helper)
}

// servants returns those threads of the spawner that have given up the capabilities that no task has. All threads of
// the spawner must be in its own namespaces.
func (w *walled) servants(home string) map[string]bool {
	w.t.Helper()
	found := map[string]bool{}
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(w.spawner.process) + "/task/*")
	if err != nil || len(threads) == 0 {
		w.t.Fatal(threads, err)
	}
	for _, thread := range threads {
		where, err := os.Readlink(thread + "/ns/mnt")
		status, err2 := os.ReadFile(thread + "/status")
		switch {
		case errors.Join(err, err2) != nil:
			continue // it has ended
		case where != home:
			w.t.Errorf("%s is in %s, and not at home in %s", thread, where, home)
		case strings.Contains(string(status), "\nNoNewPrivs:\t1\n"):
			found[filepath.Base(thread)] = true
		}
	}
	return found
}

// A helper has hardly any of Go's memory, which would have to be copied for each helper, and released again.
func TestHelpersAreSmall(t *testing.T) {
	if !isLean {
		t.Skip("helpers have a copy of everything in this build")
	}
	w := build(t, "exec sleep 1000")
	kilobytes, own := w.heap(w.spawner.process), w.heap(w.helper)
	t.Logf("%d kB of the spawner, %d of the helper", kilobytes, own)
	if kilobytes < 512 || own > kilobytes/3 {
		t.Errorf("of %d kB of Go's memory the helper has %d", kilobytes, own)
	}
	if err := syscall.Kill(w.helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(w.helper)
}

// heap returns how many kB of private memory a process has, without files, and without the variables that follow those
// of its program's file.
func (w *walled) heap(pid int) (kilobytes int) {
	w.t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps")
	if err != nil {
		w.t.Fatal(err)
	}
	variables, counts := "", false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], ":") {
			from, to, _ := strings.Cut(fields[0], "-")
			file := len(fields) > 5
			counts = !file && from != variables
			if file {
				variables = to
			}
		}
		if counts && fields[0] == "Anonymous:" {
			size, err := strconv.Atoi(fields[1])
			if err != nil {
				w.t.Fatal(err)
			}
			kilobytes += size
		}
	}
	return kilobytes
}
