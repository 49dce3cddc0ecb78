package raftlog

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// fullStore takes no writes while it is full.
type fullStore struct {
	*raft.InmemStore
	full bool
}

func (f *fullStore) StoreLogs(entries []*raft.Log) error {
	if f.full {
		return errors.New("no space left on device")
	}
	return f.InmemStore.StoreLogs(entries)
}

// TestDiskIsWatched: the last write tells how the disk is, through the checksums that lie above it.
func TestDiskIsWatched(t *testing.T) {
	l := &Log{folder: &folder{}}
	disk := &fullStore{InmemStore: raft.NewInmemStore()}
	log := &summed{store: watched{store: disk, failed: &l.folder.failed}}
	write := func(index uint64) error { return log.StoreLog(&raft.Log{Index: index, Term: 1}) }
	if err := write(1); err != nil || l.Disk() != "" {
		t.Errorf("a write failed with %v; the disk: %q", err, l.Disk())
	}
	disk.full = true
	if err := write(2); err == nil || l.Disk() != "no space left on device" {
		t.Errorf("a write to a full disk: %v; the disk: %q", err, l.Disk())
	}
	disk.full = false
	if err := write(2); err != nil || l.Disk() != "" {
		t.Errorf("after it: %v; the disk: %q", err, l.Disk())
	}
}
