package checkpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tenderhq/tender/agent/core"
)

// TestGolden loads a checkpoint that was written when format 1 was new, and checkpoints of its later forms: with
// groups, with executors that are to end, with tasks that have a longest time, with receipts, with tasks that were
// launched as one group, and with reports of progress and executors with receipts (R24). A folder that is missing is written, for the time when
// there is a format 2; the old ones stay.
func TestGolden(t *testing.T) {
	grouped := func(folder string) {
		store := disk(folder, "boot-1")
		load(t, store)
		add(t, store, append([]core.Record{identityRecord}, everyRecord()...)...)
		store.Close()
	}
	all := append([]core.Record{identityRecord}, everyRecord()...)
	without := func(records []core.Record, later func(core.Record) bool) []core.Record {
		return slices.DeleteFunc(slices.Clone(records), later)
	}
	together := without(all, func(r core.Record) bool {
		s, status := r.(core.TaskStatus)
		l, launched := r.(core.TaskLaunched)
		e, starting := r.(core.ExecutorStarting)
		return status && s.Progress || launched && l.ExecutorReceipt != "" || starting && e.Receipt != ""
	})
	single := without(together, func(r core.Record) bool {
		l, launched := r.(core.TaskLaunched)
		k, killed := r.(core.TaskKilled)
		return launched && l.Group != "" || killed && k.Why != ""
	})
	unsigned := without(single, func(r core.Record) bool { l, is := r.(core.TaskLaunched); return is && l.Receipt != "" })
	endless := without(unsigned, func(r core.Record) bool { l, is := r.(core.TaskLaunched); return is && !l.Began.IsZero() })
	first := without(endless, func(r core.Record) bool { _, is := r.(core.ExecutorStopping); return is })
	golden(t, "testdata/format1", first, func(folder string) { written(t, folder) })
	golden(t, "testdata/format1-groups", first, grouped)
	golden(t, "testdata/format1-stopping", endless, grouped)
	golden(t, "testdata/format1-longest", unsigned, grouped)
	golden(t, "testdata/format1-receipts", single, grouped)
	golden(t, "testdata/format1-together", together, grouped)
	golden(t, "testdata/format1-progress", all, grouped)
}

func golden(t *testing.T, format string, records []core.Record, write func(folder string)) {
	t.Helper()
	if _, err := os.Stat(format); os.IsNotExist(err) {
		if err := os.MkdirAll(format, 0o755); err != nil {
			t.Fatal(err)
		}
		write(format)
		if err := os.Remove(filepath.Join(format, spareFile)); err != nil {
			t.Fatal(err)
		}
		t.Fatalf("%s was written; commit it", format)
	}
	folder := folder(t)
	for _, name := range []string{identityFile, logFile} {
		data, err := os.ReadFile(filepath.Join(format, name))
		if err != nil {
			t.Fatal(err)
		}
		replace(t, folder, name, data)
	}
	store := disk(folder, "boot-1")
	defer store.Close()
	if diff := cmp.Diff(records, load(t, store), opts); diff != "" || store.Repaired() != "" {
		t.Errorf("%s\n%s", store.Repaired(), diff)
	}
}

// TestNewerIsRefused: R24. What a newer version wrote is reported as such and left as it is, whether or not the machine
// was booted since. It is not taken for damage.
func TestNewerIsRefused(t *testing.T) {
	folder := folder(t)
	_, log := written(t, folder)
	id, err := os.ReadFile(filepath.Join(folder, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, newer := range []struct{ name, file, holds, says string }{
		{"log", logFile, logMagic[:7] + "2 in whatever form the future has", "checkpoint.log: it has format 2 and this version reads up to format 1"},
		{"identity", identityFile, identityMagic[:7] + "2 in whatever form the future has", "identity: it has format 2 and this version reads up to format 1"},
		{"record", logFile, string(unknownRecord(t, log)), "checkpoint.log: a record of an unknown kind at byte"},
	} {
		replace(t, folder, identityFile, id)
		replace(t, folder, logFile, log)
		replace(t, folder, newer.file, []byte(newer.holds))
		for _, boot := range []string{"boot-1", "boot-2"} {
			_, err := disk(folder, boot).Load()
			if err == nil || !strings.Contains(err.Error(), newer.says) || !strings.Contains(err.Error(), "start that version, or a newer one") {
				t.Errorf("%s, %s: %v", newer.name, boot, err)
			}
			if left, err := os.ReadFile(filepath.Join(folder, newer.file)); err != nil || string(left) != newer.holds {
				t.Errorf("%s, %s: the file was changed: %v", newer.name, boot, err)
			}
		}
	}
}

// unknownRecord appends a whole frame whose record has only a field that no version knows.
func unknownRecord(t *testing.T, log []byte) []byte {
	t.Helper()
	generation, _ := cutHeader(log)
	held, err := parse(log, generation)
	if err != nil {
		t.Fatal(err)
	}
	payload := protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), "of the future")
	frame := make([]byte, frameBytes)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(frame[8:], held.frames+1)
	frame = append(frame, payload...)
	binary.LittleEndian.PutUint32(frame, sum(frame[4:], generation))
	return append(log[:held.good:held.good], frame...)
}
