// Package leadersearch is the one rule by which every client looks for the leading master: schedulers, agents, machines
// that join, and the command line. It asks nobody and waits for nothing itself: it has no clock, and no randomness
// except what is passed in.
package leadersearch

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// redirectsMax bounds how often a round follows what followers say of the leader. Beyond it they are not believed.
	redirectsMax = 3
	// learnedMax bounds what is remembered of what a leader names; more addresses than that are forgotten.
	learnedMax = 64
)

// Search goes through all known masters in rounds, each once a round. It is a value that can be cloned and printed.
type Search struct {
	configured []string // never forgotten
	learned    []string // what a leader has named; replaces what was named before
	inOrder    bool
	leader     string   // the last one that led: a round begins with it
	address    string   // who is asked now
	queue      []string // who is still to be asked in this round
	failed     []string // who was not reached or has not answered in this round
	redirects  int      // followed in this round
	rounds     int      // in a row that found no leader, the present one among them
}

// New asks in any order, so that many clients spread over the masters. It needs at least one.
func New(masters []string) Search { return Search{configured: slices.Clone(masters)} }

// InOrder asks in the order in which the masters are named.
func InOrder(masters []string) Search {
	return Search{configured: slices.Clone(masters), inOrder: true}
}

// Masters are all that are known, each once: as configured, then as learned.
func (s *Search) Masters() (all []string) {
	for _, address := range slices.Concat(s.configured, s.learned) {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// Address is the master that Next has chosen.
func (s *Search) Address() string { return s.address }

// Rounds counts the rounds since the search was settled.
func (s *Search) Rounds() int { return s.rounds }

// Next chooses whom to ask, and says how long to wait before: only between two rounds, and longer from round to round.
func (s *Search) Next(random *rand.Rand) (wait time.Duration) {
	if len(s.queue) == 0 {
		if s.rounds > 0 {
			wait = protocol.Backoff(s.rounds-1, random.Int64N)
		}
		s.rounds++
		s.beginRound(random)
	}
	s.address, s.queue = s.queue[0], s.queue[1:]
	return wait
}

func (s *Search) beginRound(random *rand.Rand) {
	s.queue, s.failed, s.redirects = s.Masters(), nil, 0
	if !s.inOrder {
		random.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
	}
	if s.leader != "" {
		s.putFirst(s.leader)
	}
}

func (s *Search) putFirst(address string) {
	others := slices.DeleteFunc(s.queue, func(other string) bool { return other == address })
	s.queue = slices.Insert(others, 0, address)
}

// Failed notes why the master asked now is not the one. The leader that a follower names is asked next, unless it has failed
// in this round or followers have led us around; one that has answered may be asked again, as it may have been elected since.
// Who says when to come back has answered as well.
func (s *Search) Failed(err error, leader string) (followed bool) {
	switch {
	case !api.Is(err, api.NotLeader):
		if api.RetryAfter(err) == 0 {
			s.failed = append(s.failed, s.address)
		}
		return false
	case leader == "" || s.redirects == redirectsMax || slices.Contains(s.failed, leader):
		return false
	}
	s.redirects++
	s.putFirst(leader)
	return true
}

// Again has the master asked now asked next as well.
func (s *Search) Again() { s.putFirst(s.address) }

// Learn takes over whom a leader names, in place of whom one has named before. No names are no news.
func (s *Search) Learn(masters []string) {
	if len(masters) > 0 {
		named := slices.DeleteFunc(slices.Clone(masters), func(address string) bool { return address == "" })
		s.learned = named[:min(len(named), learnedMax)]
	}
}

// Found remembers who leads, and learns whom it names.
func (s *Search) Found(leader string, masters []string) {
	s.leader = leader
	s.Learn(masters)
}

// Settle ends the search: the leader has proven good, and the next search begins anew.
func (s *Search) Settle() { s.queue, s.failed, s.redirects, s.rounds = nil, nil, 0, 0 }
