package quorum

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Missing says which voters do not answer, and how many are needed; "": enough do. We count ourselves.
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

// AgreedFormat is the newest format that all members read; 1 while one of them is silent. self is what we say of ourselves.
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

// MajorityHash is the hash that more than half of all voters have at the index of ours; "" if there is none.
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

// A recovered or restored quorum and the masters that it was made without are of one cluster, know each other's
// addresses, and speak the same Raft: a majority of the lost ones that is started again would elect a leader, and that
// leader would overwrite the log of the recovered one. The epoch tells them apart. (Protocol rule R1.)
//
// An epoch alone does not make a master old: one that joins has not heard of the epoch yet. So only who is no member is
// refused. And a follower that lags does not know all members: so who is told of a newer epoch asks everybody before it
// ends.

// IsOfThePast says that the quorum of our epoch was made without a master of this one.
func IsOfThePast(from api.MasterID, epoch uint64, self About) bool {
	return epoch < self.Epoch && len(self.Members) > 0 && !IsMember(self.Members, from)
}

// Supersedes says that a master is of a newer epoch of our cluster, and that we are no member there.
func (a About) Supersedes(self About) bool {
	return a.Cluster == self.Cluster && self.Cluster != "" && a.Epoch > self.Epoch && len(a.Members) > 0 && !IsMember(a.Members, self.ID)
}

// Superseding is the master of the newest epoch in which we are no member; false: there is none, or somebody still counts
// us as a member there: it only lags, or we do.
func Superseding(self About, answers Answers) (newest About, found bool) {
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[id]
		switch {
		case answer.Cluster != self.Cluster || answer.Epoch <= self.Epoch:
		case IsMember(answer.Members, self.ID):
			return About{}, false
		case answer.Epoch > newest.Epoch && answer.Supersedes(self):
			newest, found = answer, true
		}
	}
	return newest, found
}

// IsRemoved says that the quorum goes on without us. The library stops a leader that was removed, and leaves a follower to
// itself, which may not even have heard of it (P6). Our own log does not tell: while it is replayed to a master that
// joins, it holds quorums of the past. Another master that has applied all that we have does.
func IsRemoved(self About, answers Answers) bool {
	for _, answer := range answers { // order: irrelevant because one is enough
		if answer.Cluster == self.Cluster && answer.Applied >= self.Last && len(answer.Members) > 0 && !IsMember(answer.Members, self.ID) {
			return true
		}
	}
	return false
}

// FarAhead says what is wrong with another master's term; nil when it may be true. Who knows none
// takes any. Whoever named a term near the end of the numbers once, by a damaged folder or by
// intent, would take all masters along, and no agent follows them there (R1).
func FarAhead(known, term uint64, who string) error {
	if known == 0 || term <= known || term-known <= protocol.TermsMax {
		return nil
	}
	return fmt.Errorf("%s names term %d, impossibly far ahead of %d, the newest that this master knows; is its folder damaged, or another cluster's? "+
		"Remove that master and add it again with a fresh folder", who, term, known)
}
