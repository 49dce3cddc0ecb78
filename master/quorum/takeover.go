package quorum

import (
	"errors"
	"fmt"
	"strings"
)

// TakeOver is to which of these voters a leader hands over: to the one with the longest log of those that answer and do
// not stand for election; the error says what keeps each of them from it. The library asks nobody. It takes whoever has
// followed furthest, also one that is dead, and lets a master that stands for election already go on with that. Meanwhile
// nobody writes, and in the same term there is no second try (P3).
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
