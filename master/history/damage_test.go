package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/datafolder"
)

// only returns the content of the only file of a ring.
func only(t testing.TB, folder, ring string) (name string, data []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, ring+"-*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the files are %v, %v", names, err)
	}
	if data, err = os.ReadFile(names[0]); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[0]), data
}

// TestTornTails cuts a segment at every byte of its last record, as kill -9 in the middle of a write does, and puts
// there what a disk may have instead: nothing, zeros, half of something else. All other records are there, what was cut
// off is said, and what comes then is written.
func TestTornTails(t *testing.T) {
	config := Config{Folder: t.TempDir()}
	h := start(t, config, realDisk())
	told := lives(3, 1, "f1", 3)
	h.Add(packed(told[:len(told)-1]...))
	h.write(began)
	name, before := only(t, config.Folder, "notable")
	h.Add(packed(told[len(told)-1:]...))
	h.write(began)
	_, whole := only(t, config.Folder, "notable")
	kill(h)
	for cut := len(before); cut < len(whole); cut++ {
		for behind, tail := range map[string][]byte{"nothing": nil, "zeros": make([]byte, 100), "its own beginning": whole[len(before):cut]} {
			config.Folder = t.TempDir()
			write(t, config.Folder, name, append(slices.Clone(whole[:cut]), tail...))
			h := start(t, config, unsynced())
			later := event(3, 100, "agent", "a1", "gone")
			h.Add(packed(later))
			h.write(began)
			wanted := append(selected(told[:len(told)-1], (*apiv1.Event).GetNotable), later)
			for _, life := range []string{"at once", "after another kill"} {
				got, gaps := pages(t, h, Query{})
				isNewestFirst(t, got, wanted)
				if torn := cut+len(tail) > len(before); torn != (len(gaps) == 1) || torn && !strings.Contains(gaps[0], "cut off") {
					t.Fatalf("cut at %d with %s behind it, %s: it says %q", cut, behind, life, gaps)
				}
				kill(h)
				h = start(t, config, unsynced())
			}
			kill(h)
		}
	}
}

// TestDamageIsSeen damages segments, sealed and not, a thousand times by seed. What is told then was written, in order,
// each once; and if anything is missing, it is said.
func TestDamageIsSeen(t *testing.T) {
	config := Config{Folder: t.TempDir()}
	h := start(t, config, realDisk())
	told := lives(3, 1, "f1", 20)
	h.Add(packed(told...))
	h.write(began)
	wanted := selected(told, (*apiv1.Event).GetNotable)
	name, open := only(t, config.Folder, "notable")
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	_, sealed := only(t, config.Folder, "notable")
	random := rand.New(rand.NewPCG(35, 2))
	whole, fewer := 0, 0
	for n := range 1000 {
		file := [][]byte{open, sealed}[n%2]
		what, damaged := damageTo(random, file)
		config.Folder = t.TempDir()
		write(t, config.Folder, name, damaged)
		h := start(t, config, unsynced())
		h.write(began)
		for _, q := range []Query{{}, {Of: "framework/f1"}, {Of: "agent/a3", Kinds: []string{"task"}}} {
			got, gaps := pages(t, h, q)
			all := selected(wanted, q.Selects)
			story := fmt.Sprintf("damage %d, %s, sealed %t, of %q", n, what, n%2 == 1, q.Of)
			at := len(all)
			for _, e := range got {
				for at--; at >= 0 && !proto.Equal(all[at], e); at-- {
				}
				if at < 0 {
					t.Fatalf("%s: nobody has told %v there", story, e)
				}
			}
			cutBehindARecord := bytes.HasPrefix(open, damaged) // then nothing tells that there was more
			if len(got) < len(all) && len(gaps) == 0 && !cutBehindARecord {
				t.Fatalf("%s: %d of %d are told, and not a word", story, len(got), len(all))
			}
			if len(got) == len(all) {
				whole++
			} else {
				fewer++
			}
		}
		kill(h)
	}
	t.Logf("%d times all was told, %d times less", whole, fewer)
	if whole < 100 || fewer < 500 {
		t.Error("the damage is too one-sided to say much")
	}
}

