package raftlog

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// liar is a master whose term has become an impossible one, in its requests and in its answers.
type liar struct {
	*carrier
	lies            atomic.Bool
	asked, answered atomic.Int64
}

const lie = 1 << 60

func (l *liar) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	request := *args
	if l.lies.Load() {
		request.Term += lie
		l.asked.Add(1)
	}
	return l.carrier.RequestVote(id, to, &request, resp)
}

func (l *liar) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	request := *args
	if l.lies.Load() {
		request.Term += lie
		l.asked.Add(1)
	}
	return l.carrier.RequestPreVote(id, to, &request, resp)
}

func (l *liar) SetHeartbeatHandler(handle func(raft.RPC)) {
	l.carrier.SetHeartbeatHandler(func(rpc raft.RPC) { handle(l.spoil(rpc)) })
}

func (l *liar) Consumer() <-chan raft.RPC {
	from, spoilt := l.carrier.Consumer(), make(chan raft.RPC)
	go func() {
		for {
			select {
			case rpc := <-from:
				select {
				case spoilt <- l.spoil(rpc):
				case <-l.carrier.gate.over:
					return
				}
			case <-l.carrier.gate.over:
				return
			}
		}
	}()
	return spoilt
}

// spoil has the answer to a request name the impossible term.
func (l *liar) spoil(rpc raft.RPC) raft.RPC {
	if !l.lies.Load() {
		return rpc
	}
	answer, told := make(chan raft.RPCResponse, 1), rpc.RespChan
	rpc.RespChan = answer
	go func() {
		select {
		case said := <-answer:
			switch response := said.Response.(type) {
			case *raft.AppendEntriesResponse:
				response.Term += lie
			case *raft.RequestVoteResponse:
				response.Term += lie
			case *raft.RequestPreVoteResponse:
				response.Term += lie
			case *raft.InstallSnapshotResponse:
				response.Term += lie
			}
			l.answered.Add(1)
			told <- said
		case <-l.carrier.gate.over:
		}
	}()
	return rpc
}

// TestAnImpossibleTermMovesNobody: R1. A master that names an impossible term, in questions and in
// answers, takes no other master along and ends no leadership.
func TestAnImpossibleTermMovesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 0)
		var links sync.Map // of *liar by master
		q.open = func(l *Log) {
			l.carry = func(n *carrier) raft.Transport {
				link := &liar{carrier: n}
				links.Store(l.ID(), link)
				return link
			}
		}
		q.peers = []Peer{{ID: "m1", Addr: "host1:5070"}, {ID: "m2", Addr: "host2:5070"}, {ID: "m3", Addr: "host3:5070"}}
		for _, peer := range q.peers {
			q.start(peer, NewMemory())
		}
		id, lead := q.leader("")
		wrong := other(q, id)
		found, _ := links.Load(wrong)
		link := found.(*liar)
		q.mesh.isolate(q.nodes[wrong].config.Advertise, true)
		link.lies.Store(true)
		advance(10 * time.Second) // it stands for election, in vain
		q.mesh.isolate(q.nodes[wrong].config.Advertise, false)
		for n := range uint64(30) {
			advance(time.Second)
			if _, err := commit(lead, admit("a", n+1)); err != nil {
				t.Fatal(err)
			}
		}
		if link.asked.Load() == 0 || link.answered.Load() == 0 {
			t.Errorf("it has asked %d times and answered %d times with its term", link.asked.Load(), link.answered.Load())
		}
		if term := q.nodes[id].Members.Status().Term; lead.ended() || term != lead.Term.Number {
			t.Errorf("the leader of term %d is in term %d", lead.Term.Number, term)
		}
		q.stopAll()
	})
}

// TestAnImpossibleTermOfOnesOwn: a master whose folder names an impossible term, or epoch, says so and does not lead.
func TestAnImpossibleTermOfOnesOwn(t *testing.T) {
	for what, spoil := range map[string]func(*folder) error{
		"term": func(f *folder) error { return f.stable.SetUint64(currentTerm, lie) },
		"epoch": func(f *folder) error {
			f.settings.Epoch = lie
			return f.save()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, 1)
				_, lead := q.leader("")
				if _, err := commit(lead, admit("a", 1)); err != nil {
					t.Fatal(err)
				}
				node := q.nodes["m1"]
				q.stop("m1")
				if err := spoil(node.folder); err != nil {
					t.Fatal(err)
				}
				again := q.start(q.peers[0], node.memory)
				err := <-again.ended
				if !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "impossibly far ahead") {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}
