package secrets_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/internal/protocol"
)

// sandbox makes the sandbox of another user, in a folder whose mounts the test removes.
func sandbox(t *testing.T) (place beneath.Place, below string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount takes root")
	}
	below = t.TempDir()
	t.Cleanup(func() {
		if err := secrets.Sweep(below, func(string) bool { return false }); err != nil {
			t.Error(err)
		}
	})
	place = beneath.New(below).At(filepath.Join(below, "task"))
	root, err := place.Make(other, beneath.Private)
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	return place, below
}

// other is another user than the one who runs the test.
var other = entry.User{UID: 31337, GID: 31337}

func show(t *testing.T, place beneath.Place, name, value string) {
	t.Helper()
	err := secrets.Show(place, other, map[string]protocol.Hidden{name: []byte(value)})
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) {
		t.Skipf("this machine makes no such folders: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNothingStaysInMemory: a process that has its own mount of the folder, or a file of it open, finds nothing any
// more.
func TestNothingStaysInMemory(t *testing.T) {
	for name, hide := range map[string]func(beneath.Place, string) error{
		"at the task's end": func(place beneath.Place, _ string) error { return secrets.Hide(place) },
		"at an agent's new start": func(_ beneath.Place, below string) error {
			return secrets.Sweep(below, func(string) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			place, below := sandbox(t)
			show(t, place, "db", "hunter2")
			folder := filepath.Join(place.Path(), secrets.Folder)
			open, err := os.Open(filepath.Join(folder, "db"))
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			copied, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			other := os.NewFile(uintptr(copied), folder)
			defer other.Close()
			if err := hide(place, below); err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(open); err != nil || len(text) > 0 {
				t.Errorf("a file that is open holds %q, %v", text, err)
			}
			if names, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", copied)); err != nil || len(names) > 0 {
				t.Errorf("a copy of the mount holds %v, %v", names, err)
			}
		})
	}
}

// TestFilesAreInMemoryForTheirUser: the files can be read by the user alone, changed by nobody, and are gone once
// hidden.
func TestFilesAreInMemoryForTheirUser(t *testing.T) {
	place, _ := sandbox(t)
	show(t, place, "db", "hunter2")
	name := filepath.Join(place.Path(), secrets.Folder, "db")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if owner := entry.OwnerOf(info); info.Mode().Perm() != 0o400 || owner.UID != other.UID {
		t.Errorf("its mode is %v, and it is of %d", info.Mode(), owner.UID)
	}
	if folder, err := os.Stat(filepath.Dir(name)); err != nil || folder.Mode().Perm() != 0o500 || entry.OwnerOf(folder).UID != other.UID {
		t.Errorf("the folder is %v, %v", folder, err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "hunter2" {
		t.Errorf("it holds %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(name), "more"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a file beside it: %v", err)
	}
	show(t, place, "db", "hunter3") // an agent that was killed in between does it again
	if text, err := os.ReadFile(name); err != nil || string(text) != "hunter3" {
		t.Errorf("it holds %q, %v", text, err)
	}
	for range 2 { // the second time it does nothing
		if err := secrets.Hide(place); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestNothingIsMountedThroughALink: the sandbox belongs to the user, who may put anything in the place of the folder.
func TestNothingIsMountedThroughALink(t *testing.T) {
	place, below := sandbox(t)
	aside := filepath.Join(below, "aside")
	if err := errors.Join(os.Mkdir(aside, 0o700), os.Symlink(aside, filepath.Join(place.Path(), secrets.Folder))); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Show(place, other, map[string]protocol.Hidden{"db": []byte("hunter2")}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("it goes through a link: %v", err)
	}
	if entries, err := os.ReadDir(aside); err != nil || len(entries) > 0 {
		t.Errorf("aside there is %v, %v", entries, err)
	}
}

// TestWhatAnEarlierAgentHasLeftGoes: secrets folders of an earlier agent are removed, except in the known sandboxes.
func TestWhatAnEarlierAgentHasLeftGoes(t *testing.T) {
	place, below := sandbox(t)
	show(t, place, "db", "hunter2")
	name := filepath.Join(place.Path(), secrets.Folder, "db")
	if err := secrets.Sweep(below, func(known string) bool { return known == place.Path() }); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !secrets.Holds(file) {
		t.Error("it is not known as a secret")
	}
	plain, err := os.Open(place.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if secrets.Holds(plain) {
		t.Error("the sandbox itself is taken for a secret")
	}
	if err := secrets.Sweep(below, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestSecretsBesideForks: the folder can be made while other goroutines start programs. A child that is being forked
// has copies of all open files of its parent until it executes its program.
func TestSecretsBesideForks(t *testing.T) {
	place, _ := sandbox(t)
	show(t, place, "db", "hunter2")
	var forks sync.WaitGroup
	enough := make(chan struct{})
	for range 8 {
		forks.Go(func() {
			for {
				select {
				case <-enough:
					return
				default:
				}
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	files := make(map[string]protocol.Hidden)
	for i := range 8 {
		files[fmt.Sprintf("file-%d", i)] = []byte("hunter2")
	}
	failed := 0
	for range besideForks {
		if err := secrets.Show(place, other, files); err != nil {
			if failed++; failed == 1 {
				t.Error(err)
			}
		}
	}
	close(enough)
	forks.Wait()
	if failed > 0 {
		t.Errorf("%d of %d failed", failed, besideForks)
	}
}

// besideForks is how often the test makes the folder. Without the fork lock about one in ten fails.
const besideForks = 1000
