package quorum

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Peer is a master of the quorum: its ID and the address of its Raft listener.
type Peer struct {
	ID   api.MasterID `json:"id"`
	Addr string       `json:"addr"`
}

func (p Peer) String() string { return string(p.ID) + "=" + p.Addr }

// Member is a peer with or without a vote. It is known by the incarnation of its folder: another folder of the same ID,
// as one from before a restore, is no member. (Protocol rule R51.)
type Member struct {
	Peer
	Incarnation string `json:"incarnation"`
	Voter       bool   `json:"voter"`
}

// Founder is a master with the incarnation that was made with its folder. A folder that was emptied gets another
// incarnation (R19).
type Founder struct {
	Peer
	Incarnation string `json:"incarnation"`
}

// Mark is the hash of a registry after one entry of the log.
type Mark struct {
	Index uint64 `json:"index,omitempty"`
	Hash  string `json:"hash,omitempty"`
}

// About is what a master says about itself.
type About struct {
	Refused     string        `json:"refused,omitempty"`
	ID          api.MasterID  `json:"id"`
	Cluster     api.ClusterID `json:"cluster"`
	Incarnation string        `json:"incarnation"`
	Peers       []Peer        `json:"peers,omitempty"`
	Founders    []Founder     `json:"founders,omitempty"`
	Members     []Member      `json:"members,omitempty"`
	Version     string        `json:"version,omitempty"`
	Format      uint64        `json:"format,omitempty"` // newest format that it reads; 0 means 1
	Epoch       uint64        `json:"epoch,omitempty"`
	Applied     uint64        `json:"applied"`
	Last        uint64        `json:"last"` // index of the last entry of its log
	Mark        Mark          `json:"mark"` // the latest hash of its registry that it has taken
	// Standing is set while the master stands for election. Until that is over, leadership can't be handed to it.
	Standing bool `json:"standing,omitempty"`
}

// Answers holds what other masters say about themselves. Masters that are silent are not in it.
type Answers map[api.MasterID]About

// HasFolder reports whether the folder of this master and incarnation is a member.
func HasFolder(list []Member, id api.MasterID, incarnation string) bool {
	return slices.ContainsFunc(list, func(m Member) bool { return m.ID == id && m.Incarnation == incarnation })
}

// IsMember reports whether a master of this ID is in a list, with whatever folder.
func IsMember(list []Member, id api.MasterID) bool {
	return slices.ContainsFunc(list, func(m Member) bool { return m.ID == id })
}

func listOf(peers []Peer) string {
	words := make([]string, len(peers))
	for i, peer := range peers {
		words[i] = peer.String()
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}
