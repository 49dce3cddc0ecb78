package intake

import (
	"context"
	"time"
)

const (
	// returningMax is how many agents may be between their first call and the end of their report. Further agents wait
	// in the order in which they came.
	returningMax = 256
	// returningWaitMax is how long an agent waits at most. It is less than the silence after which an agent leaves.
	// Then the agent is told to come later.
	returningWaitMax = 3 * time.Second
	// returningTimeMax is how long an agent may hold a place that others wait for. Agents on slow links must not keep
	// the others out, so at least returningMax agents enter in every returningTimeMax.
	returningTimeMax = 100 * time.Millisecond
	// ReturnRetry is when an agent that got no place in time should come back.
	ReturnRetry = 500 * time.Millisecond
)

// Gate limits how many agents come back at once. An agent that waits costs a goroutine, and costs the loop nothing.
type Gate chan struct{}

// Enter waits for a place. The function leave gives it back; a second call does nothing.
func (g Gate) Enter(ctx context.Context, over <-chan struct{}) (leave func(), ok bool) {
	patience := time.NewTimer(returningWaitMax)
	defer patience.Stop()
	select {
	case g <- struct{}{}:
	case <-patience.C:
		return nil, false
	case <-over:
		return nil, false
	case <-ctx.Done():
		return nil, false
	}
	// Either the timer or leave gives the place back, never both.
	held := time.AfterFunc(returningTimeMax, func() { <-g })
	return func() {
		if held.Stop() {
			<-g
		}
	}, true
}

const (
	// redirectsPerSecond is how fast a follower sends agents on to the leader: about as fast as a leader admits them.
	// The first few are not delayed.
	redirectsPerSecond = 2000
	// HeldMax is how long a follower keeps an agent that it can't send on yet. It is less than the time after which the
	// agent asks other masters.
	HeldMax = 2 * time.Second
	// RefusedWaitMax is how long a follower that knows the leader keeps a connection waiting in its handshake that
	// wants only the leader. The peer has not proved its identity yet, so a stranger could use up these turns; others
	// wait no longer than this because of that.
	RefusedWaitMax = 500 * time.Millisecond
)

// Pace sends agents on one after the other, at a steady rate.
type Pace struct{ next chan time.Time } // holds one value: when the next agent may go

// NewPace makes a pace that lets the first agent through at once.
func NewPace() Pace {
	p := Pace{make(chan time.Time, 1)}
	p.next <- time.Time{}
	return p
}

// Turn takes the next turn and returns how long to wait for it; false, and no turn is taken, when that is longer than
// longest.
func (p Pace) Turn(now time.Time, longest time.Duration) (time.Duration, bool) {
	at := <-p.next
	if at.Before(now) {
		at = now
	}
	wait := at.Sub(now)
	if wait > longest {
		p.next <- at
		return 0, false
	}
	p.next <- at.Add(time.Second / redirectsPerSecond)
	return wait, true
}
