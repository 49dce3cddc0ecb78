package raftlog

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// farAhead says what is wrong with another master's term; nil when it may be true. Who knows none
// takes any. Whoever named a term near the end of the numbers once, by a damaged folder or by
// intent, would take all masters along, and no agent follows them there (R1).
func farAhead(known, term uint64, who string) error {
	if known == 0 || term <= known || term-known <= protocol.TermsMax {
		return nil
	}
	return fmt.Errorf("%s names term %d, impossibly far ahead of %d, the newest that this master knows; is its folder damaged, or another cluster's? "+
		"Remove that master and add it again with a fresh folder", who, term, known)
}

// termGate keeps impossible terms of other masters from our Raft.
type termGate struct {
	known func() uint64 // our own term
	once  sync.Once
	rpcs  chan raft.RPC
	over  chan struct{}
	close sync.Once
}

func newTermGate(known func() uint64) *termGate {
	return &termGate{known: known, rpcs: make(chan raft.RPC), over: make(chan struct{})}
}

// answered is the error of an exchange, and that its answer names an impossible term.
func (g *termGate) answered(err error, id raft.ServerID, term uint64) error {
	if err != nil {
		return err
	}
	return farAhead(g.known(), term, "master "+string(id))
}

// takes answers a request that names an impossible term, and returns false.
func (g *termGate) takes(rpc raft.RPC) bool {
	var term uint64
	switch request := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		term = request.Term
	case *raft.RequestVoteRequest:
		term = request.Term
	case *raft.RequestPreVoteRequest:
		term = request.Term
	case *raft.InstallSnapshotRequest:
		term = request.Term
	}
	who := "a master"
	if header, is := rpc.Command.(raft.WithRPCHeader); is && len(header.GetRPCHeader().ID) > 0 {
		who = "master " + string(header.GetRPCHeader().ID)
	}
	err := farAhead(g.known(), term, who)
	if err != nil {
		rpc.Respond(nil, err)
	}
	return err == nil
}

// pass hands on the requests that may be true, until the gate is closed.
func (g *termGate) pass(from <-chan raft.RPC) <-chan raft.RPC {
	g.once.Do(func() {
		go func() {
			for {
				select {
				case rpc := <-from:
					if !g.takes(rpc) {
						continue
					}
					select {
					case g.rpcs <- rpc:
					case <-g.over:
						return
					}
				case <-g.over:
					return
				}
			}
		}()
	})
	return g.rpcs
}

func (g *termGate) end() { g.close.Do(func() { close(g.over) }) }

// checkOwnTerm refuses a folder whose term no election can have led to.
func (f *folder) checkOwnTerm() error {
	term, err := f.stable.GetUint64(currentTerm)
	if err != nil {
		return nil //nolint:nilerr // a folder that has taken part in no election has none
	}
	known, err := f.lastTerm()
	if err != nil {
		return err
	}
	if farAhead(known, term, "") == nil {
		return nil
	}
	return api.E("raft.start", api.Invalid, f.dir, fmt.Errorf("it names term %d, impossibly far ahead of %d, that of its last entry; "+
		"it is damaged: remove this master and add it again with a fresh folder", term, known))
}

// lastTerm is that of the last entry, or of the snapshot in its place; 0: there is neither.
func (f *folder) lastTerm() (uint64, error) {
	last, err := f.logs.LastIndex()
	if err != nil {
		return 0, err
	}
	if last > 0 {
		var entry raft.Log
		err = f.logs.GetLog(last, &entry)
		return entry.Term, err
	}
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[0].Term, nil
}
