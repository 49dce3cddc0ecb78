package books

import "time"

// preempts says how a member has used what was preempted for it.
type preempts struct {
	Offered bool    // it has an open offer of what was kept for it
	strikes int     // how many such offers in a row came back untouched
	Until   Instant // it preempts nothing before this
	// Asked counts how often kept offers were asked back for the member since it last launched something. AsksBack is
	// when that may happen again.
	Asked    int
	AsksBack Instant
}

const (
	// pauseMin is how long nothing is asked back for a demand after something was asked back for it in vain. The pause
	// doubles each time, up to pauseMax.
	pauseMin = time.Second
	pauseMax = 10 * time.Minute
)

// PauseAfter returns how long nothing is asked back for a demand for which this was done in vain so many times in a
// row.
func PauseAfter(strikes int) Instant { return Instant(min(pauseMin<<min(strikes, 20), pauseMax)) }

// PreemptAgain forgets how the member has used what was preempted for it, because it has launched something or says
// that it wants something new.
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
