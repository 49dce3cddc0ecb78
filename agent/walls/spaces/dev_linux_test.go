package spaces

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// A task has the devices that every program may expect, and none of the machine's others. What it writes into shared
// memory is its own.
func TestDevices(t *testing.T) {
	w := build(t, "echo mine > /dev/shm/mark; exec sleep 1000")
	_, said := w.start(0, `ls /dev | tr '\n' ' '; cd /dev; head -qc 4 zero random urandom full | wc -c; echo lost > null; echo lost 2>&- > full || echo full is full
		echo to stdout > stdout; test -e tty && test -c ptmx && test ! -e shm/mark && echo own > shm/mark && cat shm/mark; ls pts mqueue; umask 000; touch new || exit 1; rm new`)
	text, err := io.ReadAll(said)
	const want = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero 16\n" +
		"full is full\nto stdout\nown\nmqueue:\n\npts:\nptmx\n"
	if err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if err := unix.Kill(w.helper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(w.helper)
}

// A task has terminals of its own, whatever user it runs as.
func TestTerminals(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("this machine lacks script, which opens a terminal")
	}
	for _, user := range []User{{}, {UID: 71234, GID: 71234}} {
		w := build(t, "exit 0")
		w.await(w.helper)
		w.user = user
		if err := os.RemoveAll(filepath.Join(w.view.Temporary, ".tmp")); err != nil { // the folder belongs to root since the run before
			t.Fatal(err)
		}
		_, said := w.start(0, "exec script -qec 'tty; exec echo seen > /dev/tty' /dev/null < /dev/null")
		if text, err := io.ReadAll(said); err != nil || string(text) != "/dev/pts/0\r\nseen\r\n" {
			t.Errorf("%+v: %q, %v", user, text, err)
		}
	}
}

// An agent whose folder lies in the machine's shared memory shows a task its sandbox there, and nothing else.
func TestASandboxInSharedMemory(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	folder, err := os.MkdirTemp("/dev/shm", "tender-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	sandbox := filepath.Join(folder, "sandbox")
	if err := os.Mkdir(sandbox, 0o700); err != nil {
		t.Fatal(err)
	}
	w.view = View{Hidden: []string{folder}, Shown: []string{sandbox}, Temporary: sandbox}
	_, said := w.start(0, "cd "+folder+"; ls . /dev/shm; echo mine > sandbox/mark; echo yours > /tmp/mark; cat sandbox/.tmp/mark")
	text, err := io.ReadAll(said)
	if want := ".:\nsandbox\n\n/dev/shm:\n" + filepath.Base(folder) + "\nyours\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if kept, err := os.ReadFile(filepath.Join(sandbox, "mark")); err != nil || string(kept) != "mine\n" {
		t.Errorf("%q, %v", kept, err)
	}
}

// Links of an image are not followed: where its /dev is a link, nothing is built at what the link leads to.
func TestDevBelowARoot(t *testing.T) {
	w := build(t, "exit 0") // skips the test where there are no namespaces
	w.await(w.helper)
	root, elsewhere := t.TempDir(), t.TempDir()
	trap := filepath.Join(root, "trap")
	if err := os.Mkdir(trap, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(trap, "dev")); err != nil {
		t.Fatal(err)
	}
	entry.OnThread(func() (asBefore bool) { // the thread ends, and its mounts with it
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			t.Error(err)
			return false
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return false
		}
		if err := buildDev(root); err != nil {
			t.Error(err)
		}
		if err := buildDev(trap); err == nil || err.Error() != trap+"/dev can't be built: not a directory" {
			t.Errorf("%v", err)
		}
		for _, name := range []string{"null", "pts/ptmx", "shm"} {
			if _, err := os.Lstat(filepath.Join(root, "dev", name)); err != nil {
				t.Error(err)
			}
		}
		machine, err := unix.Open("/dev", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return false
		}
		defer unix.Close(machine)
		dev, err := newMount("tmpfs", nil, 0)
		if err != nil {
			t.Error(err)
			return false
		}
		defer unix.Close(dev)
		below := filepath.Join(root, "trap")
		if err := os.Remove(filepath.Join(trap, "dev")); err != nil {
			t.Error(err)
		}
		if err := coverDev(below, dev); err != nil {
			t.Error(err)
		}
		if err := bindDevice(dev, machine, "zero"); err != nil { // as where device files may not be made
			t.Error(err)
		}
		if file, err := os.Open(filepath.Join(below, "dev", "zero")); err != nil {
			t.Error(err)
		} else if n, err := file.Read(make([]byte, 8)); n != 8 || err != nil || file.Close() != nil {
			t.Errorf("%d of it, %v", n, err)
		}
		return false
	})
	for _, folder := range []string{filepath.Join(root, "dev"), elsewhere} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
}

// Tasks can't change the /dev that they share, not even the times of a device. Shared memory, terminals and messages
// are each task's own. A task that could change the shared /dev has a /dev of its own.
func TestASharedDev(t *testing.T) {
	w := build(t, "exit 0")
	w.await(w.helper)
	look := func(user User, line string) string {
		w.user = user
		if err := os.RemoveAll(filepath.Join(w.view.Temporary, ".tmp")); err != nil { // the folder belongs to the user of the run before
			t.Fatal(err)
		}
		helper, said := w.start(0, line)
		text, err := io.ReadAll(said)
		if status := w.await(helper); err != nil || status != 0 {
			t.Errorf("%v: %v, %v", user, status, err)
		}
		return string(text)
	}
	somebody := User{UID: 71234, GID: 71234}
	const line = `ls /dev | tr '\n' ' '; stat -c %d /dev /dev/shm /dev/pts; echo lost > /dev/null; head -c 1 /dev/zero | wc -c
		test -e /dev/shm/mark || echo mark > /dev/shm/mark && cat /dev/shm/mark; touch /dev/null /dev/new 2> /dev/shm/wrong; wc -l < /dev/shm/wrong; exit 0`
	first := strings.Split(look(somebody, line), "\n")
	second := strings.Split(look(User{UID: 71235, GID: 71235}, line), "\n")
	if len(first) != len(second) || len(first) != 7 {
		t.Fatalf("%q, %q", first, second)
	}
	const content = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "
	if !strings.HasPrefix(first[0], content) || !slices.Equal(first[3:], []string{"1", "mark", "2", ""}) {
		t.Errorf("%q", first)
	}
	if !slices.Equal(first[3:], second[3:]) {
		t.Errorf("%q, and then %q", first, second)
	}
	shared := openSharedDev()
	if shared < 0 {
		t.Skip("this kernel copies no mounts that are mounted nowhere; then each task has a /dev of its own")
	}
	defer unix.Close(int(shared))
	if first[0] != second[0] {
		t.Errorf("two tasks have %q and %q", first[0], second[0])
	}
	root := strings.Split(look(User{}, "ls /dev | tr '\\n' ' '; stat -c %d /dev; touch /dev/new"), "\n")
	if root[0] == first[0] {
		t.Errorf("a task of root has the shared one, too: %q", root)
	}
	own := View{Shown: []string{"/var/lib", "/dev/shm/sandbox"}, Temporary: "/dev/shm/sandbox"}
	for _, view := range []View{own, {Devices: []string{"/dev/null"}}, {Root: &Root{}}} {
		if dev := shared.copyFor(view, somebody); dev >= 0 {
			t.Errorf("%+v shares it", view)
			_ = unix.Close(dev)
		}
	}
}
