package checkpoint

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/agent/core"
)

// TestDamageIsSeen damages the files of a checkpoint a thousand times, by seed; ten thousand times with
// TENDER_TEST_LONG. Each start either fails and says what to do, or goes on with exactly what was written, up to a torn
// tail that it reports. It never goes on with something that nobody wrote, and never with less without saying so.
func TestDamageIsSeen(t *testing.T) {
	folder := folder(t)
	store := disk(folder, "boot-1")
	load(t, store)
	records := append([]core.Record{identityRecord}, everyRecord()...)
	add(t, store, records[:1]...)
	wholes, sizes := []int{1}, []int64{headerBytes}
	for from := 1; from < len(records); {
		to := min(from+1+from%4, len(records))
		add(t, store, records[from:to]...)
		from = to
		wholes, sizes = append(wholes, to), append(sizes, store.size)
	}
	later := identityRecord
	later.Term.Number++
	records[0] = later
	add(t, store, later) // by now there is a log, and the identity says so
	store.Close()
	files := map[string][]byte{}
	for _, name := range []string{identityFile, spareFile, logFile} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	times := 1000
	switch {
	case os.Getenv("TENDER_TEST_LONG") != "":
		times = 10_000
	case testing.Short():
		times = 200
	}
	random := rand.New(rand.NewPCG(9, 7))
	refused, cut, whole := 0, 0, 0
	for n := range times {
		name := []string{identityFile, logFile, logFile, spareFile}[random.IntN(4)]
		what, damaged := damageTo(random, files[name])
		for _, file := range []string{identityFile, spareFile, logFile} {
			replace(t, folder, file, files[file])
		}
		if damaged == nil {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		} else {
			replace(t, folder, name, damaged)
		}
		story := fmt.Sprintf("damage %d, %s: %s", n, name, what)
		store := disk(folder, "boot-1")
		got, err := store.Load()
		store.Close()
		same := bytes.Equal(damaged, files[name]) || name == spareFile
		switch {
		case err != nil:
			refused++
			if same || !saysWhatToDo(err) {
				t.Fatalf("%s: %v", story, err)
			}
			if left, _ := os.ReadFile(filepath.Join(folder, name)); !bytes.Equal(left, damaged) {
				t.Fatalf("%s: the refused start has changed the file", story)
			}
		case name == identityFile && !same:
			t.Fatalf("%s: nobody saw it", story)
		case len(got) == len(records):
			whole++
			if diff := cmp.Diff(records, got, opts); diff != "" || !same && store.Repaired() == "" {
				t.Fatalf("%s: repaired %q, %s", story, store.Repaired(), diff)
			}
		default:
			cut++
			atGroup := false
			for i, size := range sizes {
				atGroup = atGroup || len(got) == wholes[i] && int64(len(damaged)) == size
			}
			if store.Repaired() == "" && !atGroup { // a log that is cut there looks like one to which nothing more was written
				t.Fatalf("%s: %d of %d records, and not a word", story, len(got), len(records))
			}
			if !reflect.DeepEqual(records[:len(got)], got) {
				if diff := cmp.Diff(records[:len(got)], got, opts); diff != "" {
					t.Fatalf("%s: %s", story, diff)
				}
			}
		}
	}
	t.Logf("%d refused, %d cut at a torn tail, %d unharmed", refused, cut, whole)
	if refused < times/4 || cut == 0 || whole == 0 {
		t.Error("the damage is too one-sided to say much")
	}
}

// saysWhatToDo says whether a person who reads the error knows the next step.
func saysWhatToDo(err error) bool {
	for _, words := range []string{"restore it from a backup", "remove the folder to begin a new agent", "start that version, or a newer one"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// damageTo damages a file in one way; nil means that the file is removed.
func damageTo(random *rand.Rand, data []byte) (what string, damaged []byte) {
	damaged = bytes.Clone(data)
	at := random.IntN(len(data))
	length := 1 + random.IntN(len(data)-at)
	switch random.IntN(10) {
	case 0:
		return "removed", nil
	case 1, 2:
		return fmt.Sprintf("cut off at %d", at), damaged[:at]
	case 3:
		clear(damaged[at : at+length])
		return fmt.Sprintf("%d zeros at %d", length, at), damaged
	case 4:
		return fmt.Sprintf("%d bytes cut out at %d", length, at), append(damaged[:at], data[at+length:]...)
	case 5:
		return fmt.Sprintf("%d bytes twice at %d", length, at), append(damaged[:at+length], data[at:]...)
	case 6:
		flips := 2 + random.IntN(8)
		for range flips {
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		}
		return fmt.Sprintf("%d flips", flips), damaged
	}
	bit := random.IntN(8)
	damaged[at] ^= 1 << bit
	return fmt.Sprintf("bit %d of byte %d flipped", bit, at), damaged
}
