package client

import (
	"fmt"
	"slices"
	"strings"
)

// search is one call's way from master to master.
type search struct {
	named []string // in the order of the first attempt, for the sentence
	why   map[string]string

	queue    []string // still to try in this round
	tried    map[string]bool
	followed int // redirects in this round
}

func newSearch(named []string) *search {
	return &search{named: dedupe(named), why: map[string]string{}}
}

// first begins a round.
func (s *search) first(candidates []string) string {
	s.queue, s.tried, s.followed = dedupe(candidates), map[string]bool{}, 0
	return s.next()
}

// next is the next master of the round, "" at its end.
func (s *search) next() string {
	for len(s.queue) > 0 {
		address := s.queue[0]
		s.queue = s.queue[1:]
		if !s.tried[address] {
			s.tried[address] = true
			return address
		}
	}
	return ""
}

// again lets the master be the next one once more.
func (s *search) again(address string) {
	delete(s.tried, address)
	s.queue = slices.Insert(s.queue, 0, address)
}

func (s *search) failed(address, why string) {
	if !slices.Contains(s.named, address) {
		s.named = append(s.named, address)
	}
	s.why[address] = why
}

// redirect puts the leader that a follower names at the head of the round. Two that name each other while a leader is
// elected end the round instead of going in circles.
func (s *search) redirect(address, leader, why string) {
	if leader == "" || leader == address {
		if !strings.HasPrefix(why, noLeader) {
			why = "knows no leader"
		}
		s.failed(address, why)
		return
	}
	s.failed(address, "follows "+leader)
	if s.followed++; s.followed <= followMax {
		s.queue = slices.Insert(s.queue, 0, leader)
	}
}

// noLeader begins what a master says that knows which others are missing.
const noLeader = "nobody leads: "

// sentence says who was tried and why nobody answered.
func (s *search) sentence() error {
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
func (s *search) leaderless() bool {
	for _, why := range s.why {
		if why == "knows no leader" || strings.HasPrefix(why, noLeader) || strings.HasPrefix(why, "follows ") {
			return true
		}
	}
	return false
}

func dedupe(all []string) []string {
	var kept []string
	for _, one := range all {
		if !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}
