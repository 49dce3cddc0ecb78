package inside

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/testing/machine"
	"github.com/tenderhq/tender/internal/testing/oci"
)

// A command for a task with namespaces enters the namespaces of the task's own program, not those of its helper.
func TestACommandEntersNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces for tasks")
	}
	sandbox := t.TempDir()
	for path := sandbox; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(sandbox, 71234, 71234); err != nil {
		t.Fatal(err)
	}
	view := spaces.View{Hidden: []string{filepath.Dir(sandbox)}, Shown: []string{sandbox}, Temporary: sandbox}
	machine.GivesNamespaces(t, spaces.Try(spaces.View{Temporary: t.TempDir()}))
	one := helped(t, sandbox, spaces.Order{
		View: view, Path: "/bin/sleep", Argv: []string{"sleep", "54321"}, Folder: sandbox, User: spaces.User{UID: 71234, GID: 71234},
		Env: []string{"PATH=/usr/bin:/bin", "OF_THE_TASK=a b", "TENDER_TASK_SANDBOX=" + sandbox},
	})
	c := one.run(t, shell("pwd; id -u; echo $OF_THE_TASK; touch /tmp/here; cat /proc/*/cmdline | tr '\\0' ' '; grep CapBnd /proc/self/status"))
	if end := c.end(); end != (frames.End{}) {
		t.Errorf("%+v, %q", end, c.err.String())
	}
	if got := c.out.String(); !strings.HasPrefix(got, sandbox+"\n71234\na b\n"+spaces.Helper+" ") || !strings.Contains(got, " sleep 54321 ") || !strings.HasSuffix(got, "CapBnd:\t0000000000000000\n") {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(sandbox, ".tmp", "here")); err != nil {
		t.Error(err)
	}
}

// A command for a task that is denied system calls is denied them too. A filter that a task has given itself can't be
// given to a command.
func TestACommandIsDeniedWhatItsTaskIs(t *testing.T) {
	machine.GivesNamespaces(t, spaces.Try(spaces.View{Temporary: t.TempDir()}))
	if err := calls.Try(); err != nil {
		t.Skipf("no filters here: %v", err)
	}
	sandbox := t.TempDir()
	order := spaces.Order{
		View: spaces.View{Shown: []string{sandbox}, Temporary: sandbox}, Path: "/bin/sleep", Argv: []string{"sleep", "54321"}, Folder: "/", Deny: true,
		Env: []string{"PATH=/usr/bin:/bin", "TENDER_TASK_SANDBOX=" + sandbox},
	}
	c := helped(t, sandbox, order).run(t, shell("grep -h Seccomp: /proc/1/status /proc/self/status; unshare -U true 2> /dev/null || echo denied"))
	if end := c.end(); end != (frames.End{}) || c.out.String() != "Seccomp:\t2\nSeccomp:\t2\ndenied\n" {
		t.Errorf("%+v, %q, %q", end, c.out.String(), c.err.String())
	}
	order.Deny = false
	one := helped(t, sandbox, order)
	e := &Entry{Target: one.process}
	if err := e.readFilters(one.process.PID); err != nil || e.Deny {
		t.Errorf("a task without filters: %v, %v", e.Deny, err)
	}
	filtered := startFiltered(t)
	e = &Entry{Target: filtered}
	if err := e.readFilters(one.process.PID); err == nil || e.Deny {
		t.Errorf("a task with a filter of its own: %v, %v", e.Deny, err)
	}
	if err := e.readFilters(filtered.PID); err == nil || e.Deny {
		t.Errorf("a task without a helper, with a filter of its own: %v, %v", e.Deny, err)
	}
}

// startFiltered starts a process with a filter; the test ends it.
func startFiltered(t *testing.T) core.Process {
	t.Helper()
	child := exec.Command("/bin/sleep", "54321")
	err := entry.Start(func() error {
		if err := calls.Deny(); err != nil {
			return err
		}
		return child.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	stat, err := proc.Read(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return core.Process{PID: stat.PID, Start: stat.Start}
}

// helped starts a task with a helper; the test ends it.
func helped(t *testing.T, sandbox string, order spaces.Order) *task {
	t.Helper()
	spawner, err := spaces.OpenSpawner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spawner.Forget(); err != nil {
			t.Error(err)
		}
	})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	helper, err := spawner.Start(order, [3]uintptr{null.Fd(), null.Fd(), null.Fd()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(helper, syscall.SIGKILL)
		_, _ = syscall.Wait4(helper, nil, 0, nil)
	})
	stat, err := proc.Read(helper)
	if err != nil {
		t.Fatal(err)
	}
	return &task{process: core.Process{PID: stat.PID, Start: stat.Start}, sandbox: sandbox}
}

// A command for a task in an image enters the image, begins in the sandbox at the path that it has there, and finds the
// image's programs.
func TestACommandEntersAnImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces for tasks")
	}
	sandbox := t.TempDir()
	if err := os.Chown(sandbox, 71234, 71234); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"root", "upper", "work", "layer"} {
		if err := os.Mkdir(filepath.Join(own, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	layer := filepath.Join(own, "layer")
	for _, file := range oci.Programs(t, "sh", "cat", "id", "sleep") {
		path := filepath.Join(layer, file.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		if err := os.WriteFile(path, []byte(file.Content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := &spaces.Root{Folder: own, Layers: []string{layer}, Begin: "/", Shown: []spaces.Shown{{From: sandbox, At: "/sandbox"}}}
	if err := spaces.Try(spaces.View{Root: root}); err != nil {
		t.Skipf("no images here: %v", err)
	}
	for _, name := range []string{"upper", "work"} { // a layer that is never synced to the disk is mounted once
		folder := filepath.Join(own, name)
		if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	one := helped(t, sandbox, spaces.Order{
		View: spaces.View{Root: root}, Find: true, Argv: []string{"sleep", "54321"}, Folder: "/", User: spaces.User{UID: 71234, GID: 71234},
		Env: []string{"PATH=/bin", "TENDER_TASK_SANDBOX=/sandbox"},
	})
	c := one.run(t, shell("pwd; id -u; echo mine > mark; cat /proc/1/comm; test -e "+sandbox+" || echo nothing"))
	if end := c.end(); end != (frames.End{}) {
		t.Errorf("%+v, %q", end, c.err.String())
	}
	if got := c.out.String(); got != "/sandbox\n71234\n"+spaces.Helper+"\nnothing\n" {
		t.Errorf("%q", got)
	}
	if text, err := os.ReadFile(filepath.Join(sandbox, "mark")); err != nil || string(text) != "mine\n" {
		t.Errorf("%q, %v", text, err)
	}
}
