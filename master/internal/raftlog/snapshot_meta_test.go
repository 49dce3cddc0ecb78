package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		if err := q.nodes[id].engine.running().snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		q.onDisk(Peer{ID: away, Addr: addr}, filepath.Join(dir, string(away)))
		q.agree()
		if _, err := commit(lead, admit("b", 1)); err != nil {
			t.Fatal(err)
		}
		q.agree()
		known := map[api.MasterID]Snapshot{id: q.nodes[id].Snapshots.Newest(), away: q.nodes[away].Snapshots.Newest()}
		q.stopAll()
		for _, id := range []api.MasterID{id, away} {
			snapshots := filepath.Join(dir, string(id), raftFolder, "snapshots")
			entries, err := os.ReadDir(snapshots)
			if err != nil || len(entries) != 1 {
				t.Fatalf("%s has %d snapshots: %v", id, len(entries), err)
			}
			head, size, err := headOfFile(filepath.Join(snapshots, entries[0].Name(), "state.bin"))
			if err != nil || head.MetaSum == "" {
				t.Errorf("the snapshot of %s has no seal: %+v, %v", id, head, err)
			}
			if is := known[id]; is.At.IsZero() || is.Bytes != size || !strings.Contains(entries[0].Name(), fmt.Sprintf("-%d-%d", is.Index, is.At.UnixMilli())) {
				t.Errorf("%s is said to have %+v; it has %s of %d bytes", id, is, entries[0].Name(), size)
			}
			if _, err := contentsOf(filepath.Join(dir, string(id))); err != nil {
				t.Errorf("the folder of %s: %v", id, err)
			}
		}
	})
}
