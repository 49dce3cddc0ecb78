package raftlog

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// carrier is the transport that Raft's library uses. The library dials addresses and keeps connections by address. Here
// the address also names the master that is meant, because addresses change hands when masters move, and a vote must
// never be counted as that of another master. A message with an impossible term never reaches our Raft. Answers in a
// pipeline are not checked, because a pipeline begins after an answer that was.
type carrier struct {
	*raft.NetworkTransport
	gate   *termGate
	stream *stream
	// patience returns how long a follower bears a silent leader, which is also how long a candidate's election may
	// take.
	patience func() time.Duration
}

func (c *carrier) Consumer() <-chan raft.RPC { return c.gate.pass(c.NetworkTransport.Consumer()) }

// SetHeartbeatHandler installs our own handler for heartbeats. The library's would handle them beside its main loop: it
// checks its term and sets it a moment later. If the master had become a candidate meanwhile, because of a transfer, it
// would fall back to the earlier term and lead in it, beside that term's leader (P17).
func (c *carrier) SetHeartbeatHandler(func(raft.RPC)) {
	c.NetworkTransport.SetHeartbeatHandler(c.gate.beat)
}

func (c *carrier) Close() error {
	c.gate.end()
	return c.NetworkTransport.Close()
}

// meant returns an address together with the master that must answer there.
func meant(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + addr
}

// meantPeer returns the master that is meant with such an address, the incarnation of its folder, and for what it is
// dialed.
func meantPeer(address raft.ServerAddress) (purpose raft.ServerAddress, peer Peer, incarnation string) {
	for _, one := range []raft.ServerAddress{anew, ofLength} {
		if rest, is := strings.CutPrefix(string(address), string(one)); is {
			purpose, address = one, raft.ServerAddress(rest)
		}
	}
	at := strings.LastIndexByte(string(address), '@')
	if at < 0 {
		return purpose, Peer{Addr: string(address)}, ""
	}
	id, incarnation := masterOf(raft.ServerID(address[:at]))
	return purpose, Peer{ID: id, Addr: string(address[at+1:])}, incarnation
}

func (c *carrier) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	return c.NetworkTransport.AppendEntriesPipeline(id, meant(id, to))
}

func (c *carrier) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	bytes := 0
	for _, entry := range args.Entries {
		bytes += len(entry.Data)
	}
	err := secondTry(c, id, to, bytes, args, resp, c.NetworkTransport.AppendEntries)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := secondTry(c, id, to, 0, args, resp, c.NetworkTransport.RequestVote)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	err := secondTry(c, id, to, 0, args, resp, c.NetworkTransport.RequestPreVote)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := c.NetworkTransport.InstallSnapshot(id, ofLength+meant(id, to), args, resp, data)
	return c.gate.answered(err, id, resp.Term)
}

func (c *carrier) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return secondTry(c, id, to, 0, args, resp, c.NetworkTransport.TimeoutNow)
}

// keptConnectionsMax is how many idle connections to each master the library keeps.
const keptConnectionsMax = 3

// overKept repeats an exchange when its connection turns out to be lost, until all connections that the library kept
// have been tried. The library also keeps connections that have been closed meanwhile, and notices that only when it
// uses them. A follower uses its connections only for the votes that it asks for. Each lost connection cost it an
// election, as many in a row as were kept (P18). Every message of Raft may be sent twice; a snapshot is not repeated
// here.
func overKept(exchange func() error) error {
	err := exchange()
	for tries := 0; tries < keptConnectionsMax && isLost(err); tries++ {
		err = exchange()
	}
	return err
}

// isLost reports whether an exchange failed because its connection was closed or broke.
func isLost(err error) bool {
	var broke lost
	for !errors.As(err, &broke) {
		var coded interface{ Cause() error } // the library's decoder does not unwrap
		if !errors.As(err, &coded) {
			return false
		}
		err = coded.Cause()
	}
	return true
}

// A connection can die silently, for example when a firewall between two masters forgets it. Then what is written to it
// is lost and nobody is told, and whoever waits for the answer to a heartbeat, a vote or entries waits for far longer
// than an election takes. So after half of that time the same message is sent again over a new connection, and the
// first answer counts (P19). An answer on the new connection shows that the other master is well and that our older
// connections to it are dead. No connection is cut for being slow: a disk or a processor may take its time.

// bytesPerPatience is how many more bytes of a request let its sender wait for the same time once more.
const bytesPerPatience = 512 << 10

