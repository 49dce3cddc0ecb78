package raftlog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// TestSizes: what of a log fits, by what is known of it.
func TestSizes(t *testing.T) {
	var s sizes
	for range 100_000 {
		s.add(1 << 10)
	}
	if n := s.within(1 << 30); n != 0 {
		t.Errorf("%d entries are within more than there is", n)
	}
	if n := s.within(1 << 20); n < 900 || n > 1024 {
		t.Errorf("%d entries of 1 KiB are within 1 MiB", n)
	}
	if n := s.within(1); n != trailingMin {
		t.Errorf("%d entries are left of a log of large ones", n)
	}
	if len(s.chunks) > sizesMax {
		t.Errorf("%d chunks", len(s.chunks))
	}
}

// TestLogIsTrimmedByBytes: few large entries make a snapshot due and leave a short log;
// a follower that missed all of it gets the snapshot.
func TestLogIsTrimmedByBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		defer q.stopAll()
		_, lead := q.leader("")
		framework, err := commit(lead, registry.Command{Client: "a", Counter: 1, Change: registry.Subscribe{
			Framework: api.Framework{Name: "big", Roles: []api.Role{"web"}}, Instance: "i1",
		}})
		if err != nil || framework.Err != nil {
			t.Fatal(framework.Err, err)
		}
		value := bytes.Repeat([]byte("x"), registry.StoreValueBytesMax)
		for i := range snapshotBytes/len(value) + 2 {
			result, err := commit(lead, registry.Command{Client: "a", Counter: uint64(i + 2), Change: registry.PutEntry{
				Framework: framework.Framework, Session: framework.Session, Key: "k", Value: value,
			}})
			if err != nil || result.Err != nil {
				t.Fatal(result.Err, err)
			}
		}
		synctest.Wait()
		log := q.nodes["m1"].memory.logs
		first, _ := log.FirstIndex() // in memory: never fails
		last, _ := log.LastIndex()
		if kept := last - first; kept > trailingBytesMax/uint64(len(value))+sizesEach || kept < trailingMin {
			t.Errorf("%d entries of 1 MiB are left", kept)
		}
	})
}

// TestUnreadableSnapshot: P10. A flipped bit is found by the check of all of it, a
// missing file by each check.
func TestUnreadableSnapshot(t *testing.T) {
	dir := t.TempDir()
	q := diskQuorum(t, 1, dir)
	_, lead := q.leader("")
	if _, err := commit(lead, admit("a", 1)); err != nil {
		t.Fatal(err)
	}
	n := q.nodes["m1"]
	if err := n.engine.running().snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "m1", raftFolder, "snapshots", "*", "state.bin"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if id, err := n.folder.checkSnapshotHead(); err != nil || id == "" {
		t.Fatal(id, err)
	}
	data[len(data)-7] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.folder.checkSnapshotHead(); err != nil {
		t.Errorf("the head was not touched: %v", err)
	}
	if _, err := n.folder.checkSnapshot(); err == nil {
		t.Error("a flipped bit was not found")
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := n.Snapshots.check(n.engine.running()); err == nil || !strings.Contains(err.Error(), "read its snapshots") {
		t.Errorf("a leader without its snapshot: %v", err)
	}
	q.stopAll()
}