// damageTo damages a file in one way.
func damageTo(random *rand.Rand, data []byte) (what string, damaged []byte) {
	damaged = bytes.Clone(data)
	at := random.IntN(len(data))
	length := 1 + random.IntN(len(data)-at)
	switch random.IntN(8) {
	case 0:
		return fmt.Sprintf("cut off at %d", at), damaged[:at]
	case 1:
		clear(damaged[at : at+length])
		return fmt.Sprintf("%d zeros at %d", length, at), damaged
	case 2:
		return fmt.Sprintf("%d bytes cut out at %d", length, at), append(damaged[:at], data[at+length:]...)
	case 3:
		return fmt.Sprintf("%d bytes twice at %d", length, at), append(damaged[:at+length], data[at:]...)
	}
	bit := random.IntN(8)
	damaged[at] ^= 1 << bit
	return fmt.Sprintf("bit %d of byte %d flipped", bit, at), damaged
}

// TestNewerFormat: a segment that a newer version has written is neither read nor removed.
func TestNewerFormat(t *testing.T) {
	folder, name, data := t.TempDir(), nameOf("routine", span{1, 1}), []byte("TNDREVT2 what may follow")
	write(t, folder, name, data)
	if _, err := Open(Config{Folder: folder}); err == nil || !strings.Contains(err.Error(), "a newer one") {
		t.Errorf("it says %v", err)
	}
	if left, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(left, data) {
		t.Errorf("left is %q, %v", left, err)
	}
}

// TestPowerLoss: the machine loses power behind any write. What was not synced is lost, the names of files too. What is
// notable and was written is there; of routine at most the last second is missing.
func TestPowerLoss(t *testing.T) {
	for _, keepsNames := range []bool{false, true} {
		config := Config{Folder: t.TempDir()}
		platter := &platter{contents: map[uint64][]byte{}, names: map[string]uint64{}}
		disk := realDisk()
		disk.sync = platter.sync
		h := start(t, config, disk)
		var told []*apiv1.Event
		for step := range 40 {
			part := lives(3, uint64(len(told)+1), fmt.Sprintf("f%d", step), 3)
			told = append(told, part...)
			h.Add(packed(part...))
			now := began.Add(time.Duration(1+step) * writeEvery)
			h.write(now)
			after := Config{Folder: t.TempDir()}
			platter.survive(t, config.Folder, after.Folder, keepsNames)
			next := start(t, after, realDisk())
			notable, _ := pages(t, next, Query{NotableOnly: true})
			isNewestFirst(t, notable, selected(told, (*apiv1.Event).GetNotable))
			routine, _ := pages(t, next, Query{Sees: func(e *apiv1.Event) bool { return !e.GetNotable() }})
			if least := max(0, (step-int(syncEvery/writeEvery))*len(part)*2/3); len(routine) < least {
				t.Errorf("behind step %d %d events of routine are left, at least %d should be", step, len(routine), least)
			}
			kill(next)
		}
		kill(h)
	}
}

// platter is what a disk really holds when the power is lost: of each file what was synced, under the names that the
// folder had when it was synced.
type platter struct {
	contents map[uint64][]byte
	names    map[string]uint64
}

func (p *platter) sync(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		p.contents[inode(info)], err = os.ReadFile(file.Name())
		return err
	}
	p.names, err = namesOf(file.Name())
	return err
}

// survive fills the folder with what is left. keepsNames says that all names of the folder are left, as the file system
// may write them at any time.
func (p *platter) survive(t *testing.T, before, after string, keepsNames bool) {
	t.Helper()
	names := p.names
	if keepsNames {
		var err error
		if names, err = namesOf(before); err != nil {
			t.Fatal(err)
		}
	}
	for name, of := range names {
		write(t, after, name, p.contents[of])
	}
}

