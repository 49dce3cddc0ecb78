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
	// redirectsMax is how often in one round a follower's word about the leader is followed. Beyond that it is ignored.
	redirectsMax = 3
	// learnedMax is how many of the addresses that a leader names are remembered; the rest is forgotten.
	learnedMax = 64
)

// Search goes through all known masters in rounds, each of them once a round. It is a value that can be cloned and
// printed.
type Search struct {
	configured []string // the configured masters; never forgotten
	learned    []string // the masters that a leader has named last
	inOrder    bool
	leader     string   // the last one that led; a round begins with it
	lost       string   // the leader that was lost since the last round; "": none was
	address    string   // the master that is asked now
	queue      []string // the masters that are still to be asked in this round
	failed     []string // the masters that were not reached or did not answer in this round
	redirects  int      // how many redirects were followed in this round
	rounds     int      // how many rounds in a row found no leader, including the present one
}

// New makes a search in random order, so that many clients spread over the masters. It needs at least one master.
func New(masters []string) Search { return Search{configured: slices.Clone(masters)} }

// InOrder makes a search that asks the masters in the order in which they are named.
func InOrder(masters []string) Search {
	return Search{configured: slices.Clone(masters), inOrder: true}
}

// Masters returns all known masters, each once: first those that were configured, then those that were learned.
func (s *Search) Masters() (all []string) {
	for _, address := range slices.Concat(s.configured, s.learned) {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// Address returns the master that Next has chosen.
func (s *Search) Address() string { return s.address }

// Rounds returns how many rounds were begun since the search was settled.
func (s *Search) Rounds() int { return s.rounds }

// Next chooses the master to ask next. It returns how long to wait before: only between two rounds, and longer from
// round to round.
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
	if s.lost != "" {
		for _, address := range slices.Backward(s.learned) {
			s.putFirst(address)
		}
		s.queue = append(slices.DeleteFunc(s.queue, func(address string) bool { return address == s.lost }), s.lost)
		s.lost = ""
	}
	if s.leader != "" {
		s.putFirst(s.leader)
	}
}

func (s *Search) putFirst(address string) {
	others := slices.DeleteFunc(s.queue, func(other string) bool { return other == address })
	s.queue = slices.Insert(others, 0, address)
}

// Failed notes why the master that was asked is not the leader. If a follower has named a leader, that one is asked
// next, unless it has failed in this round or too many redirects were followed. A master that has answered may be asked
// again, because it may have been elected since. A master that says when to come back has answered.
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

// Again makes the master that is asked now also the next one.
func (s *Search) Again() { s.putFirst(s.address) }

// Learn takes over the masters that a leader names, in place of those named before. An empty list changes nothing.
func (s *Search) Learn(masters []string) {
	if len(masters) > 0 {
		named := slices.DeleteFunc(slices.Clone(masters), func(address string) bool { return address == "" })
		s.learned = named[:min(len(named), learnedMax)]
	}
}

// Found remembers who leads, and learns the masters that it names.
func (s *Search) Found(leader string, masters []string) {
	s.leader = leader
	s.Learn(masters)
}

// Lost ends the search, because the master that was asked last led, and is lost. The next round asks the others first, in
// the order in which that leader has named them: in it they stand for election.
func (s *Search) Lost() {
	s.Settle()
	s.lost = s.address
}

// Settle ends the search, because the leader has proved to be one. The next search begins anew.
func (s *Search) Settle() { s.queue, s.failed, s.redirects, s.rounds = nil, nil, 0, 0 }
