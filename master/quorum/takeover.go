package quorum

import (
	"errors"
	"fmt"
	"strings"
)

// TakeOver returns the voter to which a leader should hand over: the one with the longest log among those that answer
// and do not stand for election. The error says for each of them why it can't take over. The library does not ask
// anybody. It picks the voter that has followed furthest, even if it is dead, and a master that stands for election
// already just continues with that. Meanwhile nobody writes, and there is no second try in the same term (P3).
func TakeOver(voters []Member, answers Answers) (Peer, error) {
	var next Peer
	var last uint64
	var whyNot []string
	for _, m := range voters {
		answer, answered := answers[m.ID]
		switch {
		case !answered:
			whyNot = append(whyNot, fmt.Sprintf("%s does not answer at %s", m.ID, m.Addr))
		case answer.Standing:
			whyNot = append(whyNot, fmt.Sprintf("%s stands for election itself, and follows in a moment", m.ID))
		case next.ID == "" || answer.Last > last:
			next, last = m.Peer, answer.Last
		}
	}
	if next.ID == "" {
		return Peer{}, errors.New(strings.Join(whyNot, "; "))
	}
	return next, nil
}
