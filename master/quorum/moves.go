package quorum

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Moves are the masters that are elsewhere than the membership says.
//
// A master that was started at another address is reached by nobody, and asks the others again and again, as every master
// without a leader does. It says where it is. Who is asked convinces itself that it is there and not at the old address as
// well, and from then on dials it there, so that votes can be asked for even when most of the masters have moved. Then the
// membership is corrected.
type Moves struct {
	now    map[Peer]string // by what the membership says; no other keys
	handed map[Peer]int    // how often leadership was to go to it for this address
}

// handedMax is how often leadership is handed over because of one move: a failure disturbs.
const handedMax = 3

// Where a master of the membership is.
func (m *Moves) Where(peer Peer) string {
	if now, moved := m.now[peer]; moved {
		return now
	}
	return peer.Addr
}

// Keep forgets what the membership does not say any more, as somebody else may get the address, and what it says by now.
func (m *Moves) Keep(members []Member) {
	listed := func(peer Peer) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Peer == peer })
	}
	maps.DeleteFunc(m.now, func(was Peer, _ string) bool { return !listed(was) })
	maps.DeleteFunc(m.handed, func(now Peer, _ int) bool { return listed(now) })
}

// Doubt is a master that says it is elsewhere than we dial it.
type Doubt struct {
	Says   Peer
	Listed Peer // by the membership
	Dialed Peer // where we dial it now
}

// Heard says whether a master that says where it is has to be looked for.
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

// Moved says that a master is where it says, and nowhere else.
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

// Unlisted are the voters whose address in the membership is to be corrected, as they are now: each writes its own when it
// leads, so leadership is to go to one of them. An address that is still another's has to wait, as no two may be the same:
// masters that have exchanged theirs are found by what each one knows of moves. Those to whom leadership went in vain too
// often are not among them.
func (m *Moves) Unlisted(members []Member) (voters []Peer) {
	for _, member := range members {
		now := Peer{member.ID, m.Where(member.Peer)}
		if member.Voter && now != member.Peer && Owner(members, now.Addr) == "" && m.handed[now] < handedMax {
			voters = append(voters, now)
		}
	}
	return voters
}

// Handed counts that leadership goes to a master so that it tells its address.
func (m *Moves) Handed(now Peer) {
	if m.handed == nil {
		m.handed = map[Peer]int{}
	}
	m.handed[now]++
}

// Owner is whose an address is by the membership; "": nobody's.
func Owner(members []Member, addr string) api.MasterID {
	for _, m := range members {
		if m.Addr == addr {
			return m.ID
		}
	}
	return ""
}

// Elsewhere are addresses at which other masters may be, beside those of the membership: what the operator names, and what
// others say.
func Elsewhere(members []Member, named []Peer, cluster api.ClusterID, answers Answers) (more []Member) {
	consider := func(peer Peer, voter bool) {
		if IsMember(members, peer.ID) && !slices.ContainsFunc(slices.Concat(members, more), func(m Member) bool { return m.Peer == peer }) {
			more = append(more, Member{peer, voter})
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
