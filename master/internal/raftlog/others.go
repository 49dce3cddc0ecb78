package raftlog

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// others is what masters say to each other: what this one answers about itself, what it asks the others, which of them
// are silent, and at which address each is. It decides nothing, and changes nothing of the quorum.
type others struct {
	config  *Config
	self    *identity
	engine  *engine
	machine *machine
	network *network
	chatter *chatter

	mu     sync.Mutex
	silent map[api.MasterID]time.Time // followers that do not answer, since when; guarded by mu
}

// aboutUs returns what this master says about itself when others ask.
func (o *others) aboutUs() quorum.About {
	self, voted := o.self.saved()
	self.Epoch = max(self.Epoch, o.machine.epoch())
	r := o.engine.running()
	if r == nil && voted {
		// Raft knows who the members are now, and it has not started yet.
		self.Refused = fmt.Sprintf("master %s is starting", self.ID)
		return self
	}
	for _, f := range self.Founders {
		self.Members = append(self.Members, quorum.Member{Peer: f.Peer, Incarnation: f.Incarnation, Voter: true})
	}
	if r != nil {
		self.Applied, self.Last = r.AppliedIndex(), r.LastIndex()
		self.Mark, _ = o.machine.mark()
		self.Standing = r.State() == raft.Candidate
		if all := o.presentMembers(r); len(all) > 0 {
			self.Members = all
		}
	}
	return self
}

// askAll asks all other members at the same time what they say about themselves.
func (o *others) askAll(all []quorum.Member) quorum.Answers {
	return o.askEach(all, o.network.askMember)
}

func (o *others) askEach(all []quorum.Member, ask func(peer Peer, timeout time.Duration) (quorum.About, error)) quorum.Answers {
	var mu sync.Mutex
	answers := make(quorum.Answers)
	var asking sync.WaitGroup
	for _, peer := range all {
		if peer.ID == o.self.id() {
			continue
		}
		asking.Go(func() {
			if answer, err := ask(peer.Peer, timings[o.config.Profile].election); err == nil && answer.ID == peer.ID {
				mu.Lock()
				answers[peer.ID] = answer
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return answers
}

// askWhoTakesOver asks voters which of them can take over leadership. Its wait for a voter that has been silent is
// shorter.
func (o *others) askWhoTakesOver(voters []quorum.Member) (Peer, error) {
	return quorum.TakeOver(voters, o.askEach(voters, func(peer Peer, timeout time.Duration) (quorum.About, error) {
		if o.silentSince(peer.ID).IsZero() {
			timeout = askTimeout
		}
		return o.network.askMember(peer, timeout)
	}))
}

// otherVoters returns the voters that could take over leadership; with an ID, only that one.
func (o *others) otherVoters(r *life, id api.MasterID) (voters []quorum.Member) {
	for _, m := range r.members() {
		if m.Voter && m.ID != o.self.id() && (id == "" || m.ID == id) {
			voters = append(voters, m)
		}
	}
	return voters
}

// silentSince returns since when a follower has not answered; zero: it answers.
func (o *others) silentSince(id api.MasterID) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.silent[id]
}

// noteHeard notes which followers answer our heartbeats and which do not.
func (o *others) noteHeard(r *life, observation raft.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch data := observation.Data.(type) {
	case raft.FailedHeartbeatObservation:
		if id := idOf(data.PeerID); o.silent[id].IsZero() {
			o.silent[id] = data.LastContact
		}
	case raft.ResumedHeartbeatObservation:
		delete(o.silent, idOf(data.PeerID))
		for _, m := range r.members() {
			if m.ID == idOf(data.PeerID) {
				o.chatter.forget(m.Addr)
			}
		}
	case raft.RaftState:
		clear(o.silent) // they belong to another term
	}
}
