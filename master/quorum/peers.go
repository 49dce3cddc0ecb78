package quorum

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Peer is a master of the quorum: its ID and where its Raft listener is reached.
type Peer struct {
	ID   api.MasterID `json:"id"`
	Addr string       `json:"addr"`
}

func (p Peer) String() string { return string(p.ID) + "=" + p.Addr }

// Member is a peer with or without a vote.
type Member struct {
	Peer
	Voter bool `json:"voter"`
}

// Founder is a master with what was minted with its folder: an emptied folder has another incarnation (R19).
type Founder struct {
	Peer
	Incarnation string `json:"incarnation"`
}

// Mark is the hash of a registry behind one entry of the log.
type Mark struct {
	Index uint64 `json:"index,omitempty"`
	Hash  string `json:"hash,omitempty"`
}

// About is what a master says of itself.
type About struct {
	Refused     string        `json:"refused,omitempty"`
	ID          api.MasterID  `json:"id"`
	Cluster     api.ClusterID `json:"cluster"`
	Incarnation string        `json:"incarnation"`
	Peers       []Peer        `json:"peers,omitempty"`
	Founders    []Founder     `json:"founders,omitempty"`
	Members     []Member      `json:"members,omitempty"`
	Version     string        `json:"version,omitempty"`
	Format      uint64        `json:"format,omitempty"` // newest that it reads; 0 is 1
	Epoch       uint64        `json:"epoch,omitempty"`
	Applied     uint64        `json:"applied"`
	Last        uint64        `json:"last"`               // in its log
	Mark        Mark          `json:"mark"`               // the latest hash of its registry that it has taken
	Standing    bool          `json:"standing,omitempty"` // for election: until that is over it can't be handed the leadership
}

// Answers are what other masters say of themselves; who is silent is not among them.
type Answers map[api.MasterID]About

// IsMember says whether a master is in a list.
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
