package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
)

// smallDisk stands between a store and the real disk, and pretends to have little room.
type smallDisk struct {
	real   system
	free   int64
	taken  int64            // bytes that others have taken
	blocks map[uint64]int64 // the offset up to which a file has blocks, by inode
}

func newSmallDisk(bytes int64, system system) *smallDisk {
	return &smallDisk{real: system, free: bytes, blocks: map[uint64]int64{}}
}

// fill has others take everything that is free, or give it back.
func (d *smallDisk) fill(full bool) {
	if full {
		d.taken, d.free = d.free, 0
	} else {
		d.free, d.taken = d.free+d.taken, 0
	}
}

func (d *smallDisk) system() system {
	s := d.real
	s.write = d.write
	s.truncate = d.truncate
	s.room = func(string) (datafolder.Room, error) { return datafolder.Room{Free: uint64(d.free)}, nil }
	s.allocate = func(file *os.File, upTo int64) error {
		if err := d.real.allocate(file, upTo); err != nil {
			return err
		}
		return d.take(file, upTo)
	}
	return s
}

func inode(file *os.File) uint64 {
	info, err := file.Stat()
	if err != nil {
		panic(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func (d *smallDisk) take(file *os.File, upTo int64) error {
	of := inode(file)
	missing := max(upTo-d.blocks[of], 0)
	if missing > d.free {
		return syscall.ENOSPC
	}
	d.free -= missing
	d.blocks[of] += missing
	return nil
}

// write writes less when not everything fits, as on any disk. The blocks of the reserve are free once its file is
// deleted.
func (d *smallDisk) write(file *os.File, data []byte, at int64) (int, error) {
	if filepath.Base(file.Name()) != reserveFile {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file.Name()), reserveFile)); errors.Is(err, os.ErrNotExist) {
			for of, bytes := range d.blocks {
				if of == d.reserve() {
					d.free += bytes
					delete(d.blocks, of)
				}
			}
		}
	}
	if err := d.take(file, at+int64(len(data))); err != nil {
		fits := max(d.blocks[inode(file)]+d.free-at, 0)
		n, _ := d.real.write(file, data[:min(fits, int64(len(data)))], at)
		return n, err
	}
	if filepath.Base(file.Name()) == reserveFile {
		d.blocks[0] = int64(inode(file))
	}
	return d.real.write(file, data, at)
}

func (d *smallDisk) reserve() uint64 { return uint64(d.blocks[0]) }

func (d *smallDisk) truncate(file *os.File, size int64) error {
	of := inode(file)
	d.free += max(d.blocks[of]-size, 0)
	d.blocks[of] = min(d.blocks[of], size)
	return d.real.truncate(file, size)
}

// What a failed write has left is removed before anything is appended, because behind a shorter record the rest of it
// could be taken for records.
func TestHalfARecordIsTakenBack(t *testing.T) {
	folder := folder(t)
	store := disk(folder, "boot-1")
	load(t, store)
	add(t, store, identityRecord, core.FrameworkForgotten{Framework: "before"})
	broken := errors.New("input/output error")
	store.system.write = func(file *os.File, data []byte, at int64) (int, error) {
		n, _ := file.WriteAt(data[:len(data)-3], at)
		return n, syscall.ENOSPC
	}
	store.system.truncate = func(*os.File, int64) error { return broken }
	lost := []core.Record{core.FrameworkForgotten{Framework: "short"}, core.FrameworkForgotten{Framework: "lost"}, core.FrameworkForgotten{Framework: "lost too"}}
	if written, err := store.Append(lost); written > 0 || !errors.Is(err, ErrNoRoom) {
		t.Fatalf("%d written, %v", written, err)
	}
	store.system.write = (*os.File).WriteAt
	kept := core.FrameworkForgotten{Framework: "kept!"}
	if written, err := store.Append([]core.Record{kept}); written > 0 || !errors.Is(err, broken) {
		t.Fatalf("appended behind garbage: %d written, %v", written, err)
	}
	store.system.truncate = (*os.File).Truncate
	add(t, store, kept)
	store.Close()
	want := []core.Record{identityRecord, core.FrameworkForgotten{Framework: "before"}, kept}
	reopened := disk(folder, "boot-1")
	if diff := cmp.Diff(want, load(t, reopened), opts); diff != "" || reopened.Repaired() != "" {
		t.Error(reopened.Repaired(), diff)
	}
}

