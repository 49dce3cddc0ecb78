package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/walls/entry"
)

// A plain sandbox is emptied and given to the next task of the same executor. One in which anything could matter to
// that task is not.
func TestSparesAreWhatNobodyCanHaveKept(t *testing.T) {
	stdout := func(sandbox string) string { return filepath.Join(sandbox, "stdout") }
	for _, c := range []struct {
		name  string
		kept  bool
		spoil func(t *testing.T, sandbox string) error
	}{
		{"as a task leaves it", true, func(*testing.T, string) error { return nil }},
		{"with one output", true, func(_ *testing.T, s string) error { return os.Remove(stdout(s)) }},
		{"with an empty /tmp", true, func(_ *testing.T, s string) error {
			return errors.Join(os.Mkdir(s+"/.tmp", 0o700), os.Chmod(s+"/.tmp", 0o777|fs.ModeSticky))
		}},
		{"something is in /tmp", false, func(_ *testing.T, s string) error {
			return errors.Join(os.Mkdir(s+"/.tmp", 0o700), os.Chmod(s+"/.tmp", 0o777|fs.ModeSticky), os.WriteFile(s+"/.tmp/x", nil, 0o600))
		}},
		{"a /tmp with a mode of its own", false, func(_ *testing.T, s string) error { return os.Mkdir(s+"/.tmp", 0o700) }},
		{"one more file", false, func(_ *testing.T, s string) error { return os.WriteFile(s+"/x", nil, 0o600) }},
		{"a folder of the name of an output", false, func(_ *testing.T, s string) error {
			return errors.Join(os.Remove(stdout(s)), os.Mkdir(stdout(s), 0o600))
		}},
		{"a link instead of an output", false, func(_ *testing.T, s string) error {
			return errors.Join(os.Remove(stdout(s)), os.Symlink(s+"/stderr", stdout(s)))
		}},
		{"a pipe instead of an output", false, func(_ *testing.T, s string) error {
			return errors.Join(os.Remove(stdout(s)), unix.Mkfifo(stdout(s), 0o600))
		}},
		{"an output with two names", false, func(t *testing.T, s string) error { return os.Link(stdout(s), filepath.Join(t.TempDir(), "kept")) }},
		{"an output that all may read", false, func(_ *testing.T, s string) error { return os.Chmod(stdout(s), 0o644) }},
		{"a sandbox that all may enter", false, func(_ *testing.T, s string) error { return os.Chmod(s, 0o755) }},
		{"an output with an attribute", false, func(t *testing.T, s string) error { return mark(t, stdout(s)) }},
		{"a sandbox with an attribute", false, func(t *testing.T, s string) error { return mark(t, s) }},
		{"an output that somebody reads", false, func(t *testing.T, s string) error { return hold(t, stdout(s), os.O_RDONLY) }},
		{"an output that somebody writes", false, func(t *testing.T, s string) error { return hold(t, stdout(s), os.O_WRONLY) }},
		{"a long output", false, func(_ *testing.T, s string) error { return os.Truncate(stdout(s), spareBytesMax+1) }},
		{"an output of another user", false, func(t *testing.T, s string) error {
			if os.Getuid() != 0 {
				t.Skip("only root gives files away")
			}
			return os.Chown(stdout(s), 4321, -1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSparesWorld(t)
			ended := w.make(t, "ended")
			if err := c.spoil(t, ended); err != nil {
				t.Fatal(err)
			}
			before := w.inode(t, ended)
			away, err := w.launcher.MoveAway(ended, false)
			if err != nil || (away == "") != c.kept {
				t.Fatalf("moved to %q, %v; kept should be %v", away, err, c.kept)
			}
			if _, err := os.Lstat(ended); !errors.Is(err, fs.ErrNotExist) {
				t.Error("its path is not free:", err)
			}
			next := w.prepare(t, "next")
			if got := w.inode(t, next) == before; got != c.kept {
				t.Errorf("the next task has the same folder: %v", got)
			}
			for _, name := range []string{"stdout", "stderr"} {
				if text, err := os.ReadFile(filepath.Join(next, name)); len(text) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the next task finds %q in %s, %v", text, name, err)
				}
			}
		})
	}
}

// No executor is given another one's spares, and they are deleted with their executor. A start that is repeated keeps
// its sandbox.
func TestSparesStayWithTheirExecutor(t *testing.T) {
	w := newSparesWorld(t)
	first, repeated := w.make(t, "first"), w.make(t, "repeated")
	was, stays := w.inode(t, first), w.inode(t, repeated)
	if away, err := w.launcher.MoveAway(first, false); away != "" || err != nil {
		t.Fatal(away, err)
	}
	if w.prepare(t, "repeated"); w.inode(t, repeated) != stays {
		t.Error("a start that was repeated has another sandbox")
	}
	if text, err := os.ReadFile(repeated + "/stdout"); err != nil || string(text) != "said" {
		t.Errorf("it lost what it said: %q, %v", text, err)
	}
	other := *w
	other.sandbox = filepath.Join(filepath.Dir(w.sandbox), "other")
	if w.inode(t, other.prepare(t, "x")) == was {
		t.Error("another executor was given it")
	}
	away, err := w.launcher.MoveAway(w.sandbox, false)
	if err != nil || away == "" {
		t.Fatal(away, err)
	}
	if err := w.launcher.Delete(away); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(w.launcher.Trash); err != nil || len(left) > 0 {
		t.Errorf("of an executor that is gone this is left: %v, %v", left, err)
	}
}

