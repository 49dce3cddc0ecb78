package quorum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Founding is how an empty folder becomes part of a quorum (R19).
//
// A founder (its own ID is among its peers) asks all of them until every one answers. If all are new, the cluster's ID is
// made from all their incarnations, so that each founder comes to the same one without another word. If some have founded
// already, it is a founder only if they did it with its incarnation: a folder that was emptied since has another one, and
// must not vote again.
//
// A joiner (not among its peers) asks until one answers that has a cluster, and waits there to be added.
type Founding struct {
	Self  Founder
	Peers []Peer

	founders []Founder // that have answered in this round
	missing  []string  // who has not
	asked    int       // of the peers
}

// FoundingStep is what to do next: exactly one of its fields is set.
type FoundingStep struct {
	Ask     *Peer         // then tell Answered
	Wait    []string      // who is missing; then Begin again
	Found   []Founder     // the cluster is theirs, under ClusterOf
	Join    api.ClusterID // wait there to be added
	Through api.MasterID  // who has told of it
}

// Begin begins a round of questions.
func (f *Founding) Begin() FoundingStep {
	f.founders, f.missing, f.asked = nil, nil, 0
	if f.isAlone() {
		return FoundingStep{Found: []Founder{f.Self}}
	}
	return f.next()
}

func (f *Founding) isAlone() bool {
	return len(f.Peers) == 0 || len(f.Peers) == 1 && f.founds()
}

// founds says whether we are among our own peers.
func (f *Founding) founds() bool {
	return slices.ContainsFunc(f.Peers, func(p Peer) bool { return p.ID == f.Self.ID })
}

func (f *Founding) next() FoundingStep {
	for ; f.asked < len(f.Peers); f.asked++ {
		peer := f.Peers[f.asked]
		if peer.ID != f.Self.ID {
			return FoundingStep{Ask: &peer}
		}
		f.founders = append(f.founders, Founder{peer, f.Self.Incarnation})
	}
	switch {
	case !f.founds():
		return FoundingStep{Wait: append(f.missing, "a master of an existing cluster")}
	case len(f.missing) > 0:
		return FoundingStep{Wait: f.missing}
	}
	return FoundingStep{Found: f.founders}
}

// Answered takes what the peer that was asked says of itself; err: that it says nothing.
func (f *Founding) Answered(answer About, err error) (FoundingStep, error) {
	const op = "master.found"
	peer := f.Peers[f.asked]
	f.asked++
	switch {
	case err != nil:
		f.missing = append(f.missing, fmt.Sprintf("%s (%v)", peer, err))
		return f.next(), nil
	case answer.ID != peer.ID:
		return FoundingStep{}, api.E(op, api.Invalid, peer.Addr, fmt.Errorf("the peers call it %s, but master %s listens there", peer.ID, answer.ID))
	case answer.Cluster != "":
		return f.meetCluster(answer)
	case f.founds() && listOf(answer.Peers) != listOf(f.Peers):
		return FoundingStep{}, api.E(op, api.Invalid, string(peer.ID),
			fmt.Errorf("its peers are %s, ours are %s; start all founders with the same list", listOf(answer.Peers), listOf(f.Peers)))
	}
	f.founders = append(f.founders, Founder{peer, answer.Incarnation})
	return f.next(), nil
}

// meetCluster decides what an empty folder is to a cluster that exists.
func (f *Founding) meetCluster(answer About) (FoundingStep, error) {
	self := f.Self
	if slices.ContainsFunc(answer.Founders, func(one Founder) bool { return one.ID == self.ID && one.Incarnation == self.Incarnation }) {
		return FoundingStep{Found: answer.Founders}, nil
	}
	if slices.ContainsFunc(answer.Members, func(m Member) bool { return m.ID == self.ID && m.Voter }) {
		return FoundingStep{}, api.E("master.found", api.Exists, string(self.ID), fmt.Errorf(
			"cluster %s has a master of this ID, but this data folder is empty: a master that lost its data must not vote again; "+
				"run `tender raft remove %s`, start it once more and run `tender raft add %s %s`",
			answer.Cluster, self.ID, self.ID, self.Addr))
	}
	return FoundingStep{Join: answer.Cluster, Through: answer.ID}, nil
}

// ClusterOf names the cluster that these have founded, and brings them into the order in which it does.
func ClusterOf(founders []Founder) api.ClusterID {
	slices.SortFunc(founders, func(a, b Founder) int { return strings.Compare(string(a.ID), string(b.ID)) })
	sum := sha256.New()
	for _, f := range founders {
		fmt.Fprintf(sum, "%s %s\n", f.ID, f.Incarnation)
	}
	return api.ClusterID("cluster-" + hex.EncodeToString(sum.Sum(nil))[:12])
}
