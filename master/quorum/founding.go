package quorum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Founding decides how an empty folder becomes part of a quorum (R19).
//
// A founder is a master whose own ID is among its peers. It asks all of them until every one answers. If all are new,
// the cluster's ID is computed from all their incarnations, so that each founder computes the same one without further
// messages. If some have founded the cluster already, this master is a founder only if they did so with its
// incarnation. A folder that was emptied since then has another incarnation, and must not vote again.
//
// A joiner is a master that is not among its peers. It asks until one answers that has a cluster, and waits to be added
// there.
type Founding struct {
	Self  Founder
	Peers []Peer

	founders []Founder // founders that have answered in this round
	missing  []string  // peers that have not answered
	asked    int       // how many of the peers were asked
}

// FoundingStep says what to do next: exactly one of Ask, Wait, Found and Join is set.
type FoundingStep struct {
	Ask     *Peer         // ask this peer, then call Answered
	Wait    []string      // who is missing; wait, then call Begin again
	Found   []Founder     // these have founded the cluster, whose ID is ClusterOf
	Join    api.ClusterID // wait to be added to this cluster
	Through api.MasterID  // with Join: the master that has told of the cluster
	Epoch   uint64        // with Join: the newest epoch that this master knows
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

// founds reports whether this master is among its own peers.
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

// Answered takes in what the peer that was asked says about itself; err means that it has not answered.
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

// meetCluster decides what an empty folder is to an existing cluster.
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
	return FoundingStep{Join: answer.Cluster, Through: answer.ID, Epoch: answer.Epoch}, nil
}

// ClusterOf returns the ID of the cluster that these masters have founded. It sorts them by ID.
func ClusterOf(founders []Founder) api.ClusterID {
	slices.SortFunc(founders, func(a, b Founder) int { return strings.Compare(string(a.ID), string(b.ID)) })
	sum := sha256.New()
	for _, f := range founders {
		fmt.Fprintf(sum, "%s %s\n", f.ID, f.Incarnation)
	}
	return api.ClusterID("cluster-" + hex.EncodeToString(sum.Sum(nil))[:12])
}
