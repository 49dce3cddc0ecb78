package quorum

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Missing says which voters do not answer, and how many are needed; "" when enough do. This master counts as one that
// answers.
func Missing(members []Member, answers Answers, self api.MasterID) string {
	voters, here, silent := 0, 0, []string{}
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if _, answered := answers[m.ID]; answered || m.ID == self {
			here++
		} else {
			silent = append(silent, fmt.Sprintf("%s at %s", m.ID, m.Addr))
		}
	}
	needed := voters/2 + 1
	if here >= needed {
		return ""
	}
	return fmt.Sprintf("%d of %d masters answer and %d are needed; silent: %s", here, voters, needed, strings.Join(silent, ", "))
}

// AgreedFormat returns the newest format that all members can read. It is 1 while any of them is silent. self is what
// we say about ourselves.
func AgreedFormat(members []Member, answers Answers, self About) uint64 {
	format := self.Format
	for _, m := range members {
		answer, answered := answers[m.ID]
		switch {
		case m.ID == self.ID:
		case !answered || answer.Cluster != self.Cluster:
			return 1
		default:
			format = min(format, max(answer.Format, 1))
		}
	}
	return format
}

// MajorityHash returns the hash that more than half of all voters have at the index of our own hash; "" if there is
// none.
func MajorityHash(members []Member, answers Answers, self About) string {
	voters, having := 0, make(map[string]int)
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		switch answer, answered := answers[m.ID]; {
		case m.ID == self.ID:
			having[self.Mark.Hash]++
		case answered && answer.Cluster == self.Cluster && answer.Mark.Index == self.Mark.Index:
			having[answer.Mark.Hash]++
		}
	}
	for hash, count := range having { // order: irrelevant because only one has more than half
		if 2*count > voters {
			return hash
		}
	}
	return ""
}

// A recovered or restored quorum and the masters that it was made without belong to one cluster, know each other's
// addresses, and speak the same Raft. If a majority of the lost masters were started again, they would elect a leader,
// and that leader would overwrite the log of the recovered quorum. The epoch distinguishes them. (Protocol rule R1.)
//
// IDs say nothing here: masters join a restored quorum under the IDs that they had before, with new folders. So members
// are known by the incarnations of their folders. (Protocol rule R51.)
//
// A lower epoch alone does not make a master one of the past, because a master that joins has not heard of the epoch
// yet. So only masters that are no members are refused. And a follower that lags does not know all members. So a master
// that is told of a newer epoch asks all others before it ends.

// IsOfThePast reports whether the quorum of our epoch was made without the folder of the master that names this epoch.
func IsOfThePast(from api.MasterID, incarnation string, epoch uint64, self About) bool {
	return epoch < self.Epoch && len(self.Members) > 0 && !HasFolder(self.Members, from, incarnation)
}

// Supersedes reports whether a master has a newer epoch of our cluster in which our folder is no member.
func (a About) Supersedes(self About) bool {
	return a.Cluster == self.Cluster && self.Cluster != "" && a.Epoch > self.Epoch && len(a.Members) > 0 && !HasFolder(a.Members, self.ID, self.Incarnation)
}

// Superseding returns the master with the newest epoch in which we are no member. It returns false when there is none,
// and also when any master of a newer epoch still counts us as a member, because then somebody only lags.
func Superseding(self About, answers Answers) (newest About, found bool) {
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[id]
		switch {
		case answer.Cluster != self.Cluster || answer.Epoch <= self.Epoch:
		case HasFolder(answer.Members, self.ID, self.Incarnation):
			return About{}, false
		case answer.Epoch > newest.Epoch && answer.Supersedes(self):
			newest, found = answer, true
		}
	}
	return newest, found
}

// IsRemoved reports whether the quorum continues without us. The library stops a leader that was removed, but it does
// nothing about a follower, which may not even have learned of it (P6). Our own log can't tell: while it is replayed to
// a master that joins, it holds quorums of the past. Another master that has applied everything that we have can tell.
func IsRemoved(self About, answers Answers) bool {
	for _, answer := range answers { // order: irrelevant because one is enough
		if answer.Cluster == self.Cluster && answer.Applied >= self.Last && len(answer.Members) > 0 && !HasFolder(answer.Members, self.ID, self.Incarnation) {
			return true
		}
	}
	return false
}

// FarAhead says why another master's term can't be true; nil when it may be. A master that knows no term accepts any.
// If a term near the largest number were accepted once, from a damaged folder or by intent, it would take all masters
// along, and no agent follows them there (R1).
func FarAhead(known, term uint64, who string) error {
	if known == 0 || term <= known || term-known <= protocol.TermsMax {
		return nil
	}
	return fmt.Errorf("%s names term %d, impossibly far ahead of %d, the newest that this master knows; is its folder damaged, or another cluster's? "+
		"Remove that master and add it again with a fresh folder", who, term, known)
}
