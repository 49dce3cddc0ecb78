package raftlog

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

var flips = flag.Int("flips", 1000, "how many bits and tails TestFlipsAreFound breaks")

// contents is all that a start takes from a folder.
type contents struct {
	Settings settings
	Entries  []raft.Log
	Values   map[string]string
	Hash     string // of the newest snapshot's registry
	Members  raft.Configuration
}

// contentsOf opens a folder as a start does.
func contentsOf(dir string) (contents, error) {
	f := &folder{dir: dir}
	if err := f.load(); err != nil {
		return contents{}, err
	}
	if err := f.open(quietLogger()); err != nil {
		return contents{}, err
	}
	found, err := f.contents()
	return found, errors.Join(err, f.close())
}

func (f *folder) contents() (contents, error) {
	found := contents{Settings: f.settings, Values: make(map[string]string)}
	snapshot, err := f.checkSnapshot()
	if err != nil {
		return found, err
	}
	first, _ := f.logs.FirstIndex()
	last, _ := f.logs.LastIndex()
	for index := max(first, 1); index <= last; index++ {
		var entry raft.Log
		if err := f.logs.GetLog(index, &entry); errors.Is(err, raft.ErrLogNotFound) && index <= snapshot {
			continue
		} else if err != nil {
			return found, err
		}
		found.Entries = append(found.Entries, entry)
	}
	for _, key := range stableKeys {
		if value, err := f.stable.Get(key); err == nil {
			found.Values[string(key)] = string(value)
		} else if err.Error() != "not found" {
			return found, err
		}
	}
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 {
		return found, err
	}
	_, source, err := f.snapshots.Open(list[0].ID)
	if err != nil {
		return found, err
	}
	defer source.Close()
	state, _, err := registrycodec.ReadSnapshot(source)
	if err == nil {
		found.Hash = fmt.Sprint(list[0].Version, list[0].Index, list[0].Term, list[0].Size, list[0].ConfigurationIndex, registrycodec.Hash(state))
		found.Members = list[0].Configuration
	}
	return found, err
}

// TestFlipsAreFound: flipped bits and lost tails in the log, its values, snapshots and settings are found at start, or
// they hit something that is not read, so that what is read is what was written. Each refusal says that it is damage.
func TestFlipsAreFound(t *testing.T) {
	trials := *flips
	if testing.Short() {
		trials = min(trials, 300)
	}
	dir := t.TempDir()
	q := diskQuorum(t, 1, dir)
	_, lead := q.leader("")
	for i := range 40 {
		if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.nodes["m1"].engine.running().Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		set := registry.SetRole{Role: "web", Set: registry.Role{Weight: float64(i + 1)}}
		if _, err := commit(lead, registry.Command{Client: "b", Counter: uint64(i + 1), Change: set}); err != nil {
			t.Fatal(err)
		}
	}
	q.stopAll()
	home := filepath.Join(dir, "m1")
	if _, err := contentsOf(home); err != nil { // the first start after a vote writes sums for what had none
		t.Fatal(err)
	}
	whole := filesOf(t, home)
	truth, err := contentsOf(home)
	if err != nil || len(truth.Entries) < 20 || len(truth.Values) < 2 || truth.Hash == "" {
		t.Fatalf("the folder holds %d entries, %d values, snapshot %q: %v", len(truth.Entries), len(truth.Values), truth.Hash, err)
	}
	names := make([]string, 0, len(whole))
	for name := range whole {
		names = append(names, name)
	}
	slices.Sort(names)
	random := rand.New(rand.NewPCG(1, 2))
	base := t.TempDir()
	refused := map[string]int{}
	for trial := range trials {
		// A library that panics keeps the file locked as long as its process lives.
		scratch := filepath.Join(base, fmt.Sprint(trial))
		name := names[random.IntN(len(names))]
		bad := bytes.Clone(whole[name])
		var what string
		if random.IntN(5) == 0 {
			bad = bad[:random.IntN(len(bad))]
			what = fmt.Sprintf("%s cut to %d bytes", name, len(bad))
		} else {
			at, bit := random.IntN(len(bad)), random.IntN(8)
			bad[at] ^= 1 << bit
			what = fmt.Sprintf("bit %d of byte %d of %s", bit, at, name)
		}
		write(t, scratch, whole)
		writeFile(t, filepath.Join(scratch, name), bad)
		found, err := contentsOf(scratch)
		switch {
		case err != nil:
			refused[filepath.Base(name)]++
			if !strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "the folder has format") {
				t.Fatalf("%s: the start does not say that it is damage: %v", what, err)
			}
		case !cmp.Equal(found, truth):
			t.Fatalf("%s: used as it is: %s", what, cmp.Diff(truth, found))
		}
		if err := os.RemoveAll(scratch); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("refused:", refused)
}

func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		writeFile(t, filepath.Join(dir, name), data)
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
