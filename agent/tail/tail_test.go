package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenderhq/tender/internal/testing/hang"
)

// heard collects what was written, and signals when something was.
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

func add(t *testing.T, folder, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(folder, "stdout"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
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

// anew is a folder that is opened anew each time.
type anew string

func (folder anew) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	root, err := os.OpenRoot(string(folder))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, flag, mode)
}

// A file is waited for, followed as it grows, and read to its end when its task has ended.
func TestFollow(t *testing.T) {
	var w Watcher
	folder, to, ended, done := t.TempDir(), newHeard(), make(chan struct{}), make(chan error, 1)
	go func() { done <- w.Follow(t.Context(), anew(folder), []*File{{Name: "stdout", To: to}}, ended) }()
	add(t, folder, "one\n")
	to.await(t, "one\n")
	add(t, folder, "two\n")
	to.await(t, "one\ntwo\n")
	add(t, folder, "three\n")
	close(ended)
	if err := <-done; err != nil || to.String() != "one\ntwo\nthree\n" {
		t.Errorf("%q, %v", to.String(), err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	var w Watcher
	folder, to := t.TempDir(), newHeard()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Follow(ctx, anew(folder), []*File{{Name: "stdout", To: to}}, nil) }()
	add(t, folder, "one\n")
	to.await(t, "one\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestOffsets(t *testing.T) {
	folder := t.TempDir()
	add(t, folder, "0123456789")
	for offset, want := range map[int64]string{0: "0123456789", 4: "456789", 10: "", 99: "", -3: "789", -99: "0123456789"} {
		to := newHeard()
		if err := Copy(anew(folder), []*File{{Name: "stdout", Offset: offset, To: to}}); err != nil || to.String() != want {
			t.Errorf("from %d: %q, %v", offset, to.String(), err)
		}
	}
	if err := Copy(anew(folder), []*File{{Name: "missing", To: newHeard()}}); err != nil {
		t.Errorf("a file that is not there is empty: %v", err)
	}
}

// A task may put anything under the name of its output; only a regular file is read.
func TestNothingElseIsRead(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "folder", "../x"} {
		to := newHeard()
		if err := Copy(anew(folder), []*File{{Name: name, To: to}}); err == nil || to.String() != "" {
			t.Errorf("%s: %q, %v", name, to.String(), err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Copy(anew(folder), []*File{{Name: "pipe", To: newHeard()}}); err == nil {
		t.Error("a pipe was read")
	}
}

// A thousand followers of idle tasks share one inotify instance, of which a user may have only a few, and hold no
// descriptors of their own.
func TestFollowersShareOneWatch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts descriptors in /proc")
	}
	const folders, each = 200, 5
	var w Watcher
	before := descriptors(t)
	ended, done, heard := make(chan struct{}), make(chan error, folders*each), []*heard{}
	paths := []string{}
	for range folders {
		folder := t.TempDir()
		paths = append(paths, folder)
		for range each {
			to := newHeard()
			heard = append(heard, to)
			go func() {
				done <- w.Follow(t.Context(), anew(folder), []*File{{Name: "stdout", To: to}, {Name: "stderr", To: to}}, ended)
			}()
		}
	}
	for _, folder := range paths {
		add(t, folder, "up\n")
	}
	for _, to := range heard {
		to.await(t, "up\n")
	}
	// A follower that is told of a change late reads once more, and has its file open meanwhile.
	told := func() string {
		return fmt.Sprintf("%d followers hold %d descriptors", folders*each, descriptors(t)-before)
	}
	hang.Await(t, "followers that hold no files", told, func() bool {
		for descriptors(t)-before > 10 {
			runtime.Gosched()
		}
		return true
	})
	w.mu.Lock()
	if len(w.polled) > 0 {
		t.Errorf("%d followers look by the clock", len(w.polled))
	}
	w.mu.Unlock()
	close(ended)
	for range heard {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if w.kernel != nil {
		t.Error("nobody follows, and the kernel still watches")
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	return len(entries)
}

// Where the kernel grants no watch, one clock for all followers replaces it.
func TestFollowByTheClock(t *testing.T) {
	var w Watcher
	folder, to, ended, done := t.TempDir(), newHeard(), make(chan struct{}), make(chan error, 1)
	c := &changes{seen: make(chan struct{}, 1)}
	w.mu.Lock()
	w.poll(c)
	w.mu.Unlock()
	go func() { done <- follow(t.Context(), anew(folder), []*File{{Name: "stdout", To: to}}, c, ended) }()
	add(t, folder, "one\n")
	to.await(t, "one\n")
	add(t, folder, "two\n")
	to.await(t, "one\ntwo\n")
	close(ended)
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.leave(c)
	if w.stop != nil {
		t.Error("nobody looks, and the clock still ticks")
	}
}

// Frames tell when everything was sent: an answer that is cut off anywhere is not taken for a whole one.
func TestFrames(t *testing.T) {
	var whole bytes.Buffer
	long := strings.Repeat("x", 3*frameBytesMax+1)
	for _, f := range []struct {
		kind byte
		text string
	}{{FrameStdout, "out"}, {FrameStderr, "err"}, {FrameStdout, long}} {
		if n, err := (Frames{To: &whole, Kind: f.kind}).Write([]byte(f.text)); err != nil || n != len(f.text) {
			t.Fatal(n, err)
		}
	}
	if err := WriteEnd(&whole); err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (map[byte]string, error) {
		got := map[byte]string{}
		err := ReadFrames(iotest.HalfReader(bytes.NewReader(data)), func(kind byte, content []byte) error {
			got[kind] += string(content)
			return nil
		})
		return got, err
	}
	if got, err := read(whole.Bytes()); err != nil || got[FrameStdout] != "out"+long || got[FrameStderr] != "err" {
		t.Errorf("%v, %d and %d bytes", err, len(got[FrameStdout]), len(got[FrameStderr]))
	}
	for _, cut := range []int{0, 1, 4, 5, 6, 8, 9, 20, whole.Len() - 5, whole.Len() - 1} {
		if _, err := read(whole.Bytes()[:cut]); !errors.Is(err, ErrCut) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
	if _, err := read([]byte("o\xff\xff\xff\xff")); err == nil || errors.Is(err, ErrCut) {
		t.Errorf("a frame of four gigabytes: %v", err)
	}
}

// placed is a writer that counts offsets as a client does.
type placed struct {
	*heard
	moves []int64
}

func (p *placed) SkipTo(offset int64) error {
	p.moves = append(p.moves, offset)
	return nil
}

func TestLastLinesAndOldOutput(t *testing.T) {
	long := strings.Repeat("x", chunkBytes)
	for _, c := range []struct {
		text  string
		lines int
		since time.Duration
		want  string
	}{
		{"a\nb\nc\n", 2, 0, "b\nc\n"},
		{"a\nb\nc", 2, 0, "b\nc"},
		{"a\nb\n", 5, 0, "a\nb\n"},
		{"\n\n\n", 2, 0, "\n\n"},
		{"", 3, 0, ""},
		{"a\n" + long + "\n" + long + "\nb\n", 2, 0, long + "\nb\n"},
		{"a\n" + long + long + "\nb", 3, 0, "a\n" + long + long + "\nb"},
		{"a\nb\n", 0, time.Hour, "a\nb\n"},
		{"a\nb\n", 1, time.Hour, "b\n"},
		{"a\nb\n", 0, -time.Hour, ""},
		{"a\nb\n", 1, -time.Hour, ""},
	} {
		folder := t.TempDir()
		add(t, folder, c.text)
		file := &File{Name: "stdout", Lines: c.lines}
		if c.since != 0 {
			file.Since = time.Now().Add(-c.since)
		}
		to := &placed{heard: newHeard()}
		file.To = to
		if err := Copy(anew(folder), []*File{file}); err != nil || to.String() != c.want {
			t.Errorf("the last %d lines of %.20q, written since %v: %.40q, %v", c.lines, c.text, c.since, to.String(), err)
		}
		if begin := int64(len(c.text) - len(c.want)); !slices.Equal(to.moves, []int64{begin}) {
			t.Errorf("the last %d lines of %.20q begin at %d; it was said that they do at %v", c.lines, c.text, begin, to.moves)
		}
		add(t, folder, "more\n")
		if err := Copy(anew(folder), []*File{file}); err != nil || to.String() != c.want+"more\n" {
			t.Errorf("what follows %.40q is lost: %.40q, %v", c.want, to.String(), err)
		}
	}
	// In a file that appears later everything is new.
	to := &placed{heard: newHeard()}
	file := &File{Name: "stdout", Lines: 1, To: to}
	folder := t.TempDir()
	if err := Copy(anew(folder), []*File{file}); err != nil {
		t.Fatal(err)
	}
	add(t, folder, "a\nb\n")
	if err := Copy(anew(folder), []*File{file}); err != nil || to.String() != "a\nb\n" || !slices.Equal(to.moves, []int64{0}) {
		t.Errorf("%q, %v, %v", to.String(), to.moves, err)
	}
}

func TestFramesSayWhereAnOutputGoesOn(t *testing.T) {
	var sent bytes.Buffer
	if err := errors.Join(Frames{To: &sent, Kind: FrameStdout}.SkipTo(1<<40), Frames{To: &sent, Kind: FrameStderr}.SkipTo(7), WriteEnd(&sent)); err != nil {
		t.Fatal(err)
	}
	got := map[byte]int64{}
	err := ReadFrames(iotest.OneByteReader(&sent), func(kind byte, content []byte) error {
		got[kind] = OffsetOf(content)
		return nil
	})
	if err != nil || len(got) != 2 || got[FrameStdoutAt] != 1<<40 || got[FrameStderrAt] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}
