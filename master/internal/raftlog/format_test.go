package raftlog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// knowing awaits that all masters have a format, or that time has passed without it.
func (q *cluster) knowing(format uint64) bool {
	for range 1000 {
		all := true
		for _, n := range q.nodes {
			all = all && max(n.Registry().Format, 1) >= format // 0 is read as 1
		}
		if all {
			return true
		}
		advance(10 * time.Millisecond)
	}
	return false
}

// TestANewFormatWaitsForAllMasters: R24. A quorum in the middle of its upgrade writes
// nothing that its oldest member can't read; after the last one it does, for ever.
func TestANewFormatWaitsForAllMasters(t *testing.T) {
	defer registrytest.Knowing(2)()
	synctest.Test(t, func(t *testing.T) {
		formats := map[api.MasterID]uint64{"m1": 1, "m2": 1, "m3": 1}
		versions := map[api.MasterID]string{"m1": "v0.4.0", "m2": "v0.4.2", "m3": "v0.4.0"}
		q := builtQuorum(t, 3, func(c *Config) { c.Format, c.Version = formats[c.ID], versions[c.ID] })
		q.leader("")
		for _, id := range []api.MasterID{"m1", "m2", "m3"} {
			if q.knowing(2) {
				t.Fatalf("format 2 is used before %s reads it", id)
			}
			formats[id], versions[id] = 2, "v0.5.0"
			q.start(peerOf(q, id), q.stop(id))
		}
		if !q.knowing(2) {
			t.Fatal("all masters read format 2, and it is not used")
		}
		q.agree()
		q.stopAll()
	})
}

func peerOf(q *cluster, id api.MasterID) Peer {
	for _, peer := range q.peers {
		if peer.ID == id {
			return peer
		}
	}
	return Peer{}
}

// TestAMemberThatIsDownCountsAsOld: the format that it reads is not known until it has said so.
func TestAMemberThatIsDownCountsAsOld(t *testing.T) {
	defer registrytest.Knowing(2)()
	synctest.Test(t, func(t *testing.T) {
		q := builtQuorum(t, 3, func(c *Config) { c.Format = 1 })
		q.leader("")
		down := q.stop("m3")
		q.build = nil
		for _, id := range []api.MasterID{"m1", "m2"} {
			q.start(peerOf(q, id), q.stop(id))
		}
		if q.knowing(2) {
			t.Fatal("format 2 is used though m3 was not asked")
		}
		q.start(peerOf(q, "m3"), down)
		if !q.knowing(2) {
			t.Fatal("m3 is back, and format 2 is not used")
		}
		q.stopAll()
	})
}

// TestMastersTooFarApartDoNotMeet: R24. A third master two minor versions behind is kept
// out, and told why.
func TestMastersTooFarApartDoNotMeet(t *testing.T) {
	defer registrytest.Knowing(2)()
	synctest.Test(t, func(t *testing.T) {
		q := builtQuorum(t, 1, func(c *Config) {
			c.Version = "v0.6.0"
			if c.ID == "m2" {
				c.Version = "v0.4.1"
			}
		})
		_, lead := q.leader("")
		if _, err := commit(lead, admit("a", 1)); err != nil {
			t.Fatal(err)
		}
		q.knowing(2)
		old := Peer{ID: "m2", Addr: "host2:5070"}
		q.start(old, NewMemory())
		err := q.nodes["m1"].Members.Add(context.Background(), old)
		if api.KindOf(err) != api.Unsupported || !strings.Contains(err.Error(), "v0.4.1") || !strings.Contains(err.Error(), "v0.6.0") {
			t.Errorf("added two versions apart: %v", err)
		}
		q.stop("m2")
		q.build = func(c *Config) { c.Version, c.Format = "v0.5.0", 1 }
		q.start(old, NewMemory())
		if err := q.nodes["m1"].Members.Add(context.Background(), old); api.KindOf(err) != api.Unsupported || !strings.Contains(err.Error(), "format 1") {
			t.Errorf("added though it can't read the log: %v", err)
		}
		q.stopAll()
	})
}

// TestANewerLogIsRefusedBeforeRaftOpens: by an entry and by a snapshot, with a sentence.
func TestANewerLogIsRefusedBeforeRaftOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		_, lead := q.leader("")
		future := fmt.Sprintf("format %d", registry.Format+1)
		// It is written, and stops the master that can't apply it.
		_, _ = commit(lead, registry.Command{Change: registry.RaiseFormat{Format: registry.Format + 1}})
		memory := q.nodes["m1"].memory
		q.nodes["m1"].stop()
		if err := <-q.nodes["m1"].ended; err != nil && !strings.Contains(err.Error(), future) {
			t.Errorf("it ended with %v", err)
		}
		delete(q.nodes, "m1")
		_, err := Open(q.config(q.peers[0], memory))
		if err == nil || !strings.Contains(err.Error(), future) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("a log of the future was opened: %v", err)
		}
	})
}
