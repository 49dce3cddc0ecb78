package lookout

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/leadersearch"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	seekPauseFirst = 50 * time.Millisecond
	seekPauseLast  = 2 * time.Second
	// withinMax bounds what a leader may say of the others' return.
	withinMax = time.Minute
)

// Seeker is where an agent looks for the leader, and how long it pauses before.
type Seeker struct {
	search leadersearch.Search
	anyone bool // whoever is asked now is to let one in even if it does not lead
	pause  time.Duration
	held   bool // a session with a leader, and no pause since
	within time.Duration
	said   string // the last failure that was worth a line
}

// NewSeeker begins anywhere, so that agents spread over the masters.
func NewSeeker(masters []string) *Seeker {
	s := &Seeker{search: leadersearch.New(masters)}
	s.next()
	return s
}

// Masters are all that are known.
func (s *Seeker) Masters() []string { return s.search.Masters() }

// Address is whom to try now.
func (s *Seeker) Address() string { return s.search.Address() }

// ErrNotLeading is why a master has let nobody in that wants the leader alone.
var ErrNotLeading = errors.New("it does not lead")

// LeaderOnly is whether to ask whoever is tried now to let one in only if it leads: that costs little where it does not. Who
// has asked all in vain begins the next round without the condition, and hears why, or of a leader that it does not know.
func (s *Seeker) LeaderOnly() bool { return !s.anyone }

// Learn takes over the masters that a leader has named.
func (s *Seeker) Learn(masters []string) { s.search.Learn(masters) }

// Found says that there was a session with a leader. The next search begins anywhere: all who have found the same leader in the
// same way would else ask the same one first.
func (s *Seeker) Found() {
	s.search.Settle()
	s.pause, s.said, s.held = 0, "", true
}

// Within says over how long all agents spread their return when a leader is lost; 0: as
// long as before.
func (s *Seeker) Within(spread time.Duration) {
	if spread > 0 {
		s.within = min(spread, withinMax)
	}
}

// Failed decides whom to try next, and how long to wait before. Who had a leader waits for its turn among all others who lost
// it. A follower's word for who leads is followed at once, but not round and round, and one that only does not lead costs no
// pause within a round; each other failure doubles the pause, which is jittered, so that a thousand agents do not come as one.
// Nobody is asked sooner than a refusal says (R34).
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

// next chooses whom to try next, and says how long to rest before another round.
func (s *Seeker) next() (rest time.Duration) {
	rest = s.search.Next(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	s.anyone = rest > 0
	return rest
}

// WorthSaying: the same failure again and again is one line, not a thousand.
func (s *Seeker) WorthSaying(err error) bool {
	if err == nil || wire.LeaderOf(err) != "" || errors.Is(err, ErrNotLeading) || err.Error() == s.said {
		return false
	}
	s.said = err.Error()
	return true
}
