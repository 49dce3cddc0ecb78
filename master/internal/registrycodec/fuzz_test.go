package registrycodec

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/registry"
)

// addGolden adds the golden files of a name to the corpus.
func addGolden(f *testing.F, pattern string) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("there are no files %s: %v", pattern, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		data, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// FuzzEntry: whatever stands in the log, reading it gives commands or an error, and applying them gives results (R18).
// What was read is written again as the same commands.
func FuzzEntry(f *testing.F) {
	addGolden(f, "*entry*")
	f.Fuzz(func(t *testing.T, data []byte) {
		commands, err := DecodeEntry(data)
		if err != nil {
			return
		}
		state := registry.New()
		var again []*logpb.Command
		for _, command := range commands {
			state.Apply(command)
			m, _, err := EncodeCommand(command)
			if err != nil {
				return // it is larger than anything that is written
			}
			again = append(again, m)
		}
		written, err := EncodeEntry(again, 0)
		if err != nil {
			return
		}
		if twice, err := DecodeEntry(written); err != nil || len(twice) != len(commands) {
			t.Fatalf("%d commands are read as %d: %v", len(commands), len(twice), err)
		}
	})
}

// FuzzSnapshot: whatever a snapshot is, reading it gives a state or an error, and a state that was read can be written
// and read again.
func FuzzSnapshot(f *testing.F) {
	addGolden(f, "*snapshot*")
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ReadHead(bytes.NewReader(data))
		state, _, err := ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteSnapshot(&again, state, 1); err != nil {
			return
		}
		if _, _, err := ReadSnapshot(&again); err != nil {
			t.Fatal(err)
		}
	})
}
