package upkeep

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/hang"
)

func trimIn(t *testing.T, folder, name string, keep int64) int64 {
	t.Helper()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	excess, err := trim(root, name, keep)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("the disk of %s gives no head of a file back: %v", folder, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return excess
}

func stat(t *testing.T, path string) (stat unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return stat
}

func TestTrim(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "stdout")
	const keep = 1 << 20
	trimIn(t, folder, "stdout", keep) // it does not exist yet
	write(t, keep+keep/8, path)
	if excess := trimIn(t, folder, "stdout", keep); excess != 0 {
		t.Errorf("an output within its slack was trimmed for %d bytes", excess)
	}
	write(t, 8*keep, path)
	if excess := trimIn(t, folder, "stdout", keep); excess < 6*keep {
		t.Errorf("of 8 MB %d bytes are too much", excess)
	}
	if now := stat(t, path); now.Size != 8*keep || now.Blocks*512 < keep || now.Blocks*512 > 2*keep {
		t.Errorf("%d bytes, %d on disk", now.Size, now.Blocks*512)
	}
	if excess := trimIn(t, folder, "stdout", keep); excess != 0 {
		t.Errorf("it was trimmed again for %d bytes", excess)
	}
}

// A task may put anything in the place of its output. A file that does not belong to it alone is left as it is.
func TestNobodyElsesFileIsTrimmed(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	victim := filepath.Join(elsewhere, "victim")
	write(t, 8<<20, victim)
	before := stat(t, victim)
	for _, put := range []func(string) error{
		func(path string) error { return os.Symlink(victim, path) },
		func(path string) error { return os.Link(victim, path) },
		func(path string) error { return os.Mkdir(path, 0o755) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		path := filepath.Join(folder, "stdout")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		trimIn(t, folder, "stdout", 1<<20)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if now := stat(t, victim); now.Blocks != before.Blocks {
		t.Errorf("a file outside of the folder had %d blocks and has %d", before.Blocks, now.Blocks)
	}
}

// counting checks that a follower is sent whole lines of `seq` in their order, wherever the output goes on.
type counting struct {
	mu    sync.Mutex
	t     *testing.T
	at    int64 // offset of the next byte
	last  int   // the last number
	rest  []byte
	fresh bool // the next line may be only the end of one
	skips int
	moved chan struct{} // capacity 1
}

func (c *counting) SkipTo(offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset <= c.at {
		c.t.Errorf("from offset %d on to %d", c.at, offset)
	}
	c.at, c.rest, c.fresh, c.skips = offset, nil, true, c.skips+1
	return nil
}

func (c *counting) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += int64(len(data))
	c.rest = append(c.rest, data...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte{'\n'})
		if !whole {
			break
		}
		number, err := strconv.Atoi(string(line))
		switch {
		case c.fresh:
			c.fresh = false
			c.last = 0 // the first line may lack its beginning
		case err != nil || c.last != 0 && number != c.last+1:
			c.t.Errorf("after %d comes %q", c.last, line)
			return 0, errors.New("what follows is no better")
		default:
			c.last = number
		}
		c.rest = rest
	}
	c.rest = bytes.Clone(c.rest)
	select {
	case c.moved <- struct{}{}:
	default:
	}
	return len(data), nil
}

func (c *counting) offset() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *counting) lastNumber() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// A process prints for ever. Its output never takes much more than is to be kept, and a follower reads on over every
// trim. No line is torn, only lines are missing that were given back before they were read, and the offsets are right.
func TestAProcessThatPrintsForEver(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "stdout")
	output, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	writer := exec.Command("seq", "1000000000")
	writer.Stdout = output
	if err := writer.Start(); err != nil {
		t.Skipf("no program that counts: %v", err)
	}
	defer func() { _ = writer.Wait() }()
	defer func() { _ = writer.Process.Kill() }()
	to := &counting{t: t, fresh: true, moved: make(chan struct{}, 1)}
	var watcher tail.Watcher
	ended, followed := make(chan struct{}), make(chan error, 1)
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	go func() {
		followed <- watcher.Follow(t.Context(), root, []*tail.File{{Name: "stdout", To: to}}, ended)
	}()
	const keep, enough = 1 << 20, 64 << 20
	trims := 0
	for to.offset() < enough {
		hang.Receive(t, "more of the output", nil, to.moved)
		if trimIn(t, folder, "stdout", keep) > 0 {
			trims++
		}
	}
	_ = writer.Process.Kill()
	_ = writer.Wait()
	close(ended)
	if err := <-followed; err != nil {
		t.Error(err)
	}
	trimIn(t, folder, "stdout", keep)
	now := stat(t, path)
	if trims < 2 || now.Blocks*512 > 2*keep || to.offset() != now.Size {
		t.Errorf("trimmed %d times, %d bytes on disk, followed to %d of %d", trims, now.Blocks*512, to.offset(), now.Size)
	}
	// The last lines are kept, at their offsets.
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := bytes.TrimLeft(content, "\x00")
	if string(lastLine(kept)) != strconv.Itoa(to.lastNumber()) {
		t.Errorf("kept to %q, followed to %d", lastLine(kept), to.lastNumber())
	}
}

// lastLine returns the last complete line.
func lastLine(text []byte) []byte {
	text = text[:bytes.LastIndexByte(text, '\n')]
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// What an ended task has written beyond the limit since the last look is trimmed when its sandbox is measured.
func TestEndedOutputsAreTrimmed(t *testing.T) {
	folder := t.TempDir()
	const keep = 1 << 20
	trimIn(t, folder, "stdout", keep) // it skips the test where nothing can be trimmed
	write(t, 8*keep, folder, "stdout")
	task := api.TaskRef{Framework: "f1", Task: "t1"}
	k := New(Config{OutputMax: keep})
	if excess := k.trimAll([]core.Sandbox{{Task: task, Folder: folder, Ended: true}}); excess != 0 {
		t.Errorf("it was looked at before it is measured, and has %d bytes too much", excess)
	}
	measured := k.measureAll([]core.Sandbox{{Task: task, Folder: folder, Ended: true}})
	if bytes := measured.Sandboxes[task]; bytes < keep || bytes > 2*keep {
		t.Errorf("it has %d bytes", bytes)
	}
}
