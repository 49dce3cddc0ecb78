package tail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// heard gathers what was written and says when.
type heard struct {
	mutex sync.Mutex
	text  strings.Builder
	more  chan struct{}
}

func newHeard() *heard { return &heard{more: make(chan struct{}, 1)} }

func (h *heard) Write(p []byte) (int, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.text.Write(p)
	select {
	case h.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (h *heard) String() string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.text.String()
}

func (h *heard) await(t *testing.T, want string) {
	t.Helper()
	for h.String() != want {
		select {
		case <-h.more:
		case <-t.Context().Done():
			t.Fatalf("heard %q, wanted %q", h.String(), want)
		}
	}
}

func root(t *testing.T) *os.Root {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func add(t *testing.T, root *os.Root, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(root.Name(), "stdout"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// A file is awaited, followed as it grows, and read to its end when its task has ended.
func TestFollow(t *testing.T) {
	root, to, ended, done := root(t), newHeard(), make(chan struct{}), make(chan error, 1)
	go func() { done <- Follow(t.Context(), root, "stdout", 0, ended, to) }()
	add(t, root, "one\n")
	to.await(t, "one\n")
	add(t, root, "two\n")
	to.await(t, "one\ntwo\n")
	add(t, root, "three\n")
	close(ended)
	if err := <-done; err != nil || to.String() != "one\ntwo\nthree\n" {
		t.Errorf("%q, %v", to.String(), err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	root, to := root(t), newHeard()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, root, "stdout", 0, nil, to) }()
	add(t, root, "one\n")
	to.await(t, "one\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestOffsets(t *testing.T) {
	root := root(t)
	add(t, root, "0123456789")
	for offset, want := range map[int64]string{0: "0123456789", 4: "456789", 10: "", 99: "", -3: "789", -99: "0123456789"} {
		to := newHeard()
		if err := Copy(root, "stdout", offset, to); err != nil || to.String() != want {
			t.Errorf("from %d: %q, %v", offset, to.String(), err)
		}
	}
	if err := Copy(root, "missing", 0, newHeard()); err != nil {
		t.Errorf("a file that is not there is empty: %v", err)
	}
}

// A task may put anything under the name of its output.
func TestNothingElseIsRead(t *testing.T) {
	root := root(t)
	if err := os.Symlink("/etc/hostname", filepath.Join(root.Name(), "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root.Name(), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "folder", "../x"} {
		to := newHeard()
		if err := Copy(root, name, 0, to); err == nil || to.String() != "" {
			t.Errorf("%s: %q, %v", name, to.String(), err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root.Name(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Copy(root, "pipe", 0, newHeard()); err == nil {
		t.Error("a pipe was read")
	}
}
