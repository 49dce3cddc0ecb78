package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/lookout/leadersearch"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// dialTimeoutMin is short, so that a master that does not answer at all costs little time. The timeout doubles from
	// round to round up to dialTimeoutMax, for slow networks.
	dialTimeoutMin = 300 * time.Millisecond
	dialTimeoutMax = 5 * time.Second
	// awayWarnAfter is how long there may be no session before a warning says why, and awayWarnEvery how often it is
	// repeated.
	awayWarnAfter = 5 * time.Second
	awayWarnEvery = time.Minute
)

// search knows the masters' addresses, which master to try next, and for how long there has been no session.
type search struct {
	*base
	leadersearch.Search
	absence absence
	dialAt  time.Time // when to dial the next master
	dialing bool      // a dial is under way; there is one at a time
}

// absence is for how long there has been no session, and why.
type absence struct {
	began    time.Time
	greeted  bool      // there has been a session, or a place in the queue, before
	trouble  error     // the latest reason why there is no session
	awayFrom time.Time // since when there is no session
	warnAt   time.Time // when the next warning is due
}

// dialTimeout returns how long the next master may take to answer.
func (s *search) dialTimeout() time.Duration {
	return min(dialTimeoutMin<<min(max(s.Rounds()-1, 0), 10), dialTimeoutMax)
}

// begin begins the search: there is no session yet.
func (s *search) begin() {
	s.absence = absence{began: s.now, awayFrom: s.now, warnAt: s.now.Add(awayWarnAfter)}
	s.planDial(0)
}

// planDial chooses the next master and when to dial it. After a refusal that says when to come back, no master is asked
// sooner, because those that do not lead would only name the leader. (Protocol rule R34.)
func (s *search) planDial(after time.Duration) {
	random := s.random()
	wait := s.Next(random)
	s.dialAt = s.now.Add(max(wait, protocol.RetryWait(after, random.Uint64())))
}

// connectBy returns when Run gives up on a first session; zero: never.
func (s *search) connectBy() time.Time {
	if s.absence.greeted || s.config.ConnectTimeout <= 0 {
		return time.Time{}
	}
	return s.absence.began.Add(s.config.ConnectTimeout)
}

// await dials when it is time. It returns an error if the first session has taken too long.
func (s *search) await(term api.Term) error {
	if by := s.connectBy(); !by.IsZero() && !s.now.Before(by) {
		why := fmt.Errorf("no session within %v; is a master listening there? The last try: %w",
			s.config.ConnectTimeout, cmp.Or(s.absence.trouble, ErrNoAnswer))
		return api.E("framework.connect", api.Unavailable, strings.Join(s.config.Masters, ","), why)
	}
	if s.dialing || s.now.Before(s.dialAt) {
		return nil
	}
	s.dialing = true
	s.emit(Dial{Address: s.Address(), Timeout: s.dialTimeout(), Masters: s.Masters(), Term: term})
	return nil
}

// dialed handles the end of a dial: a master was reached, or the next dial is planned.
func (s *search) dialed(err error) (reached bool) {
	s.dialing = false
	if err == nil {
		return true
	}
	s.absence.trouble = err
	s.Failed(err, "")
	s.log(Debug, "master not reached", Field{"error", err})
	s.warnOfAbsence()
	s.planDial(api.RetryAfter(err))
	return false
}

// failed notes why the session with a master has ended, and who leads, if the reason names it.
func (s *search) failed(err error, leader string) {
	s.absence.trouble = err
	s.Failed(err, leader)
}

// greet notes that the first session, or a place in the queue, was reached.
func (s *search) greet() { s.absence.greeted, s.absence.trouble = true, nil }

// noteAbsence notes when a session has ended. A subscription that fails does not begin a new absence.
func (s *search) noteAbsence(reached phase) {
	if reached > subscribing {
		s.absence.awayFrom, s.absence.warnAt = s.now, s.now.Add(awayWarnAfter)
	}
	s.warnOfAbsence()
}

// warnOfAbsence logs, after some seconds and then once a minute, why there has been no session for so long. What the scheduler asks for meanwhile
// waits.
func (s *search) warnOfAbsence() {
	if s.now.Before(s.absence.warnAt) {
		return
	}
	s.absence.warnAt = s.now.Add(awayWarnEvery)
	s.log(Warn, "no master takes a session; trying on", Field{"for", s.now.Sub(s.absence.awayFrom).Round(time.Second)},
		Field{"masters", s.Masters()}, Field{"error", s.absence.trouble})
}
