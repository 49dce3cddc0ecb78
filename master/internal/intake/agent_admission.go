package intake

import (
	"context"
	"time"
)

const (
	// returningMax is how many agents may be between their first call and the end of
	// their report. More wait in the order in which they came.
	returningMax = 256
	// returningWaitMax is how long they wait at most: less than the silence after which
	// an agent leaves. Then they are told to come later.
	returningWaitMax = 3 * time.Second
	// returningTimeMax is how long an agent may hold a place that others wait for: agents
	// on slow links must not keep out the others, so at least returningMax come in per
	// returningTimeMax.
	returningTimeMax = 100 * time.Millisecond
	// ReturnRetry is when an agent that had no place in time is to come back.
	ReturnRetry = 500 * time.Millisecond
)

// Gate lets so many in at once. Each that it keeps waiting costs a goroutine, and the loop nothing.
type Gate chan struct{}

// NewGate makes one with places for returningMax agents.
func NewGate() Gate { return make(Gate, returningMax) }

// Enter waits for a place. leave gives it back; a second call does nothing.
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
	// redirectsPerSecond is how fast a follower sends agents on to the leader: about as
	// fast as one admits them. A few come through without any delay.
	redirectsPerSecond = 2000
	// HeldMax is how long a follower keeps an agent that it can't send on yet; less than
	// the time after which the agent asks other masters.
	HeldMax = 2 * time.Second
	// RefusedWaitMax is how long it keeps one at its door that wants the leader alone, once it knows who leads. Nobody knows
	// who stands there, so a stranger can use up these turns, and may keep others waiting no longer than this.
	RefusedWaitMax = 500 * time.Millisecond
)

// Pace sends agents on one after the other, at a steady rate.
type Pace struct{ next chan time.Time } // holds one: when the next may go

// NewPace lets the first ones through at once.
func NewPace() Pace {
	p := Pace{make(chan time.Time, 1)}
	p.next <- time.Time{}
	return p
}

// Turn is how long to wait for one's turn; false when that is longer than max.
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
