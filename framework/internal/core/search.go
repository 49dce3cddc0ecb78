package core

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
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
	// awayWarnEvery is how often the absence of masters is worth a warning.
	awayWarnEvery = time.Minute
)

// search knows where masters are and which one to try next.
type search struct {
	configured []string
	learned    []string // what the last leader said; replaces the one before
	leader     string   // the last one that led
	queue      []string // of this round
	redirects  int      // followed in this round
	rounds     int      // in a row that found no leader

	next    string // the master to dial at dialAt
	dialAt  time.Time
	dialing bool // one dial at a time
}

// absence is how long there has been no session.
type absence struct {
	began    time.Time
	greeted  bool      // a first session, or a place in the queue, was had
	trouble  error     // the latest reason why there is no session
	awayFrom time.Time // since when there is none
	warnAt   time.Time // when that is worth a word again
}

// plan names the master to try and how long to wait before.
func (s *search) plan(random *rand.Rand) (wait time.Duration) {
	if len(s.queue) == 0 {
		if s.rounds > 0 {
			wait = time.Duration(random.Int64N(int64(min(backoffBase<<min(s.rounds-1, 10), backoffMax)))) + 1
		}
		s.rounds++
		s.redirects = 0
		s.queue = s.round(random)
	}
	s.next, s.queue = s.queue[0], s.queue[1:]
	return wait
}

// round lists every known master once: the last leader first, the others in any order.
func (s *search) round(random *rand.Rand) []string {
	all := s.all()
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if i := slices.Index(all, s.leader); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// all are the masters that are known, each once.
func (s *search) all() []string {
	all := append(slices.Clone(s.configured), s.learned...)
	slices.Sort(all)
	return slices.Compact(all)
}

// dialTimeout is how long the next master may take to answer.
func (s *search) dialTimeout() time.Duration {
	return min(dialTimeoutMin<<min(max(s.rounds-1, 0), 10), dialTimeoutMax)
}

// redirect puts the leader's address, as a follower has it, in front.
func (s *search) redirect(leader string) {
	if leader == "" || s.redirects == redirectsMax {
		return
	}
	s.redirects++
	others := slices.DeleteFunc(slices.Clone(s.queue), func(a string) bool { return a == leader })
	s.queue = append([]string{leader}, others...)
}

// found remembers who leads and whom it names.
func (s *search) found(leader string, others []string) {
	s.leader = leader
	if len(others) > 0 {
		s.learned = slices.Clone(others[:min(len(others), mastersMax)])
	}
}

// settle ends the search: the session has proven good.
func (s *search) settle() { s.rounds, s.queue = 0, nil }

// planDial chooses the next master.
func (c *Core) planDial() { c.search.dialAt = c.now.Add(c.search.plan(c.random())) }

// connectBy is when Run gives up on a first session; zero: never.
func (c *Core) connectBy() time.Time {
	if c.absence.greeted || c.config.ConnectTimeout <= 0 {
		return time.Time{}
	}
	return c.absence.began.Add(c.config.ConnectTimeout)
}

// awaitMaster dials when it is time.
func (c *Core) awaitMaster() {
	if by := c.connectBy(); !by.IsZero() && !c.now.Before(by) {
		why := fmt.Errorf("no session within %v; is a master listening there? The last try: %w",
			c.config.ConnectTimeout, cmp.Or(c.absence.trouble, ErrNoAnswer))
		c.end(api.E("framework.connect", api.Unavailable, strings.Join(c.config.Masters, ","), why))
		return
	}
	if c.search.dialing || c.now.Before(c.search.dialAt) {
		return
	}
	c.search.dialing = true
	c.emit(Dial{Address: c.search.next, Timeout: c.search.dialTimeout(), Masters: c.search.all(), Term: c.self.term})
}

// dialed subscribes at the master that was reached, or plans to try the next one.
func (c *Core) dialed(err error) {
	c.search.dialing = false
	if err != nil {
		c.absence.trouble = err
		c.log(Debug, "master not reached", Field{"error", err})
		c.warnOfAbsence()
		c.planDial()
		return
	}
	c.session = newSession(c.search.next, c.session.begun, c.now)
	c.subscribe()
}

// noteAbsence follows the end of a session; a subscription that fails only goes on with it.
func (c *Core) noteAbsence(reached phase) {
	if reached > subscribing {
		c.absence.awayFrom, c.absence.warnAt = c.now, c.now.Add(awayWarnEvery)
	}
	c.warnOfAbsence()
}

// warnOfAbsence says now and then why there has been no session for so long. What the
// scheduler asks for meanwhile waits.
func (c *Core) warnOfAbsence() {
	if c.ending.over || c.now.Before(c.absence.warnAt) {
		return
	}
	c.absence.warnAt = c.now.Add(awayWarnEvery)
	c.log(Warn, "no master takes a session; trying on", Field{"for", c.now.Sub(c.absence.awayFrom).Round(time.Second)},
		Field{"masters", c.search.all()}, Field{"error", c.absence.trouble})
}
