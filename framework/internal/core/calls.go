package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// HandedMax bounds the callbacks that are handed out and have no result yet; the others wait.
const HandedMax = 128

// slowCallback is how long a call may take without a warning: a third of what an offer may usually be held.
const slowCallback = 10 * time.Second

// calls are the callbacks that wait, and those that were handed out.
type calls struct {
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
func (c *Core) push(callback Callback) { c.calls.todo = append(c.calls.todo, callback) }

// wants reports whether the scheduler takes that callback.
func (c *Core) wants(interest Interests) bool { return c.config.Interests&interest != 0 }

// tell queues a callback for what is told at most once; when too much waits already it is not told.
func (c *Core) tell(interest Interests, callback Callback) {
	if c.wants(interest) && c.hasRoomFor(callback.Name()) {
		c.push(callback)
	}
}

// hasRoomFor reports whether another event may wait for the scheduler.
func (c *Core) hasRoomFor(name string) bool {
	if len(c.calls.todo) >= heldMax {
		c.log(Warn, "scheduler is too slow, event dropped", Field{"event", name})
		return false
	}
	return true
}

// callOffers has the scheduler asked about the offers that it has not seen.
func (c *Core) callOffers() {
	if !c.calls.offering {
		c.calls.offering = true
		c.push(CallOffers{})
	}
}

// callRescinded tells of kept offers that are gone.
func (c *Core) callRescinded(ids []api.OfferID, why string) {
	if c.wants(InRescinded) && len(ids) > 0 {
		c.push(CallRescinded{Offers: ids, Why: why, kept: true})
	}
}

// handOut hands out what may be called now: all, or between sessions only what always may.
func (c *Core) handOut() {
	if c.session.phase != active || c.ending.leaving {
		c.handOutAlways()
		return
	}
	for len(c.calls.todo) > 0 && len(c.calls.handed) < HandedMax {
		callback := c.calls.todo[0]
		c.calls.todo[0] = nil
		c.calls.todo = c.calls.todo[1:]
		c.hand(callback)
	}
}

// handOutAlways hands out what is also called between sessions.
func (c *Core) handOutAlways() {
	rest := c.calls.todo[:0]
	for _, callback := range c.calls.todo {
		if !callback.Always() || len(c.calls.handed) == HandedMax {
			rest = append(rest, callback)
			continue
		}
		c.hand(callback)
	}
	clear(c.calls.todo[len(rest):])
	c.calls.todo = rest
}

// hand hands out one callback.
func (c *Core) hand(callback Callback) {
	if callback = c.prepare(callback); callback != nil {
		c.calls.handed = append(c.calls.handed, callback)
		c.emit(callback)
	}
}

// prepare completes a callback right before it is handed out; nil: there is nothing to do any more.
func (c *Core) prepare(callback Callback) Callback {
	switch callback.(type) {
	case CallOffers:
		c.calls.offering = false
		shown := c.offers.show()
		if len(shown) == 0 {
			return nil
		}
		c.calls.handedOffers++
		return CallOffers{Number: c.calls.handedOffers, Offers: shown}
	case CallTurn:
		if c.ending.leaving {
			return nil
		}
	default: // the others are complete
	}
	return callback
}

// called takes the result of the first callback that was handed out.
func (c *Core) called(result Called) {
	if len(c.calls.handed) == 0 {
		return
	}
	callback := c.calls.handed[0]
	c.calls.handed[0] = nil
	c.calls.handed = c.calls.handed[1:]
	c.calls.slow.results++
	if result.Outcome == Broken {
		c.end(api.E("framework.run", api.Internal, c.self.framework.ID, result.Err))
		return
	}
	c.finish(callback, result)
}

// finish takes what a callback came to. Skipped: it was not called.
func (c *Core) finish(callback Callback, result Called) {
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

// skipCalls takes back what a session that has ended had queued.
func (c *Core) skipCalls() {
	todo := c.calls.todo
	c.calls.todo = slices.DeleteFunc(slices.Clone(todo), func(callback Callback) bool { return !callback.Always() })
	for _, callback := range todo {
		if !callback.Always() {
			c.finish(callback, Called{Outcome: Skipped})
		}
	}
}

// watchCalls warns, once, of a call that takes long. It is asked at each heartbeat.
func (c *Core) watchCalls() {
	s := &c.calls.slow
	switch {
	case len(c.calls.handed) == 0 || s.results != s.seen || s.since.IsZero():
		s.seen, s.since, s.warned = s.results, c.now, false
	case !s.warned && c.now.Sub(s.since) >= slowCallback:
		s.warned = true
		c.log(Warn, "a callback takes long; all others wait for it, offers expire meanwhile",
			Field{"callback", c.calls.handed[0].Name()}, Field{"for", c.now.Sub(s.since).Round(time.Second)})
	}
}
