package quorum

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Moves knows which masters have other addresses than the membership says.
//
// Nobody reaches a master that was started at another address. Like every master without a leader, it keeps asking the
// others, and it tells them its address. A master that is asked checks that it is there, and not at the old address as
// well. From then on it dials it at the new address, so that votes can be asked for even when most of the masters have
// moved. Then the membership is corrected.
type Moves struct {
	now    map[Peer]string // present address by listed peer; no other keys
	handed map[Peer]int    // how often leadership was handed to it because of this address
}

// handedMax bounds how often leadership is handed over because of one move, because a failed transfer disturbs.
const handedMax = 3

// Where returns the present address of a master of the membership.
func (m *Moves) Where(peer Peer) string {
	if now, moved := m.now[peer]; moved {
		return now
	}
	return peer.Addr
}

// Keep forgets moves of peers that the membership no longer lists, because another master may get the address, and
// handovers for addresses that it lists by now.
func (m *Moves) Keep(members []Member) {
	listed := func(peer Peer) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Peer == peer })
	}
	maps.DeleteFunc(m.now, func(was Peer, _ string) bool { return !listed(was) })
	maps.DeleteFunc(m.handed, func(now Peer, _ int) bool { return listed(now) })
}

// Doubt is a master that says that it is at another address than the one where we dial it.
type Doubt struct {
	Says   Peer
	Listed Peer // as the membership lists it
	Dialed Peer // where we dial it now
}

// Heard reports whether a master that says where it is must be looked for there.
func (m *Moves) Heard(says Peer, members []Member) (Doubt, bool) {
	at := slices.IndexFunc(members, func(m Member) bool { return m.ID == says.ID })
	if at < 0 || says.Addr == "" {
		return Doubt{}, false
	}
	m.Keep(members)
	listed := members[at].Peer
	dialed := m.Where(listed)
	return Doubt{says, listed, Peer{says.ID, dialed}}, dialed != says.Addr
}

// Moved records that a master is at the address that it says, and not at the old one.
func (m *Moves) Moved(doubt Doubt) {
	if doubt.Listed.Addr == doubt.Says.Addr {
		delete(m.now, doubt.Listed)
		return
	}
	if m.now == nil {
		m.now = map[Peer]string{}
	}
	m.now[doubt.Listed] = doubt.Says.Addr
}

// Unlisted returns the voters whose address in the membership must be corrected, with their present addresses. Each
// master writes its own address when it leads, so leadership should go to one of these. If the address still belongs to
// another master in the membership, it must wait, because no two may be the same. Masters that have exchanged addresses
// are still found through Moves. Masters to which leadership was handed in vain too often are left out.
func (m *Moves) Unlisted(members []Member) (voters []Peer) {
	for _, member := range members {
		now := Peer{member.ID, m.Where(member.Peer)}
		if member.Voter && now != member.Peer && Owner(members, now.Addr) == "" && m.handed[now] < handedMax {
			voters = append(voters, now)
		}
	}
	return voters
}

// Handed counts that leadership is handed to a master so that it writes its address.
func (m *Moves) Handed(now Peer) {
	if m.handed == nil {
		m.handed = map[Peer]int{}
	}
	m.handed[now]++
}

// Owner returns the master that has an address in the membership; "" when none has.
func Owner(members []Member, addr string) api.MasterID {
	for _, m := range members {
		if m.Addr == addr {
			return m.ID
		}
	}
	return ""
}

// Elsewhere returns further addresses at which members may be: those that the operator has named, and those that others
// say.
func Elsewhere(members []Member, named []Peer, cluster api.ClusterID, answers Answers) (more []Member) {
	consider := func(peer Peer, voter bool) {
		if IsMember(members, peer.ID) && !slices.ContainsFunc(slices.Concat(members, more), func(m Member) bool { return m.Peer == peer }) {
			more = append(more, Member{Peer: peer, Voter: voter})
		}
	}
	for _, peer := range named {
		consider(peer, true)
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		if answers[id].Cluster != cluster {
			continue
		}
		for _, m := range answers[id].Members {
			consider(m.Peer, m.Voter)
		}
	}
	return more
}
