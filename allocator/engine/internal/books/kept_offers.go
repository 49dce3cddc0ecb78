package books

import (
	"time"

	"github.com/tenderhq/tender/allocator"
)

// keptOffers says when to look again through the open offers for those that are kept, which means neither accepted nor
// declined. What they hold is asked back for stated demand that nothing else can meet. (Protocol rule R42.)
type keptOffers struct {
	At     Instant // when to look; zero for never
	Looked Instant // when they were last looked through
	Some   bool    // some were kept then
	Open   int32   // number of parts of open offers
	Next   int     // number of the agent with which the look continues
}

const (
	// OfferStands is how long a framework has an offer at least.
	OfferStands = Instant(allocator.OfferStands)
	// KeptPause is the least pause before the next look at kept offers.
	KeptPause = Instant(10 * time.Millisecond)
)

// Due reports whether it is time to look.
func (k *keptOffers) Due(now Instant) bool { return k.At != 0 && k.At <= now }

// Opened notes a new offer, which is to be looked at after OfferStands.
func (k *keptOffers) Opened(now Instant) {
	k.Open++
	if k.At == 0 {
		k.At = now + OfferStands
	}
}

// Wake returns when there may be something to ask back; zero for never.
func (k *keptOffers) Wake() Instant {
	if k.Open == 0 {
		return 0
	}
	return k.At
}

// Wanted makes the next look due at once if some offers are kept, because somebody wants more.
func (k *keptOffers) Wanted(now Instant) {
	if k.Some && k.At != 0 {
		k.At = min(k.At, max(now, k.Looked+KeptPause))
	}
}

// Sooner returns the earlier of two instants; zero for the first means none.
func Sooner(at, other Instant) Instant {
	if at == 0 {
		return other
	}
	return min(at, other)
}

// OldestOffer returns when the oldest of the agent's open offers was made.
func (a *Agent) OldestOffer() Instant {
	oldest := Instant(0)
	for _, offer := range a.Offers() {
		oldest = Sooner(oldest, offer.Since)
	}
	return oldest
}
