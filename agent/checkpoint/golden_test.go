package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGolden loads a checkpoint that was written when format 1 was new (R24). A folder
// that is missing is written, for the day when there is a format 2; the old ones stay.
func TestGolden(t *testing.T) {
	const format = "testdata/format1"
	if _, err := os.Stat(format); os.IsNotExist(err) {
		if err := os.MkdirAll(format, 0o755); err != nil {
			t.Fatal(err)
		}
		written(t, format)
		if err := os.Remove(filepath.Join(format, reserveFile)); err != nil {
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
	records, _ := written(t, t.TempDir())
	store := disk(folder, "boot-1")
	defer store.Close()
	if diff := cmp.Diff(records, load(t, store), opts); diff != "" || store.Repaired() != "" {
		t.Errorf("%s\n%s", store.Repaired(), diff)
	}
}
