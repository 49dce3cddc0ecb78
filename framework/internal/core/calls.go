package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// HandedMax bounds the callbacks that are handed out and have no result yet; further callbacks wait.
const HandedMax = 128

// slowCallback is how long a callback may take before a warning is logged: a third of the time for which an offer may
// usually be held.
const slowCallback = 10 * time.Second

// calls holds the callbacks that wait, and those that are handed out.
type calls struct {
	*base
	todo   []Callback
	handed []Callback // handed out and without a result yet, in order
	// offering says that a call of Offers waits. Offers that come until the call is handed out are shown by it too.
	offering       bool
	handedOffers   uint64 // number of the call of Offers that was handed out last
	answeredOffers uint64 // number of the call of Offers whose answers were sent last
	slow           slowness
}

// slowness notices a callback that does not return.
type slowness struct {
	results uint64    // number of results so far
	seen    uint64    // value of results when since was set
	since   time.Time // a time at which the current call had begun
	warned  bool
}

// queueCall queues a callback behind those that wait.
func (c *calls) queueCall(callback Callback) { c.todo = append(c.todo, callback) }

// queueEvent queues a callback for an event that is told at most once. If too many callbacks wait already, the event is
// dropped.
func (c *calls) queueEvent(interest Interests, callback Callback) {
	if c.wants(interest) && c.hasRoomFor(callback.Name()) {
		c.queueCall(callback)
	}
}

// withdrawOffers notes that the call of Offers that waited is not handed out.
func (c *calls) withdrawOffers() { c.offering = false }

// noteAnswered notes that the answers of a call of Offers are sent.
func (c *calls) noteAnswered(offers uint64) { c.answeredOffers = max(c.answeredOffers, offers) }

// hasRoomFor reports whether one more event may wait for the scheduler.
func (c *calls) hasRoomFor(name string) bool {
	if len(c.todo) >= heldMax {
		c.log(Warn, "scheduler is too slow, event dropped", Field{"event", name})
		return false
	}
	return true
}

// askAboutOffers queues a call of Offers for the offers that the scheduler has not seen, unless one waits already.
func (c *calls) askAboutOffers() {
	if !c.offering {
		c.offering = true
		c.queueCall(CallOffers{})
	}
}

// tellRescinded queues the call that tells which kept offers are gone.
func (c *calls) tellRescinded(ids []api.OfferID, why string) {
	if c.wants(InRescinded) && len(ids) > 0 {
		c.queueCall(CallRescinded{Offers: ids, Why: why, kept: true})
	}
}

// unseen holds the offers that the scheduler has not seen. show returns them; from then on they count as seen.
type unseen interface{ show() []api.Offer }

// handOut hands out the callbacks that may be called now: in a session all of them, between sessions only those that
// are always called. Once the framework is leaving, turns of the user's functions are no longer handed out.
func (c *calls) handOut(inSession, leaving bool, offers unseen) {
	if !inSession {
		c.handOutAlways(leaving, offers)
		return
	}
	for len(c.todo) > 0 && len(c.handed) < HandedMax {
		callback := c.todo[0]
		c.todo[0] = nil
		c.todo = c.todo[1:]
		c.handCall(callback, leaving, offers)
	}
}

// handOutAlways hands out the callbacks that are also called between sessions.
func (c *calls) handOutAlways(leaving bool, offers unseen) {
	rest := c.todo[:0]
	for _, callback := range c.todo {
		if !IsAlwaysMade(callback) || len(c.handed) == HandedMax {
			rest = append(rest, callback)
			continue
		}
		c.handCall(callback, leaving, offers)
	}
	clear(c.todo[len(rest):])
	c.todo = rest
}

// handCall hands out one callback.
func (c *calls) handCall(callback Callback, leaving bool, offers unseen) {
	if callback = c.completeCall(callback, leaving, offers); callback != nil {
		c.handed = append(c.handed, callback)
		c.emit(callback)
	}
}

// completeCall completes a callback right before it is handed out; nil: the callback is no longer needed.
func (c *calls) completeCall(callback Callback, leaving bool, offers unseen) Callback {
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
	default: // the others are complete already
	}
	return callback
}

// nextReturned returns the first callback that is handed out and has no result yet; nil: there is none.
func (c *calls) nextReturned() Callback {
	if len(c.handed) == 0 {
		return nil
	}
	callback := c.handed[0]
	c.handed[0] = nil
	c.handed = c.handed[1:]
	c.slow.results++
	return callback
}

// skipWaiting removes and returns the callbacks that wait for a session that has ended.
func (c *calls) skipWaiting() (skipped []Callback) {
	var rest []Callback
	for _, callback := range c.todo {
		if IsAlwaysMade(callback) {
			rest = append(rest, callback)
		} else {
			skipped = append(skipped, callback)
		}
	}
	c.todo = rest
	return skipped
}

// watchSlowness warns, once, of a callback that takes long. It is called at each heartbeat.
func (c *calls) watchSlowness() {
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

// takeResult takes the result of the first callback that is handed out and has no result yet.
func (c *Core) takeResult(result Called) {
	callback := c.calls.nextReturned()
	switch {
	case callback == nil:
	case result.Outcome == Broken:
		c.endRun(api.E("framework.run", api.Internal, c.self.framework.ID, result.Err))
	default:
		c.finishCallback(callback, result)
	}
}

// finishCallback does what follows from the result of a callback. Skipped says that the user's code was not called.
func (c *Core) finishCallback(callback Callback, result Called) {
	switch callback := callback.(type) {
	case CallSubscribed:
		c.subscribedReturned(callback, result)
	case CallOffers:
		c.answers.hearAnswers(callback, result)
	case CallUpdate:
		c.statuses.hearResult(callback, result)
	case CallOperationDone:
		if result.Outcome != Skipped {
			c.operations.forgetTold(callback)
		}
	default: // nothing follows from the others
	}
}
