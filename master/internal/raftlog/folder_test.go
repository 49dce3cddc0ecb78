package raftlog

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tenderhq/tender/master/quorum"
)

// rewrite is the flag of all transcripts and golden files.
var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// goldenSettings are what testdata/raft-1.json says: every field set.
func goldenSettings() settings {
	peers := []Peer{{ID: "m1", Addr: "host1:5070"}, {ID: "m2", Addr: "host2:5070"}, {ID: "m3", Addr: "host3:5070"}}
	return settings{
		Format: 1, ID: "m2", Advertise: "host2:5070", Incarnation: "7f2a", Peers: peers, Cluster: "c-1f3e",
		Founders: []quorum.Founder{{Peer: peers[0], Incarnation: "51bb"}, {Peer: peers[1], Incarnation: "7f2a"}, {Peer: peers[2], Incarnation: "c0de"}}, Voted: true, Epoch: 3,
	}
}

// TestGoldenSettings: R24. The folder's own file is read as it was meant, and written as it was.
func TestGoldenSettings(t *testing.T) {
	golden, dir := filepath.Join("testdata", "raft-1.json"), t.TempDir()
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, settingsFile), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &folder{dir: dir}
	if *rewrite {
		f.settings = goldenSettings()
	} else if err := f.load(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenSettings(), f.settings); diff != "" {
		t.Error(diff)
	}
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		kept = written
		if err := os.WriteFile(golden, written, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(kept), string(written)); diff != "" {
		t.Error(diff)
	}
}

// TestNewerSettingsAreRefused: also when their fields are of other kinds.
func TestNewerSettingsAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, data := range []string{`{"format": 2, "id": "m1"}`, `{"format": 2, "id": {"name": "m1"}, "peers": "none"}`} {
		if err := os.WriteFile(filepath.Join(dir, settingsFile), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		f := &folder{dir: dir}
		if err := f.load(); err == nil || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "newer") {
			t.Errorf("%s: %v", data, err)
		}
	}
}
