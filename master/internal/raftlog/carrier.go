package raftlog

import (
	"io"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
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

func (c *carrier) SetHeartbeatHandler(handle func(raft.RPC)) {
	c.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if c.gate.takes(rpc) {
			handle(rpc)
		}
	})
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
	return Peer{api.MasterID(address[:at]), string(address[at+1:])}
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
