package raftlog

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// carrier is the library's transport, which dials addresses and pools connections by
// address. Here both go by who is meant as well: addresses change hands when masters move,
// and the vote of whoever answers must never be counted as another's. What names an impossible
// term never comes to our Raft. A pipeline needs no such look: it begins behind an answer that had one.
type carrier struct {
	*raft.NetworkTransport
	gate *termGate
}

func (c *carrier) Consumer() <-chan raft.RPC { return c.gate.pass(c.NetworkTransport.Consumer()) }

// SetHeartbeatHandler gives heartbeats another way than the library's, which would handle them beside its main loop. It
// looks at its term there, and sets it later: a master that became a candidate meanwhile, by a transfer, fell back to the
// term before and led in it, beside its leader (P17).
func (c *carrier) SetHeartbeatHandler(func(raft.RPC)) {
	c.NetworkTransport.SetHeartbeatHandler(c.gate.beat)
}

func (c *carrier) Close() error {
	c.gate.end()
	return c.NetworkTransport.Close()
}

// meant is an address with the master that is to answer there, as the stream dials it.
func meant(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + addr
}

func meantPeer(address raft.ServerAddress) Peer {
	at := strings.LastIndexByte(string(address), '@')
	if at < 0 {
		return Peer{Addr: string(address)}
	}
	return Peer{ID: api.MasterID(address[:at]), Addr: string(address[at+1:])}
}

func (c *carrier) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	return c.NetworkTransport.AppendEntriesPipeline(id, meant(id, to))
}

func (c *carrier) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := c.NetworkTransport.AppendEntries(id, meant(id, to), args, resp)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := c.NetworkTransport.RequestVote(id, meant(id, to), args, resp)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	err := c.NetworkTransport.RequestPreVote(id, meant(id, to), args, resp)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := c.NetworkTransport.InstallSnapshot(id, meant(id, to), args, resp, data)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return c.NetworkTransport.TimeoutNow(id, meant(id, to), args, resp)
}

// termGate keeps impossible terms of other masters from our Raft, and answers heartbeats that change nothing.
type termGate struct {
	known   func() uint64                                // our own term
	follows func(leader raft.ServerID, term uint64) bool // whether we follow this leader in this term
	once    sync.Once
	rpcs    chan raft.RPC
	beats   chan raft.RPC // the newest heartbeat that was answered: it tells Raft that its leader lives
	over    chan struct{}
	close   sync.Once
}

func newTermGate(known func() uint64, follows func(raft.ServerID, uint64) bool) *termGate {
	return &termGate{known: known, follows: follows, rpcs: make(chan raft.RPC), beats: make(chan raft.RPC, 1), over: make(chan struct{})}
}

// beat takes a heartbeat. Raft's main loop may be busy with a slow disk while its leader waits to hear that we follow:
// that is answered here, and changes nothing. All else is the main loop's.
func (g *termGate) beat(rpc raft.RPC) {
	if !g.takes(rpc) {
		return
	}
	request, is := rpc.Command.(*raft.AppendEntriesRequest)
	if !is || !g.follows(raft.ServerID(request.ID), request.Term) {
		g.hand(rpc)
		return
	}
	rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: request.ProtocolVersion}, Term: request.Term, Success: true}, nil)
	rpc.RespChan = make(chan raft.RPCResponse, 1) // nobody waits for a second answer
	select {
	case g.beats <- rpc:
	default: // one waits already
	}
}

// hand gives a request to Raft's main loop, unless the gate is closed meanwhile.
func (g *termGate) hand(rpc raft.RPC) {
	select {
	case g.rpcs <- rpc:
	case <-g.over:
	}
}

// answered is the error of an exchange, and that its answer names an impossible term.
func (g *termGate) answered(err error, id raft.ServerID, term uint64) error {
	if err != nil {
		return err
	}
	return quorum.FarAhead(g.known(), term, "master "+string(id))
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
	err := quorum.FarAhead(g.known(), term, who)
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
					if g.takes(rpc) {
						g.hand(rpc)
					}
				case rpc := <-g.beats:
					g.hand(rpc)
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
	if quorum.FarAhead(known, term, "") == nil {
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
