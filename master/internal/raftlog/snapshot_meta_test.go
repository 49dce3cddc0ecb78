package raftlog

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
)

// TestAFollowerThatWasSentASnapshotStartsAgain: the description that it stores beside the snapshot agrees with the
// snapshot, and its log has a gap between what it had before and what followed the snapshot.
func TestAFollowerThatWasSentASnapshotStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		q := diskQuorum(t, 3, dir)
		id, lead := q.leader("")
		away := other(q, id)
		addr := q.nodes[away].config.Advertise
		q.stop(away)
		for i := range 50 {
			if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		config := q.nodes[id].engine.running().ReloadableConfig()
		config.TrailingLogs = 1
		if err := q.nodes[id].engine.running().ReloadConfig(config); err != nil {
			t.Fatal(err)
		}
		if err := q.nodes[id].Snapshots.Compact(); err != nil {
			t.Fatal(err)
		}
		q.onDisk(Peer{ID: away, Addr: addr}, filepath.Join(dir, string(away)))
		q.agree()
		if _, err := commit(lead, admit("b", 1)); err != nil {
			t.Fatal(err)
		}
		q.agree()
		q.stopAll()
		for _, id := range []api.MasterID{id, away} {
			snapshots := filepath.Join(dir, string(id), raftFolder, "snapshots")
			entries, err := os.ReadDir(snapshots)
			if err != nil || len(entries) != 1 {
				t.Fatalf("%s has %d snapshots: %v", id, len(entries), err)
			}
			if head, _, err := headOfFile(filepath.Join(snapshots, entries[0].Name(), "state.bin")); err != nil || head.MetaSum == "" {
				t.Errorf("the snapshot of %s has no seal: %+v, %v", id, head, err)
			}
			if _, err := contentsOf(filepath.Join(dir, string(id))); err != nil {
				t.Errorf("the folder of %s: %v", id, err)
			}
		}
	})
}