// secondTry does an exchange whose request has that many bytes of entries. As soon as one of the two tries has ended,
// the library may change the request, while the other try may still be writing it. So both write a copy, whose entries
// nobody changes.
func secondTry[Request, Answer any](
	c *carrier, id raft.ServerID, to raft.ServerAddress, bytes int, request *Request, answer *Answer,
	exchange func(raft.ServerID, raft.ServerAddress, *Request, *Answer) error,
) error {
	said := *request
	type outcome struct {
		answer Answer
		err    error
	}
	over := func(address raft.ServerAddress) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			var o outcome
			o.err = overKept(func() error { return exchange(id, address, &said, &o.answer) })
			done <- o
		}()
		return done
	}
	first := over(meant(id, to))
	patience := time.NewTimer(c.patience() / 2 * time.Duration(1+bytes/bytesPerPatience))
	defer patience.Stop()
	select {
	case o := <-first:
		*answer = o.answer
		return o.err
	case <-patience.C:
	}
	again := time.Now()
	second := over(anew + meant(id, to))
	for second != nil {
		select {
		case o := <-first:
			*answer = o.answer
			return o.err
		case o := <-second:
			if o.err == nil {
				c.stream.lose(api.MasterID(id), again)
				*answer = o.answer
				return nil
			}
			second = nil // the master is not reached on a new connection either
		}
	}
	o := <-first
	*answer = o.answer
	return o.err
}

// These prefixes of the library's addresses keep connections of a kind apart from others. They can't be part of a
// master's ID, which has no slash.
const (
	anew     raft.ServerAddress = "anew//"     // a new connection that is used once
	ofLength raft.ServerAddress = "snapshot//" // carries a snapshot, which takes its time
)

// lose closes the connections to a master that were dialed before the given time. Whoever waits on one of them, or
// takes a kept one, dials a new one.
func (s *stream) lose(to api.MasterID, before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.dialed { // order: irrelevant because each is judged alone
		if conn.to == to && conn.at.Before(before) && conn.purpose != ofLength {
			conn.network.drop(conn.Conn)
		}
	}
}

// keep adds a connection to those that lose can close.
func (s *stream) keep(conn *dialed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed[conn] = struct{}{}
}

func (s *stream) forget(conn *dialed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dialed, conn)
}

// termGate keeps impossible terms of other masters away from our Raft, and answers heartbeats that change nothing.
type termGate struct {
	known   func() uint64                                // returns our own term
	follows func(leader raft.ServerID, term uint64) bool // reports whether we follow this leader in this term
	state   func() raft.RaftState                        // returns our own state
	once    sync.Once
	rpcs    chan raft.RPC
	// beats holds the newest heartbeat that was answered. It is passed to Raft, which learns from it that its leader
	// lives.
	beats chan raft.RPC
	over  chan struct{}
	close sync.Once
}

func newTermGate(known func() uint64, follows func(raft.ServerID, uint64) bool, state func() raft.RaftState) *termGate {
	return &termGate{known: known, follows: follows, state: state, rpcs: make(chan raft.RPC), beats: make(chan raft.RPC, 1), over: make(chan struct{})}
}

// beat answers a heartbeat that changes nothing at once, because Raft's main loop may be busy with a slow disk while
// its leader waits to hear that we follow. All other heartbeats go to the main loop.
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
	default: // another one is waiting already
	}
}

// hand gives a request to Raft's main loop, unless the gate is closed first.
func (g *termGate) hand(rpc raft.RPC) {
	select {
	case g.rpcs <- rpc:
	case <-g.over:
	}
}

// answered returns the error of an exchange. An answer with an impossible term is an error too.
func (g *termGate) answered(err error, id raft.ServerID, term uint64) error {
	if err != nil {
		return err
	}
	return quorum.FarAhead(g.known(), term, "master "+string(id))
}

// takes reports whether a request may go to Raft. It answers a request itself that names an impossible term, or that
// asks to stand for election too late, and returns false.
func (g *termGate) takes(rpc raft.RPC) bool {
	var term uint64
	switch request := rpc.Command.(type) {
	case *raft.TimeoutNowRequest:
		return g.mayStand(rpc)
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

// mayStand reports whether this master may stand for election on request. It answers the request itself if this master
// leads or is a candidate already. The library would restart the election of a leader. It would answer a candidate's
// request and forget it; then the master that hands over would wait for the time of an election and refuse all writes
// meanwhile.
func (g *termGate) mayStand(rpc raft.RPC) bool {
	switch g.state() {
	case raft.Leader:
		rpc.Respond(&raft.TimeoutNowResponse{}, nil)
		return false
	case raft.Candidate:
		rpc.Respond(nil, errors.New("it stands for election already"))
		return false
	case raft.Follower, raft.Shutdown:
	}
	return true
}

// pass hands requests on to Raft, except those that takes refuses, until the gate is closed.
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

// checkOwnTerm refuses a folder whose term is higher than any election can have made it.
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

// lastTerm returns the term of the last entry, or of the snapshot if there is no entry; 0 when there is neither.
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
