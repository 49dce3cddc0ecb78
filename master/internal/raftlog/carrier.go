package raftlog

import (
	"io"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// carrier is the library's transport, which dials addresses and pools connections by
// address. Here both go by who is meant as well: addresses change hands when masters move,
// and the vote of whoever answers must never be counted as another's.
type carrier struct{ *raft.NetworkTransport }

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
	return c.NetworkTransport.AppendEntries(id, meant(id, to), args, resp)
}

func (c *carrier) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return c.NetworkTransport.RequestVote(id, meant(id, to), args, resp)
}

func (c *carrier) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return c.NetworkTransport.RequestPreVote(id, meant(id, to), args, resp)
}

func (c *carrier) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return c.NetworkTransport.InstallSnapshot(id, meant(id, to), args, resp, data)
}

func (c *carrier) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return c.NetworkTransport.TimeoutNow(id, meant(id, to), args, resp)
}
