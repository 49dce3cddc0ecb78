package lookout

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	seekPauseFirst = 50 * time.Millisecond
	seekPauseLast  = 2 * time.Second
	// seekFollowsMax bounds how often followers' word for who leads is taken in a row.
	seekFollowsMax = 3
	// seekMastersMax bounds what is remembered; more addresses than that are not learnt.
	seekMastersMax = 64
	// withinMax bounds what a leader may say of the others' return.
	withinMax = time.Minute
)

// Seeker is where an agent looks for the leader, and how long it pauses before.
type Seeker struct {
	masters []string // as configured, then those that a leader has named
	next    int
	hint    string // where a follower says that the leader is
	pause   time.Duration
	follows int  // hints followed in a row
	held    bool // a session with a leader, and no pause since
	tried   int  // masters that were asked for the leader alone, since one was asked without this condition
	within  time.Duration
	said    string // the last failure that was worth a line
}

// NewSeeker begins anywhere, so that agents spread over the masters.
func NewSeeker(masters []string) *Seeker {
	return &Seeker{masters: slices.Clone(masters), next: rand.N(len(masters))}
}

// Masters are all that are known.
func (s *Seeker) Masters() []string { return s.masters }

// Address is whom to try now.
func (s *Seeker) Address() string {
	if hint := s.hint; hint != "" {
		s.hint = ""
		return hint
	}
	address := s.masters[s.next%len(s.masters)]
	s.next++
	return address
}

// ErrNotLeading is why a master has let nobody in that wants the leader alone.
var ErrNotLeading = errors.New("it does not lead")

// LeaderOnly is whether to ask whoever is tried now to let one in only if it leads: that costs little where it does not. Who
// has asked as many as there are in vain asks one without the condition, and hears why, or of a leader that it does not know.
func (s *Seeker) LeaderOnly() bool { return s.tried < len(s.masters) }

// Learn adds masters that a leader has named.
func (s *Seeker) Learn(masters []string) {
	for _, master := range masters {
		if master != "" && !slices.Contains(s.masters, master) && len(s.masters) < seekMastersMax {
			s.masters = append(s.masters, master)
		}
	}
}

// Found says that there was a session with a leader. The next search begins anywhere: all who have found the same leader in the
// same way would else ask the same one first.
func (s *Seeker) Found() {
	s.pause, s.follows, s.tried, s.said, s.held = 0, 0, 0, "", true
	s.next = rand.N(len(s.masters))
}

// Within says over how long all agents spread their return when a leader is lost; 0: as
// long as before.
func (s *Seeker) Within(spread time.Duration) {
	if spread > 0 {
		s.within = min(spread, withinMax)
	}
}

// Failed decides how long to wait. Who had a leader waits for its turn among all others
// who lost it. A follower's hint is followed at once, but not round
// and round; each other failure doubles the pause, which is jittered, so that a
// thousand agents do not come as one. Nobody is asked sooner than a refusal says (R34).
func (s *Seeker) Failed(err error) time.Duration {
	pause := s.failed(err)
	if s.held && s.within > 0 {
		pause = max(rand.N(s.within), api.RetryAfter(err))
	}
	s.held = false
	return pause
}

func (s *Seeker) failed(err error) time.Duration {
	if s.LeaderOnly() {
		s.tried++
	} else {
		s.tried = 0
	}
	if errors.Is(err, ErrNotLeading) {
		return 0 // another one may
	}
	if leader := wire.LeaderOf(err); leader != "" && s.follows < seekFollowsMax {
		s.hint = leader
		s.follows++
		return 0
	}
	s.follows = 0
	s.pause = min(max(2*s.pause, seekPauseFirst), seekPauseLast)
	return max(s.pause/2+rand.N(s.pause/2), protocol.RetryWait(api.RetryAfter(err), rand.Uint64()))
}

// WorthSaying: the same failure again and again is one line, not a thousand.
func (s *Seeker) WorthSaying(err error) bool {
	if err == nil || wire.LeaderOf(err) != "" || errors.Is(err, ErrNotLeading) || err.Error() == s.said {
		return false
	}
	s.said = err.Error()
	return true
}
