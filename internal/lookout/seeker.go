package lookout

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/lookout/leadersearch"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	seekPauseFirst = 50 * time.Millisecond
	seekPauseLast  = 2 * time.Second
	// withinMax limits over how long a leader may ask agents to spread their return.
	withinMax = time.Minute
)

// Seeker is the search of an agent for the leader, with its pauses.
type Seeker struct {
	search leadersearch.Search
	anyone bool // the master that is asked now should admit the agent even if it does not lead
	pause  time.Duration
	held   bool // there was a session with a leader, and no pause since
	within time.Duration
	said   string // the last failure that was logged
}

// NewSeeker makes a search that begins at a random master, so that agents spread over the masters.
func NewSeeker(masters []string) *Seeker {
	s := &Seeker{search: leadersearch.New(masters)}
	s.next()
	return s
}

// Masters returns all known masters.
func (s *Seeker) Masters() []string { return s.search.Masters() }

// Address returns the master to try now.
func (s *Seeker) Address() string { return s.search.Address() }

// ErrNotLeading is the error of a master that refuses everybody who wants only the leader.
var ErrNotLeading = errors.New("it does not lead")

// LeaderOnly says whether to ask the master that is tried now for admission only if it leads, which costs little if it
// does not. If all have refused, the next round begins without that condition, so that the agent is told why, or learns
// of a leader that it did not know.
func (s *Seeker) LeaderOnly() bool { return !s.anyone }

// Learn takes over the masters that a leader has named.
func (s *Seeker) Learn(masters []string) { s.search.Learn(masters) }

// Found says that there was a session with a leader. The next search begins with the master that stands for election
// before the others: whoever else is asked first costs a refusal.
func (s *Seeker) Found() {
	s.search.Lost()
	s.pause, s.said, s.held = 0, "", true
}

// Within sets over how long all agents spread their return when a leader is lost; 0 changes nothing.
func (s *Seeker) Within(spread time.Duration) {
	if spread > 0 {
		s.within = min(spread, withinMax)
	}
}

// Failed decides which master to try next, and returns how long to wait before. An agent that had a leader waits for a
// random part of the time over which all who lost it spread. A redirect is followed at once, but not endlessly, and a
// master that only does not lead costs no pause within a round. Each other failure doubles the pause. Pauses are
// random, so that a thousand agents do not come at once. None is shorter than a refusal asks for (R34).
func (s *Seeker) Failed(err error) time.Duration {
	pause := s.failed(err)
	if s.held && s.within > 0 {
		pause = max(rand.N(s.within), api.RetryAfter(err))
	}
	s.held = false
	return pause
}

func (s *Seeker) failed(err error) (pause time.Duration) {
	if !errors.Is(err, ErrNotLeading) && !s.search.Failed(err, wire.LeaderOf(err)) {
		s.pause = min(max(2*s.pause, seekPauseFirst), seekPauseLast)
		pause = max(s.pause/2+rand.N(s.pause/2), protocol.RetryWait(api.RetryAfter(err), rand.Uint64()))
	}
	return max(pause, s.next())
}

// next chooses the master to try next, and returns how long to wait before another round.
func (s *Seeker) next() (rest time.Duration) {
	rest = s.search.Next(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	s.anyone = rest > 0
	return rest
}

// WorthSaying says whether to log a failure: the same failure again and again is logged once.
func (s *Seeker) WorthSaying(err error) bool {
	if err == nil || wire.LeaderOf(err) != "" || errors.Is(err, ErrNotLeading) || err.Error() == s.said {
		return false
	}
	s.said = err.Error()
	return true
}