func namesOf(folder string) (map[string]uint64, error) {
	names := map[string]uint64{}
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil {
			return nil, infoErr
		}
		names[entry.Name()] = inode(info)
	}
	return names, err
}

func inode(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// TestHalfAWrite: what a disk without room has taken of a write is taken back, so that a restart finds no damage.
func TestHalfAWrite(t *testing.T) {
	halves := false
	disk := realDisk()
	disk.write = func(file *os.File, data []byte, at int64) (int, error) {
		if !halves {
			return file.WriteAt(data, at)
		}
		n, err := file.WriteAt(data[:len(data)/2], at)
		if err == nil {
			err = syscall.ENOSPC
		}
		return n, err
	}
	config := Config{Folder: t.TempDir()}
	h := start(t, config, disk)
	first := lives(3, 1, "f1", 10)
	h.Add(packed(first...))
	h.write(began)
	halves = true
	last := lives(3, 31, "f1", 10)
	h.Add(packed(last...))
	h.write(began)
	h.write(began)
	kill(h)
	halves = false
	if h = start(t, config, disk); h.Last().Number != uint64(len(first)) {
		t.Fatalf("it had come to %v", h.Last())
	}
	h.Add(packed(last...)) // the leader tells it again
	h.write(began)
	got, gaps := pages(t, h, Query{})
	isNewestFirst(t, got, append(first, last...))
	if len(gaps) > 0 {
		t.Errorf("it says %q", gaps)
	}
}

// TestFullDiskIsSaid: what was lost while there was no room is said with its number when there is some.
func TestFullDiskIsSaid(t *testing.T) {
	free := uint64(RoomLeftBytes + 1<<20)
	disk := realDisk()
	disk.room = func(string) (datafolder.Room, error) { return datafolder.Room{Free: free}, nil }
	h := start(t, Config{Folder: t.TempDir()}, disk)
	first := lives(3, 1, "f1", 10)
	h.Add(packed(first...))
	h.write(began)
	free = RoomLeftBytes
	lost := lives(3, 31, "f1", 20)
	for _, e := range lost {
		h.Add(packed(e))
		h.write(began)
	}
	free += 1 << 20
	last := lives(3, 91, "f1", 1)
	h.Add(packed(last...))
	h.write(began)
	got, gaps := pages(t, h, Query{})
	isNewestFirst(t, got, append(first, last...))
	if lost := h.Counts.Lost.Load(); lost != 60 {
		t.Errorf("%d are counted as lost", lost)
	}
	wanted := "60 events between 2026-11-26T14:00:31Z and 2026-11-26T14:01:30Z were not kept: the disk has no room left"
	if !slices.Equal(gaps, []string{wanted}) {
		t.Errorf("it says %q", gaps)
	}
}

// FuzzSegment reads any bytes as a segment: it ends, and tells only what has a right checksum.
func FuzzSegment(f *testing.F) {
	config := Config{Folder: f.TempDir()}
	h := start(f, config, realDisk())
	h.Add(packed(lives(3, 1, "f1", 5)...))
	h.write(began)
	_, open := only(f, config.Folder, "notable")
	if err := h.end(); err != nil {
		f.Fatal(err)
	}
	_, sealed := only(f, config.Folder, "notable")
	f.Add(open)
	f.Add(sealed)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, whole := bytes.NewReader(data), 0
		walk(data, func(int, frame) { whole++ })
		s := &segment{name: "any", bytes: int64(len(data))}
		var err error
		if s.summary, s.indexAt, err = readSummary(file, s.bytes); err != nil {
			found := recoverRecords(s.name, data)
			s.summary, s.memory = found.summary, &found.index
		}
		for _, q := range []Query{{Limit: 5}, {Limit: 100, Of: "framework/f1", Kinds: []string{"task"}}, {Limit: 100, Before: cursorAt(3, 9)}} {
			h := &hits{}
			if _, err := s.find(&q, file, h); err == nil && len(h.found) > whole {
				t.Errorf("%d events are told, of %d records", len(h.found), whole)
			}
		}
	})
}
