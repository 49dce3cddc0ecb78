package raftlog

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// fullStore takes no writes while it is full.
type fullStore struct {
	*raft.InmemStore
	full atomic.Bool
}

func (f *fullStore) StoreLogs(entries []*raft.Log) error {
	if f.full.Load() {
		return syscall.ENOSPC
	}
	return f.InmemStore.StoreLogs(entries)
}

func (f *fullStore) SetUint64(key []byte, value uint64) error {
	if f.full.Load() {
		return syscall.ENOSPC
	}
	return f.InmemStore.SetUint64(key, value)
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
	disk.full.Store(true)
	if err := write(2); err == nil || l.Disk() != "no space left on device" {
		t.Errorf("a write to a full disk: %v; the disk: %q", err, l.Disk())
	}
	disk.full.Store(false)
	if err := write(2); err != nil || l.Disk() != "" {
		t.Errorf("after it: %v; the disk: %q", err, l.Disk())
	}
}

// TestAFullDiskEndsItsMaster: a master that can't write its term ends and says what is wrong and what to do, whether it
// is a follower, the only master, or one that starts. The other masters continue, and once there is room it comes back.
func TestAFullDiskEndsItsMaster(t *testing.T) {
	full := func(n *node) *fullStore { return n.memory.logs.(*fullStore) }
	ended := func(t *testing.T, n *node) {
		t.Helper()
		err := <-n.ended
		if err == nil || !strings.Contains(err.Error(), "term") || !strings.Contains(err.Error(), "make room on the disk of") {
			t.Errorf("it ended with %v", err)
		}
	}
	start := func(t *testing.T, masters ...Peer) *cluster {
		q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}, peers: masters}
		for _, peer := range masters {
			q.start(peer, &Memory{logs: &fullStore{InmemStore: raft.NewInmemStore()}, snapshots: raft.NewInmemSnapshotStore()})
		}
		return q
	}
	m1, m2, m3 := Peer{ID: "m1", Addr: "host1:5070"}, Peer{ID: "m2", Addr: "host2:5070"}, Peer{ID: "m3", Addr: "host3:5070"}
	t.Run("follower", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := start(t, m1, m2, m3)
			leader, _ := q.leader("")
			poor := other(q, leader)
			stays := q.nodes[poor]
			full(stays).full.Store(true)
			for _, peer := range q.peers {
				if peer.ID != leader && peer.ID != poor {
					if err := q.nodes[leader].Members.Transfer(t.Context(), peer.ID); err != nil {
						t.Error(err)
					}
				}
			}
			ended(t, stays)
			delete(q.nodes, poor)
			_, lead := q.leader(leader)
			if _, err := commit(lead, admit("a", 1)); err != nil {
				t.Error("the others do not go on:", err)
			}
			full(stays).full.Store(false)
			q.start(Peer{ID: poor, Addr: stays.config.Advertise}, stays.memory)
			q.agree()
			q.stopAll()
		})
	})
	t.Run("only master", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := start(t, m1)
			_, lead := q.leader("")
			alone := q.nodes["m1"]
			full(alone).full.Store(true)
			if _, err := commit(lead, admit("a", 1)); !api.Is(err, api.Unknown) {
				t.Errorf("a write to a full disk came to %v", err)
			}
			ended(t, alone)
			ended(t, q.start(m1, alone.memory))
			full(alone).full.Store(false)
			q.start(m1, alone.memory)
			_, lead = q.leader("")
			if _, err := commit(lead, admit("a", 1)); err != nil {
				t.Error(err)
			}
			q.stopAll()
		})
	})
}
