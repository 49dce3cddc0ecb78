package raftlog

import (
	"testing"

	"github.com/hashicorp/raft"
)

// P17: nothing that a heartbeat changes is changed beside Raft's main loop. One of the leader that we follow is answered at
// once, however busy the loop is, and told to it later; every other one waits for the loop.
func TestHeartbeatsChangeNothingBesideTheLoop(t *testing.T) {
	gate := newTermGate(func() uint64 { return 7 }, func(leader raft.ServerID, term uint64) bool { return leader == "m1" && term == 7 },
		func() raft.RaftState { return raft.Follower })
	defer gate.end()
	consumed := gate.pass(make(chan raft.RPC))
	beat := func(leader string, term uint64) chan raft.RPCResponse {
		answers := make(chan raft.RPCResponse, 1)
		gate.beat(raft.RPC{RespChan: answers, Command: &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(leader)}, Term: term,
		}})
		return answers
	}
	for range 3 { // the loop takes nothing
		answer := <-beat("m1", 7)
		if response, is := answer.Response.(*raft.AppendEntriesResponse); !is || !response.Success || response.Term != 7 || answer.Error != nil {
			t.Fatalf("answered %+v", answer)
		}
	}
	told := <-consumed
	if request, is := told.Command.(*raft.AppendEntriesRequest); !is || request.Term != 7 {
		t.Errorf("the loop was told %+v", told.Command)
	}
	told.Respond(nil, nil) // the answer is lost

	for _, other := range []struct {
		leader string
		term   uint64
	}{{"m2", 7}, {"m1", 6}, {"m1", 8}} {
		handed := make(chan chan raft.RPCResponse)
		go func() { handed <- beat(other.leader, other.term) }()
		for rpc := range consumed {
			if request := rpc.Command.(*raft.AppendEntriesRequest); string(request.ID) == other.leader && request.Term == other.term {
				rpc.Respond(&raft.AppendEntriesResponse{Term: 9}, nil)
				break
			}
		}
		if answer := <-<-handed; answer.Response.(*raft.AppendEntriesResponse).Term != 9 {
			t.Errorf("%v: not the loop has answered: %+v", other, answer)
		}
	}
}
