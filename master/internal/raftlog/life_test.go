package raftlog

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// heldMachine and heldStore wait wherever the channel that they hold is open.
type heldMachine struct{ hold <-chan struct{} }

func (m heldMachine) Apply(*raft.Log) any                 { <-m.hold; return nil }
func (m heldMachine) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("it makes none") }
func (m heldMachine) Restore(io.ReadCloser) error         { return nil }

type heldStore struct {
	*raft.InmemStore
	hold chan chan struct{}
}

func (s heldStore) StoreLogs(entries []*raft.Log) error {
	select {
	case hold := <-s.hold:
		<-hold
	default:
	}
	return s.InmemStore.StoreLogs(entries)
}

// aLife is a life of a quorum of one that leads.
func aLife(t *testing.T, machine raft.FSM, logs raft.LogStore) *life {
	t.Helper()
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = serverID("m1", "i1"), quietLogger()
	_, transport := raft.NewInmemTransport("host1:5070")
	stable, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(config, logs, stable, snapshots, transport, onlyVoter(Peer{ID: "m1", Addr: "host1:5070"}, "i1")); err != nil {
		t.Fatal(err)
	}
	library, err := raft.NewRaft(config, machine, logs, stable, snapshots, transport)
	if err != nil {
		t.Fatal(err)
	}
	for <-library.LeaderCh(); library.VerifyLeader().Error() != nil; {
		advance(time.Second)
	}
	return &life{Raft: library, over: make(chan struct{})}
}

// TestNobodyWaitsBeyondRaft: when the library ends, it never answers what it has committed but not applied. Whoever
// waits for that is told that Raft has ended.
func TestNobodyWaitsBeyondRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		r := aLife(t, heldMachine{hold}, raft.NewInmemStore())
		answers := make(chan error)
		const entries = 40 // the library takes a queued one or the end by chance
		for range entries {
			future := r.apply([]byte("entry"))
			synctest.Wait()
			go func() { answers <- await(t.Context(), future) }()
		}
		go func() {
			for r.State() != raft.Shutdown {
				advance(time.Millisecond)
			}
			close(hold)
		}()
		if err := r.end("m1"); err != nil {
			t.Error(err)
		}
		forgotten := 0
		for range entries {
			if err := <-answers; errors.Is(err, raft.ErrRaftShutdown) {
				forgotten++
			} else if err != nil {
				t.Error(err)
			}
		}
		if forgotten == 0 {
			t.Error("the library has applied all that it held: nothing was tested")
		}
	})
}

// TestRaftThatDoesNotEnd: whatever Raft was asked for, nobody waits longer than for its end, even if it does not come
// to its end because its disk does not answer.
func TestRaftThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		close(free)
		store, stuck := heldStore{raft.NewInmemStore(), make(chan chan struct{}, 1)}, make(chan struct{})
		r := aLife(t, heldMachine{free}, store)
		store.hold <- stuck
		go r.Apply([]byte("an entry that the disk takes for ever to write"), 0)
		synctest.Wait()
		asked := map[string]func() raft.Future{
			"apply":       func() raft.Future { return r.apply([]byte("entry")) },
			"barrier":     r.barrier,
			"verify":      r.verify,
			"add":         func() raft.Future { return r.addNonvoter(Peer{ID: "m2", Addr: "host2:5070"}, "i2") },
			"vote":        func() raft.Future { return r.addVoter(Peer{ID: "m2", Addr: "host2:5070"}) },
			"remove":      func() raft.Future { return r.remove("m2") },
			"transfer":    func() raft.Future { return r.handOver(Peer{}) },
			"transfer to": func() raft.Future { return r.handOver(Peer{ID: "m2", Addr: "host2:5070"}) },
			"snapshot":    r.snapshot,
		}
		answered := make(chan bool)
		for what, ask := range asked {
			go func() {
				if err := await(t.Context(), ask()); err == nil {
					t.Error(what, "succeeded")
				}
				answered <- true
			}()
		}
		if err := r.end("m1"); !api.Is(err, api.Internal) {
			t.Errorf("the end of Raft: %v", err)
		}
		for range len(asked) {
			<-answered
		}
		close(stuck)
	})
}
