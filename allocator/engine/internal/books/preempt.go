package books

import "time"

// preempts is how a member has fared with what was preempted for it.
type preempts struct {
	Offered bool    // it holds an offer of what was kept for it
	strikes int     // such offers that came back untouched, one after the other
	Until   Instant // it preempts no more before
	// Asked counts how often kept offers were asked back for it since it launched something last; AsksBack is when
	// that may happen again.
	Asked    int
	AsksBack Instant
}

const (
	// pauseMin is how long a demand asks nothing back after what was asked back for it was not used; it doubles each
	// time up to pauseMax.
	pauseMin = time.Second
	pauseMax = 10 * time.Minute
)

// PauseAfter is how long a demand asks nothing back that has done so in vain so often before.
func PauseAfter(strikes int) Instant { return Instant(min(pauseMin<<min(strikes, 20), pauseMax)) }

// PreemptAgain forgets how the member has fared: it has launched something, or says that it is new.
func (b *Books) PreemptAgain(m *Member) {
	m.Preempts = preempts{}
	b.Keeps.Stale = true
}

// PreemptLater notes that an offer of the member came back untouched: what was preempted for it was in vain.
func (b *Books) PreemptLater(m *Member) {
	p := &m.Preempts
	if !p.Offered {
		return
	}
	p.Offered = false
	p.Until = b.Now + PauseAfter(p.strikes)
	p.strikes++
}
