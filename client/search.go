package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tenderhq/tender/internal/lookout/leadersearch"
	"github.com/tenderhq/tender/internal/wire"
)

// search is the search of one call from master to master, and what to report if nobody leads.
type search struct {
	leadersearch.Search
	random  *rand.Rand
	named   []string // the masters to report, in order
	why     map[string]string
	follow  map[string]bool // those that have answered last that they do not lead
	refusal error           // of the last leader that answered, and could not do it; nil: none did
}

// newSearch makes a search that begins with the last leader, and goes on in the order in which the masters are named.
func newSearch(masters []string, leader string) *search {
	s := &search{Search: leadersearch.InOrder(masters), random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), why: map[string]string{}, follow: map[string]bool{}}
	s.Found(leader, nil)
	s.named = s.Masters()
	return s
}

// tell notes what to report of the master that is asked now.
func (s *search) tell(why string) {
	if address := s.Address(); !slices.Contains(s.named, address) {
		s.named = append(s.named, address)
	}
	s.why[s.Address()] = why
	delete(s.follow, s.Address())
}

// whyNotLeading returns what to report of a follower that names the leader, or says why there is none.
func whyNotLeading(leader string, err error) string {
	switch known := wire.Error(err); {
	case leader != "":
		return "follows " + leader
	case wire.NobodyLeads(err):
		return known.Err.Error()
	}
	return "knows no leader"
}

// sentence returns what a leader has said, or an error that says which masters were tried and why none answered as leader.
func (s *search) sentence() error {
	if s.refusal != nil && !s.leaderless() {
		return s.refusal
	}
	parts := make([]string, len(s.named))
	for i, address := range s.named {
		why := s.why[address]
		if why == "" {
			why = "does not answer"
		}
		parts[i] = fmt.Sprintf("%s (%s)", address, why)
	}
	return &Unreachable{Tried: strings.Join(parts, ", "), Leaderless: s.leaderless()}
}

// leaderless says whether masters answered, but none of them leads.
func (s *search) leaderless() bool { return len(s.follow) > 0 }
