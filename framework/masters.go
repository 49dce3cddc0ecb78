package framework

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// backoffBase and backoffMax bound the pause between two rounds through the
	// masters; a pause is anything up to that (full jitter).
	backoffBase = 20 * time.Millisecond
	backoffMax  = time.Second
	// dialTimeoutMin lets a master that does not answer at all cost little; it doubles
	// from round to round up to dialTimeoutMax for slow networks.
	dialTimeoutMin = 300 * time.Millisecond
	dialTimeoutMax = 5 * time.Second
	// redirectsMax bounds how often a round follows what followers say of the leader.
	redirectsMax = 3
	// mastersMax bounds what is remembered; more addresses than that are forgotten.
	mastersMax = 64
)

// masters knows where masters are and which one to try next.
type masters struct {
	configured []string
	learned    []string // what the last leader said; replaces the one before
	leader     string   // the last one that led
	queue      []string // of this round
	redirects  int      // followed in this round
	rounds     int      // in a row that found no leader
}

// next names the master to try and how long to wait before.
func (m *masters) next() (address string, wait time.Duration) {
	if len(m.queue) == 0 {
		if m.rounds > 0 {
			wait = rand.N(min(backoffBase<<min(m.rounds-1, 10), backoffMax)) + 1
		}
		m.rounds++
		m.redirects = 0
		m.queue = m.round()
	}
	address, m.queue = m.queue[0], m.queue[1:]
	return address, wait
}

// round lists every known master once: the last leader first, the others in any order.
func (m *masters) round() []string {
	all := m.all()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if i := slices.Index(all, m.leader); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// all are the masters that are known, each once.
func (m *masters) all() []string {
	all := append(slices.Clone(m.configured), m.learned...)
	slices.Sort(all)
	return slices.Compact(all)
}

// dialTimeout is how long the next master may take to answer.
func (m *masters) dialTimeout() time.Duration {
	return min(dialTimeoutMin<<min(max(m.rounds-1, 0), 10), dialTimeoutMax)
}

// redirected puts the leader's address, as a follower has it, in front.
func (m *masters) redirected(leader string) {
	if leader == "" || m.redirects == redirectsMax {
		return
	}
	m.redirects++
	m.queue = append([]string{leader}, slices.DeleteFunc(m.queue, func(a string) bool { return a == leader })...)
}

// found remembers who leads and whom it names.
func (m *masters) found(leader string, others []string) {
	m.leader = leader
	if len(others) > 0 {
		m.learned = slices.Clone(others[:min(len(others), mastersMax)])
	}
}

// settled ends the search: the session has proven good.
func (m *masters) settled() { m.rounds, m.queue = 0, nil }