// Files that older versions and crashes have left are removed.
func TestLeftoversAreCleared(t *testing.T) {
	folder := folder(t)
	written(t, folder)
	for _, name := range []string{identityFile + ".new", logFile + ".new", reserveFile} {
		replace(t, folder, name, []byte("half of something"))
	}
	store := disk(folder, "boot-1")
	load(t, store)
	defer store.Close()
	for _, name := range []string{identityFile + ".new", logFile + ".new", reserveFile} {
		_, err := os.Stat(filepath.Join(folder, name))
		if gone := errors.Is(err, os.ErrNotExist); !gone && (name != reserveFile || !store.reserved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task fills the disk and goes on writing, so that it gets every block that becomes free. On each file system the
// checkpoint takes what it must take, including the identity of a newer term, and a next process can use it. Beyond its
// reserve it returns ErrNoRoom, and goes on when there is room.
func TestDiskFilledByATask(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) { filledByATask(t, smallFileSystem(t, kind)) })
	}
}

func filledByATask(t *testing.T, mount string) {
	folder := filepath.Join(mount, "agent")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() *Disk {
		return NewDisk(Config{Folder: folder, BootID: "boot-1", ReserveBytes: 1 << 20, BloatBytes: 64 << 10})
	}
	store := open()
	load(t, store)
	who := identityRecord
	add(t, store, who)
	if store.reserved {
		t.Skip("this file system allocates nothing ahead")
	}
	task, err := os.Create(filepath.Join(mount, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	fill := func() {
		for size := 1 << 20; size > 0; {
			if n, err := task.Write(make([]byte, size)); err != nil && n == 0 {
				size /= 2
			}
		}
	}
	fill()
	var want []core.Record
	for i := range 2000 { // 300 kB: as much as the ends of 500 tasks take
		if i%100 == 0 {
			who.Term.Number++
			add(t, store, who)
			fill()
		}
		if i == 1000 {
			store.Close()
			store = open()
			if diff := cmp.Diff(append([]core.Record{who}, want...), load(t, store), opts); diff != "" {
				t.Fatal(diff)
			}
			fill()
		}
		more := core.TaskAcknowledged{Task: api.TaskRef{Framework: "framework", Task: api.TaskID(fmt.Sprintf("task-%0100d", i))}, Number: 1}
		add(t, store, more)
		want = append(want, more)
	}
	if !store.Full() || store.Bloated() {
		t.Error("the disk is full, and the store does not say so")
	}
	if err := store.Compact(append([]core.Record{who}, want...)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("compacted on a full disk: %v", err)
	}
	large := make([]core.Record, 1000)
	for i := range large {
		large[i] = core.FrameworkKept{Framework: api.Framework{ID: "large", Name: string(make([]byte, 4096))}}
	}
	if written, err := store.Append(large); written != 0 || !errors.Is(err, ErrNoRoom) {
		t.Fatalf("%d written, %v", written, err)
	}
	if err := task.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if store.Full() {
		t.Error("there is room again, and the store does not say so")
	}
	add(t, store, large...)
	store.Close()
	store = open()
	defer store.Close()
	if diff := cmp.Diff(append(append([]core.Record{who}, want...), large...), load(t, store), opts); diff != "" {
		t.Error(diff)
	}
}

// smallFileSystem mounts a file system of 24 MiB (xfs: 300 MiB, its minimum), if the test runs as root.
func smallFileSystem(t *testing.T, kind string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	folder, mount := t.TempDir(), filepath.Join(t.TempDir(), "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", mount}}
	if kind != "tmpfs" {
		size := map[string]int64{"ext4": 24 << 20, "xfs": 300 << 20}[kind]
		image := filepath.Join(folder, "image")
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
		commands = [][]string{{"mkfs." + kind, "-q", image}, {"mount", "-o", "loop", image, mount}}
	}
	for _, command := range commands {
		if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("this machine can't mount a small %s: %v: %s", kind, err, said)
		}
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, said)
		}
	})
	return mount
}
