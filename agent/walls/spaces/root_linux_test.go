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

// image makes a task whose root is an image of one layer. The folders of the machine that programs need are shown in
// it; where the machine has a link instead of a folder, the layer has the same link.
func image(t *testing.T) (w *walled, root *Root, layer string) {
	t.Helper()
	w = build(t, "exit 0") // skips the test where there are no namespaces
	w.await(w.helper)
	own := t.TempDir()
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	layer = filepath.Join(own, "layer")
	for _, name := range []string{rootName, upperName, workName, "layer"} {
		if err := os.Mkdir(filepath.Join(own, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root = &Root{Folder: own, Layers: []string{layer}, Begin: "/begin/here"}
	for _, path := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		switch info, err := os.Lstat(path); {
		case err != nil:
		case info.IsDir():
			root.Shown = append(root.Shown, Shown{path, path})
		default:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, filepath.Join(layer, path))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	w.view = View{Root: root}
	if err := Try(w.view); err != nil {
		t.Skipf("no images here: %v", err)
	}
	w.renew()
	return w, root, layer
}

// renew makes the folders anew that hold what a task changes: they serve one task only.
func (w *walled) renew() {
	w.t.Helper()
	for _, name := range []string{upperName, workName} {
		path := filepath.Join(w.view.Root.Folder, name)
		if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o755)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// inImage runs a program in the image, and returns what the program wrote and how it ended.
func (w *walled) inImage(order Order) (said string, status syscall.WaitStatus) {
	w.t.Helper()
	defer w.renew()
	out, says, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	order.View, order.Find, order.Folder = w.view, true, w.view.Root.Begin
	order.Env = append(order.Env, "PATH=/nothing:/usr/bin:/bin")
	helper, err := w.spawner.Start(order, [3]uintptr{says.Fd(), says.Fd(), says.Fd()})
	says.Close()
	if err != nil {
		if helper != 0 {
			w.await(helper)
		}
		return err.Error(), 0
	}
	text, err := io.ReadAll(out)
	if err != nil {
		w.t.Error(err)
	}
	return string(text), w.await(helper)
}

func line(text string) Order { return Order{Argv: []string{"sh", "-c", text}} }

// An image can't lead the agent out of the image by links in the places of its folders: the links are replaced, or the
// start is refused. What they lead to stays as it was.
func TestTrapsOfAnImage(t *testing.T) {
	w, _, layer := image(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("as it was"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(layer, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/hosts", "etc/resolv.conf"} {
		if err := os.Symlink(outside, filepath.Join(layer, name)); err != nil {
			t.Fatal(err)
		}
	}
	if said, status := w.inImage(line("pwd; test -L /etc/hosts || echo replaced; test -e " + outside + " || echo hidden; cat /proc/1/comm; echo > /etc/hosts")); status != 0 ||
		said != "/begin/here\nreplaced\nhidden\n"+Helper+"\n" {
		t.Errorf("%q, %v", said, status)
	}
	for trap, want := range map[string]string{
		"proc": "/proc of the image is no folder", "sys": "/sys of the image is no folder", "tmp": "/tmp of the image is no folder",
		"dev": "/dev can't be built: not a directory", "begin": "the folder that the program begins in can't be made",
	} {
		path := filepath.Join(layer, trap)
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
		if said, _ := w.inImage(line("echo it runs")); !strings.Contains(said, want) {
			t.Errorf("%s: %q", trap, said)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "as it was" {
		t.Errorf("%q, %v", text, err)
	}
}

// A folder that is not the agent's own is not mounted as a root, and the error for a layer that is gone names the
// layer.
func TestWhatIsNotTheAgentsOwnIsNoRoot(t *testing.T) {
	w, root, layer := image(t)
	if err := os.Chmod(root.Folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if said, _ := w.inImage(line("echo it runs")); !strings.Contains(said, root.Folder+" is not the agent's own folder") {
		t.Errorf("%q", said)
	}
	if err := os.Chmod(root.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	root.Layers = []string{layer, layer + ".gone"}
	if said, _ := w.inImage(line("echo it runs")); !strings.Contains(said, layer+".gone: no such file") {
		t.Errorf("%q", said)
	}
}

// A program is found in the image's PATH. The error for one that is not there is the kernel's. The stop signal is the
// image's.
func TestProgramsOfAnImage(t *testing.T) {
	w, _, _ := image(t)
	if said, _ := w.inImage(Order{Argv: []string{"no-such-program"}}); said != syscall.ENOENT.Error() {
		t.Errorf("%q", said)
	}
	order := line("trap 'echo quit; exit 3' QUIT; trap 'echo terminated; exit 4' TERM; kill -s TERM 1; while :; do sleep 0.01; done")
	order.Stop = int(syscall.SIGQUIT)
	if said, status := w.inImage(order); !strings.HasSuffix(said, "quit\n") || status.ExitStatus() != 3 {
		t.Errorf("%q, %v", said, status)
	}
}

// As many layers as an image may have fit into one mount.
func TestManyLayers(t *testing.T) {
	w, root, layer := image(t)
	for i := range 126 {
		more := filepath.Join(root.Folder, "layer"+strings.Repeat("x", i+1))
		if err := os.Mkdir(more, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		root.Layers = append(root.Layers, more)
	}
	if err := os.WriteFile(filepath.Join(layer, "below"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if said, status := w.inImage(line("test -e /below && echo below")); said != "below\n" || status != 0 {
		t.Errorf("%q, %v", said, status)
	}
}
