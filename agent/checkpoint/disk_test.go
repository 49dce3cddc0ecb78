package checkpoint

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/agent/core"
)

func disk(folder, boot string) *Disk {
	return NewDisk(Config{Folder: folder, BootID: boot, ReserveBytes: 4096})
}

// written makes a checkpoint and returns its records and the bytes of its log.
func written(t *testing.T, folder string) ([]core.Record, []byte) {
	store := disk(folder, "boot-1")
	load(t, store)
	who := identityRecord
	records := append([]core.Record{who}, everyRecord()...)
	for _, record := range records {
		add(t, store, record)
	}
	store.Close()
	log, err := os.ReadFile(filepath.Join(folder, logFile))
	if err != nil {
		t.Fatal(err)
	}
	return records, log
}

func replace(t *testing.T, folder, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A log that is cut anywhere gives back the records that are whole, and accepts more.
func TestTornTailIsCutOff(t *testing.T) {
	folder := folder(t)
	records, log := written(t, folder)
	whole := 0
	for end := headerBytes; end < len(log); end += 5 { // the header is complete before the log gets its name
		replace(t, folder, logFile, log[:end])
		store := disk(folder, "boot-1")
		got := load(t, store)
		if len(got) < max(whole, 1) {
			t.Fatalf("with %d bytes there are %d records, with fewer there were %d", end, len(got), whole)
		}
		whole = len(got)
		if diff := cmp.Diff(records[:whole], got, opts); diff != "" {
			t.Fatalf("with %d bytes: %s", end, diff)
		}
		more := core.FrameworkForgotten{Framework: "more"}
		add(t, store, more)
		store.Close()
		again := load(t, disk(folder, "boot-1"))
		if diff := cmp.Diff(append(got[:len(got):len(got)], more), again, opts); diff != "" {
			t.Fatalf("after the cut at %d: %s", end, diff)
		}
	}
	for end := headerBytes; end < len(log); end++ {
		held, err := parse(log[:end], 1)
		if got := held.records; err != nil || held.good > end || !reflect.DeepEqual(records[1:len(got)+1], append([]core.Record{}, got...)) {
			t.Fatalf("with %d bytes: %d records in %d, %v", end, len(got), held.good, err)
		}
	}
}

// Records that were appended together are read back whole or not at all, wherever the log is torn (R35). So are the
// records of a compaction, and those that an older version wrote one by one.
func TestGroupsAreWhole(t *testing.T) {
	folder := folder(t)
	store := disk(folder, "boot-1")
	load(t, store)
	records := everyRecord()
	add(t, store, identityRecord)
	sizes, wholes := []int64{headerBytes}, []int{0}
	for i, group := range [][]core.Record{records[:1], records[1:4], records[4:5], records[5:]} {
		add(t, store, group...)
		sizes, wholes = append(sizes, store.size), append(wholes, wholes[i]+len(group))
	}
	store.Close()
	log, err := os.ReadFile(filepath.Join(folder, logFile))
	if err != nil {
		t.Fatal(err)
	}
	for end, group := headerBytes, 0; end <= len(log); end++ {
		if group+1 < len(sizes) && int64(end) >= sizes[group+1] {
			group++
		}
		held, err := parse(log[:end], 1)
		if err != nil || int64(held.good) != sizes[group] || len(held.records) != wholes[group] {
			t.Fatalf("with %d bytes: %d records in %d bytes, %v; want %d in %d", end, len(held.records), held.good, err, wholes[group], sizes[group])
		}
		if end%7 > 0 {
			continue
		}
		replace(t, folder, logFile, log[:end])
		store := disk(folder, "boot-1")
		load(t, store)
		add(t, store, records[:3]...)
		store.Close()
		want := append(append([]core.Record{identityRecord}, records[:wholes[group]]...), records[:3]...)
		if diff := cmp.Diff(want, load(t, disk(folder, "boot-1")), opts); diff != "" {
			t.Fatalf("appended to after the cut at %d: %s", end, diff)
		}
	}
}

// No flipped bit ever results in a record that was not written. The agent refuses to start, or, at the very end of the
// log, takes the damage for the torn tail that it looks like.
func TestFlippedBitsAreSeen(t *testing.T) {
	records, log := written(t, folder(t))
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	const flips = 10_000
	for range flips {
		damaged := append([]byte(nil), log...)
		damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		held, err := parse(damaged, 1)
		switch {
		case err != nil:
			refused++
		case held.good == len(damaged):
			t.Fatal("damage was not seen")
		default:
			if diff := cmp.Diff(records[1:len(records)-1], held.records, opts); diff != "" {
				t.Fatalf("damage was taken for a torn tail too early: %s", diff)
			}
		}
	}
	if refused < flips*9/10 {
		t.Errorf("only %d of %d flips were refused", refused, flips)
	}
}

func TestFlippedBitsOfTheIdentityAreSeen(t *testing.T) {
	folder := folder(t)
	written(t, folder)
	data, err := os.ReadFile(filepath.Join(folder, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(data) {
		damaged := append([]byte(nil), data...)
		damaged[i/8] ^= 1 << (i % 8)
		if _, err := parseIdentity(damaged); err == nil {
			t.Fatalf("bit %d was flipped and nobody saw it", i)
		}
	}
}

// After another boot nothing of the log runs any more: it is cut where the damage begins.
func TestDamageAfterABoot(t *testing.T) {
	folder := folder(t)
	records, log := written(t, folder)
	damaged := append([]byte(nil), log...)
	damaged[len(damaged)/2] ^= 1
	replace(t, folder, logFile, damaged)
	if _, err := disk(folder, "boot-1").Load(); err == nil || !strings.Contains(err.Error(), "damage in the middle") {
		t.Errorf("in the same boot: %v", err)
	}
	store := disk(folder, "boot-2")
	got := load(t, store)
	if len(got) < 2 || len(got) >= len(records) || store.Repaired() == "" {
		t.Errorf("%d of %d records, repaired %q", len(got), len(records), store.Repaired())
	}
	if diff := cmp.Diff(records[:len(got)], got, opts); diff != "" {
		t.Error(diff)
	}
}

// A new folder has lost nothing. Nor has an agent that knows no more than its identity, also after a boot.
func TestNewFolderIsNotDamaged(t *testing.T) {
	folder := folder(t)
	store := disk(folder, "boot-1")
	if got := load(t, store); len(got) != 0 || store.Repaired() != "" {
		t.Errorf("new: %v, repaired %q", got, store.Repaired())
	}
	add(t, store, identityRecord)
	store.Close()
	store = disk(folder, "boot-2")
	if got := load(t, store); len(got) != 1 || store.Repaired() != "" {
		t.Errorf("after a boot: %v, repaired %q", got, store.Repaired())
	}
}

func TestLostIdentityIsRefused(t *testing.T) {
	folder := folder(t)
	written(t, folder)
	if err := os.Remove(filepath.Join(folder, identityFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := disk(folder, "boot-1").Load(); err == nil || !strings.Contains(err.Error(), "identity is gone") {
		t.Errorf("%v", err)
	}
}

// A crash in the middle of a compaction or a reset leaves the old log or the new one.
func TestCrashBetweenFiles(t *testing.T) {
	folder := folder(t)
	records, log := written(t, folder)
	replace(t, folder, logFile+".new", log[:20]) // a compaction whose log is not in its place yet
	if diff := cmp.Diff(records, load(t, disk(folder, "boot-1")), opts); diff != "" {
		t.Error(diff)
	}
	store := disk(folder, "boot-1")
	load(t, store)
	if err := store.Reset(); err != nil {
		t.Fatal(err)
	}
	fresh := core.Identity{Nonce: "n2", BootID: "boot-1"}
	add(t, store, fresh)
	store.Close()
	replace(t, folder, logFile, log) // a reset that has not removed the old log yet
	store = disk(folder, "boot-1")
	if diff := cmp.Diff([]core.Record{fresh}, load(t, store), opts); diff != "" {
		t.Error(diff)
	}
	add(t, store, core.FrameworkForgotten{Framework: "f"})
	store.Close()
	if got := load(t, disk(folder, "boot-1")); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func FuzzParse(f *testing.F) {
	data := appendHeader(nil, 1)
	for i, record := range everyRecord() {
		var err error
		if data, err = appendFrame(data, 1, uint64(i+1), record); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add([]byte(logMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		held, _ := parse(data, 1)
		if held.good > len(data) || len(held.records) > len(data)/frameBytes {
			t.Errorf("%d records in %d of %d bytes", len(held.records), held.good, len(data))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, group := range []int{1, 10, 100} {
		b.Run(map[int]string{1: "single", 10: "ten", 100: "hundred"}[group], func(b *testing.B) {
			store := disk(folder(b), "boot-1")
			load(b, store)
			add(b, store, identityRecord)
			launched := everyRecord()[6]
			records := make([]core.Record, group)
			for i := range records {
				records[i] = launched
			}
			b.ResetTimer()
			for range b.N {
				add(b, store, records...)
			}
			b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
