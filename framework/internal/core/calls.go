package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// HandedMax bounds the callbacks that are handed out and have no result yet; the others wait.
const HandedMax = 128

// slowCallback is how long a call may take without a warning: a third of what an offer may usually be held.
const slowCallback = 10 * time.Second

// calls are the callbacks that wait, and those that were handed out.
type calls struct {
	*base
	todo   []Callback
	handed []Callback // without a result yet, in order
	// offering: a call of Offers waits. What comes until it is handed out is shown by it too.
	offering       bool
	handedOffers   uint64 // the number of the call of Offers that was handed out last
	answeredOffers uint64 // and of the one whose answers were sent last
	slow           slowness
}

// slowness notices a call that does not return.
type slowness struct {
	results uint64    // so far
	seen    uint64    // of them, when since was set
	since   time.Time // not before the current call began
	warned  bool
}

// push queues a callback behind those that wait.
func (c *calls) push(callback Callback) { c.todo = append(c.todo, callback) }

// tell queues a callback for what is told at most once; when too much waits already it is not told.
func (c *calls) tell(interest Interests, callback Callback) {
	if c.wants(interest) && c.hasRoomFor(callback.Name()) {
		c.push(callback)
	}
}

// hasRoomFor reports whether another event may wait for the scheduler.
func (c *calls) hasRoomFor(name string) bool {
	if len(c.todo) >= heldMax {
		c.log(Warn, "scheduler is too slow, event dropped", Field{"event", name})
		return false
	}
	return true
}

// askAboutOffers has the scheduler asked about the offers that it has not seen.
func (c *calls) askAboutOffers() {
	if !c.offering {
		c.offering = true
		c.push(CallOffers{})
	}
}

// tellRescinded tells of kept offers that are gone.
func (c *calls) tellRescinded(ids []api.OfferID, why string) {
	if c.wants(InRescinded) && len(ids) > 0 {
		c.push(CallRescinded{Offers: ids, Why: why, kept: true})
	}
}

// unseen are the offers that the scheduler has not seen; to show them makes them seen.
type unseen interface{ show() []api.Offer }

// handOut hands out what may be called now: in a session all, between sessions only what always may; once the
// framework is leaving, no more of its own turns.
func (c *calls) handOut(inSession, leaving bool, offers unseen) {
	if !inSession {
		c.handOutAlways(leaving, offers)
		return
	}
	for len(c.todo) > 0 && len(c.handed) < HandedMax {
		callback := c.todo[0]
		c.todo[0] = nil
		c.todo = c.todo[1:]
		c.hand(callback, leaving, offers)
	}
}

// handOutAlways hands out what is also called between sessions.
func (c *calls) handOutAlways(leaving bool, offers unseen) {
	rest := c.todo[:0]
	for _, callback := range c.todo {
		if !callback.Always() || len(c.handed) == HandedMax {
			rest = append(rest, callback)
			continue
		}
		c.hand(callback, leaving, offers)
	}
	clear(c.todo[len(rest):])
	c.todo = rest
}

// hand hands out one callback.
func (c *calls) hand(callback Callback, leaving bool, offers unseen) {
	if callback = c.complete(callback, leaving, offers); callback != nil {
		c.handed = append(c.handed, callback)
		c.emit(callback)
	}
}

// complete completes a callback right before it is handed out; nil: there is nothing to do any more.
func (c *calls) complete(callback Callback, leaving bool, offers unseen) Callback {
	switch callback.(type) {
	case CallOffers:
		c.offering = false
		shown := offers.show()
		if len(shown) == 0 {
			return nil
		}
		c.handedOffers++
		return CallOffers{Number: c.handedOffers, Offers: shown}
	case CallTurn:
		if leaving {
			return nil
		}
	default: // the others are complete
	}
	return callback
}

// returned is the first callback that was handed out and has no result yet; nil: there is none.
func (c *calls) returned() Callback {
	if len(c.handed) == 0 {
		return nil
	}
	callback := c.handed[0]
	c.handed[0] = nil
	c.handed = c.handed[1:]
	c.slow.results++
	return callback
}

// skip takes back what a session that has ended had queued, and returns it.
func (c *calls) skip() (skipped []Callback) {
	var rest []Callback
	for _, callback := range c.todo {
		if callback.Always() {
			rest = append(rest, callback)
		} else {
			skipped = append(skipped, callback)
		}
	}
	c.todo = rest
	return skipped
}

// watch warns, once, of a call that takes long. It is asked at each heartbeat.
func (c *calls) watch() {
	s := &c.slow
	switch {
	case len(c.handed) == 0 || s.results != s.seen || s.since.IsZero():
		s.seen, s.since, s.warned = s.results, c.now, false
	case !s.warned && c.now.Sub(s.since) >= slowCallback:
		s.warned = true
		c.log(Warn, "a callback takes long; all others wait for it, offers expire meanwhile",
			Field{"callback", c.handed[0].Name()}, Field{"for", c.now.Sub(s.since).Round(time.Second)})
	}
}

// takeResult takes the result of the first callback that was handed out.
func (c *Core) takeResult(result Called) {
	callback := c.calls.returned()
	switch {
	case callback == nil:
	case result.Outcome == Broken:
		c.endRun(api.E("framework.run", api.Internal, c.self.framework.ID, result.Err))
	default:
		c.finishCallback(callback, result)
	}
}

// finishCallback takes what a callback came to. Skipped: it was not called.
func (c *Core) finishCallback(callback Callback, result Called) {
	switch callback := callback.(type) {
	case CallSubscribed:
		c.subscribedReturned(callback, result)
	case CallOffers:
		c.offersReturned(callback, result)
	case CallUpdate:
		c.updateReturned(callback, result)
	case CallOperationDone:
		if result.Outcome != Skipped {
			c.operations.told(callback)
		}
	default: // nothing follows from the others
	}
}