// A sandbox that no process can have open serves any executor, whoever its user was; so do the spares of an executor that
// is gone, if no process can have these open. (R82)
func TestFreeSparesServeAnyExecutor(t *testing.T) {
	w := newSparesWorld(t)
	first, second := w.make(t, "first"), w.make(t, "second")
	if os.Getuid() == 0 {
		for _, path := range []string{first + "/stdout", first + "/stderr", first} {
			if err := os.Chown(path, 4321, 4321); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := []uint64{w.inode(t, first), w.inode(t, second)}
	for _, removed := range []struct {
		path string
		free bool
	}{{second, false}, {first, true}, {w.sandbox, true}} {
		away, err := w.launcher.MoveAway(removed.path, removed.free)
		if err == nil && away != "" {
			err = w.launcher.Delete(away)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := *w
	other.sandbox = filepath.Join(filepath.Dir(w.sandbox), "other")
	other.prepare(t, "first")                 // it makes the folder of these
	for i, name := range []string{"x", "y"} { // the one that was put last is taken first
		next := other.prepare(t, name)
		if w.inode(t, next) != was[1-i] {
			t.Errorf("%s has a folder of its own", name)
		}
		for _, path := range []string{next, next + "/stdout", next + "/stderr"} {
			info, err := os.Stat(path)
			if err != nil || entry.OwnerOf(info).UID != os.Getuid() || info.Mode().Perm()&0o077 != 0 || !info.IsDir() && info.Size() > 0 {
				t.Errorf("%s is %+v, %v", path, info, err)
			}
		}
	}
	if next := other.prepare(t, "z"); slices.Contains(was, w.inode(t, next)) {
		t.Error("two tasks have one sandbox")
	}
}

// A spare of one user is not given to another one's task of the same executor: the former may have the folder open. (R60)
func TestSparesStayWithTheirUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	w := newSparesWorld(t)
	ended := w.make(t, "ended")
	for _, path := range []string{ended + "/stdout", ended + "/stderr", ended} {
		if err := os.Chown(path, 4321, 4321); err != nil {
			t.Fatal(err)
		}
	}
	was := w.inode(t, ended)
	if away, err := w.launcher.MoveAway(ended, false); away != "" || err != nil {
		t.Fatal(away, err)
	}
	if w.inode(t, w.prepare(t, "next")) == was {
		t.Error("the next task has the folder of another user's")
	}
}

// It does not matter if a spare was deleted, as by an agent that empties its trash when it starts.
func TestSparesMayBeGone(t *testing.T) {
	w := newSparesWorld(t)
	if away, err := w.launcher.MoveAway(w.make(t, "ended"), false); away != "" || err != nil {
		t.Fatal(away, err)
	}
	if err := os.RemoveAll(w.launcher.Trash); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(w.prepare(t, "next")); err != nil || !info.IsDir() {
		t.Errorf("the next task has no sandbox: %v, %v", info, err)
	}
}

// The number of spares is bounded, of one executor and in all. There is room again when one is taken.
func TestSparesAreBounded(t *testing.T) {
	var s spares
	fill := func(at home) (count int) {
		for s.hasRoom(at) {
			s.put(at, at.folder)
			count++
		}
		return count
	}
	if got := fill(home{"0", 1}); got != sparesOfOneMax {
		t.Errorf("%d of one executor", got)
	}
	if got := fill(anyHome); got != sparesOfAnyMax {
		t.Errorf("%d of any executor", got)
	}
	if s.take(home{"0", 1}); fill(home{"0", 1}) != 1 {
		t.Error("one that is taken makes no room for one")
	}
	sum := sparesOfOneMax + sparesOfAnyMax
	for i := range sparesMax {
		sum += fill(home{strconv.Itoa(i + 1), 1})
	}
	if sum != sparesMax {
		t.Errorf("%d in all", sum)
	}
}

// sparesWorld is a launcher with the folder of an executor.
type sparesWorld struct {
	launcher *Launcher
	sandbox  string
}

func newSparesWorld(t *testing.T) *sparesWorld {
	folder := t.TempDir()
	w := &sparesWorld{&Launcher{Trash: filepath.Join(folder, "trash")}, filepath.Join(folder, "sandboxes", "framework", "executor")}
	probe := w.make(t, "probe")
	file, err := os.OpenFile(probe+"/stdout", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("this file system tells nobody whether a file is open: %v", err)
	}
	return w
}

// prepare makes a task's sandbox, and returns its path.
func (w *sparesWorld) prepare(t *testing.T, task string) string {
	place := executor.Place{Sandbox: w.sandbox, Builtin: true, Task: filepath.Join(w.sandbox, "tasks", task)}
	if err := w.launcher.Prepare(t.Context(), place, nil); err != nil {
		t.Fatal(err)
	}
	return place.Task
}

// make makes a task's sandbox, and writes the files that a task writes.
func (w *sparesWorld) make(t *testing.T, task string) string {
	sandbox := w.prepare(t, task)
	for _, name := range []string{"stdout", "stderr"} {
		if err := os.WriteFile(filepath.Join(sandbox, name), []byte("said"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sandbox
}

func (w *sparesWorld) inode(t *testing.T, path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// mark gives a file an extended attribute, as an access list is one.
func mark(t *testing.T, path string) error {
	err := unix.Setxattr(path, "user.mark", []byte("x"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("this file system has no attributes of users")
	}
	return err
}

// hold keeps a file open until the test ends.
func hold(t *testing.T, path string, flag int) error {
	file, err := os.OpenFile(path, flag, 0)
	if err == nil {
		t.Cleanup(func() { file.Close() })
	}
	return err
}
