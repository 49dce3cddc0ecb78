package books

import (
	"time"

	"github.com/tenderhq/tender/allocator"
)

// keptOffers says when open offers are next looked through for those that are kept, which is neither accepted nor
// declined: what they hold is asked back for stated demand that nothing else can meet. (Protocol rule R42.)
type keptOffers struct {
	At     Instant // zero for never
	Looked Instant // the last time
	Some   bool    // then there were some that are kept
	Open   int32   // parts of offers that are not answered
	Next   int     // number of the agent at which the look goes on
}

const (
	// OfferStands is how long an offer is its framework's.
	OfferStands = Instant(allocator.OfferStands)
	// KeptPause is how long the next look at kept offers waits at least.
	KeptPause = Instant(10 * time.Millisecond)
)

// Due reports whether it is time to look.
func (k *keptOffers) Due(now Instant) bool { return k.At != 0 && k.At <= now }

// Opened notes that there is an offer to look at when it has stood for its time.
func (k *keptOffers) Opened(now Instant) {
	k.Open++
	if k.At == 0 {
		k.At = now + OfferStands
	}
}

// Wake is when there may be something to ask back; zero for never.
func (k *keptOffers) Wake() Instant {
	if k.Open == 0 {
		return 0
	}
	return k.At
}

// Wanted looks again at once when somebody wants more and there are offers that are kept.
func (k *keptOffers) Wanted(now Instant) {
	if k.Some && k.At != 0 {
		k.At = min(k.At, max(now, k.Looked+KeptPause))
	}
}

// Sooner is the earlier of two instants, of which the first may be none.
func Sooner(at, other Instant) Instant {
	if at == 0 {
		return other
	}
	return min(at, other)
}

// OldestOffer is when the first of the agent's open offers was made.
func (a *Agent) OldestOffer() Instant {
	oldest := Instant(0)
	for _, offer := range a.Offers() {
		oldest = Sooner(oldest, offer.Since)
	}
	return oldest
}
