package raftlog

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// TestAFileOfManyPagesIsTaken: branches, entries larger than pages, pages that were freed and
// used again. What checkRaftFile knows of the file is what its library does.
func TestAFileOfManyPagesIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: path, NoSync: true, MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := summed{bolt}
	next := uint64(1)
	for round := range 20 {
		var entries []*raft.Log
		for i := range 200 {
			size := 10 + 37*i
			if i == 100 {
				size = 300_000
			}
			entries = append(entries, &raft.Log{Index: next, Term: uint64(round + 1), Data: bytes.Repeat([]byte{byte(i)}, size)})
			next++
		}
		if err := s.StoreLogs(entries); err != nil {
			t.Fatal(err)
		}
		if err := s.SetUint64([]byte("CurrentTerm"), uint64(round+1)); err != nil {
			t.Fatal(err)
		}
		if round%5 == 4 {
			if err := s.DeleteRange(next-700, next-300); err != nil {
				t.Fatal(err)
			}
			first, _ := s.FirstIndex()
			if err := s.DeleteRange(first, next-301); err != nil {
				t.Fatal(err)
			}
		}
	}
	var entry raft.Log
	if err := s.GetLog(next-1, &entry); err != nil || entry.Extensions != nil || len(entry.Data) != 10+37*199 {
		t.Errorf("the last entry: %v, %d bytes", err, len(entry.Data))
	}
	first, err := s.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := bolt.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkRaftFile(path, first-1); err != nil {
		t.Error(err)
	}
	if err := checkRaftFile(path, first-2); err == nil {
		t.Error("an entry between the snapshot and the log is missing, and nobody sees it")
	}
}
