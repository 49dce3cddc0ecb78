package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a task has mounted into its sandbox and left there stays as it is: a file system of its own, a folder of the
// same file system, a single file. All else is deleted.
func TestDeleteStopsAtMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	folder := t.TempDir()
	l := &Launcher{Trash: filepath.Join(folder, "trash")}
	path, treasure := filepath.Join(folder, "sandbox"), filepath.Join(folder, "treasure")
	for _, name := range []string{path + "/tmpfs", path + "/bound/deep/in", path + "/other", treasure} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{treasure + "/gold", path + "/file", path + "/other/goes"} {
		if err := os.WriteFile(name, []byte("gold"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	away := path
	mount := func(source, name, kind string, flags uintptr) {
		if err := unix.Mount(source, filepath.Join(path, name), kind, flags, ""); err != nil {
			t.Skipf("this machine mounts nothing for us: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(filepath.Join(away, name), unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	mount("tmpfs", "tmpfs", "tmpfs", 0)
	if err := os.WriteFile(path+"/tmpfs/gold", []byte("gold"), 0o600); err != nil {
		t.Fatal(err)
	}
	mount(treasure, "bound/deep/in", "", unix.MS_BIND)
	mount(treasure+"/gold", "file", "", unix.MS_BIND)

	moved, err := l.MoveAway(path, false)
	if err != nil {
		t.Fatal(err)
	}
	away = filepath.Join(moved, "sandbox")
	if err := l.Delete(moved); !errors.Is(err, errMounted) || strings.Count(err.Error(), "something is mounted") != 3 {
		t.Errorf("%v", err)
	}
	for _, name := range []string{treasure + "/gold", away + "/tmpfs/gold", away + "/bound/deep/in/gold", away + "/file"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != "gold" {
			t.Errorf("%q, %v", text, err)
		}
	}
	if _, err := os.Stat(away + "/other"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not mounted: %v", err)
	}
	if parent, err := os.Open(away); err != nil {
		t.Error(err)
	} else if _, err := openOlder(parent, "tmpfs"); !errors.Is(err, errMounted) {
		t.Errorf("on an older kernel: %v", err)
	}
}
