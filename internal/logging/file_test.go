package logging_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/logging"
)

// TestFile: the files never hold more than they may, nothing between the oldest kept line and the newest is missing, and
// nobody else may read them.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tender.log")
	if err := os.WriteFile(name, []byte("line 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const bytesMax, files, lines = 100, 3, 200
	var file *logging.File
	for i := 1; i <= lines; i++ {
		if i%50 == 1 { // as after a restart
			if file != nil {
				if err := file.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if file, err = logging.OpenFile(name, bytesMax, files); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(file, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("too late\n")); err == nil {
		t.Error("a closed log took a line")
	}
	all := ""
	for _, one := range []string{name + ".2", name + ".1", name} {
		text, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(one); err != nil || info.Mode().Perm() != 0o600 || info.Size() > bytesMax {
			t.Errorf("%s: %v, %d bytes, %v", one, info.Mode(), info.Size(), err)
		}
		all += string(text)
	}
	if _, err := os.Stat(name + ".3"); err == nil {
		t.Error("there is a fourth file")
	}
	kept := strings.Split(strings.TrimSpace(all), "\n")
	for i, line := range kept {
		if want := fmt.Sprintf("line %d", lines-len(kept)+1+i); line != want {
			t.Fatalf("%q stands where %q should", line, want)
		}
	}
	if len(kept) < 2*bytesMax/len("line 200\n") {
		t.Errorf("only %d lines are kept", len(kept))
	}
}

// TestFileThatCanNotBeMoved: a line that can't be written is an error, and later ones are written once that is over.
func TestFileThatCanNotBeMoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := logging.OpenFile(filepath.Join(folder, "tender.log"), 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func() error { _, err := file.Write([]byte("12345678\n")); return err }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if write() == nil {
			t.Error("a line was written into a folder that is gone")
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Errorf("the folder is back: %v", err)
	}
}
