package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
)

// job is one call of the user's code.
type job struct {
	name string // "Update", for the sentence after a panic
	// prepare runs in the loop right before the call; false: nothing to do any more.
	prepare func() bool
	call    func(ctx context.Context) error
	// done runs in the loop. err is what call returned, or errSkipped.
	done func(err error)
	// always: also between sessions.
	always bool
	ctx    context.Context // set when the loop hands it out
}

// result is a job that has run.
type result struct {
	job    job
	err    error
	called bool          // it was not skipped
	took   time.Duration // when it is measured
}

// errSkipped: the job was not called because its session has ended.
var errSkipped = errors.New("the session has ended")

// errBroken marks an error that comes from a panic of the user's code.
var errBroken = errors.New("a callback must not panic")

// handedMax bounds the jobs that are out of the loop's hands; the others wait in todo.
const handedMax = 128

// callbacks is the goroutine that calls the user's code.
type callbacks struct {
	jobs    chan job    // capacity handedMax, as is that of results: no send ever blocks
	results chan result // one for each job
	handed  int         // loop's only: jobs without a result yet
	names   []string    // loop's only: of those, in order
	stuck   stuck       // loop's only
	todo    []job       // loop's only
	measure bool        // someone wants to know how long calls take
	// goroutine is the name of the one that calls, for who must not wait for it.
	goroutine atomic.Pointer[string]
}

func newCallbacks(measure bool) *callbacks {
	return &callbacks{measure: measure, jobs: make(chan job, handedMax), results: make(chan result, handedMax)}
}

func (c *callbacks) run() {
	me := goroutine()
	c.goroutine.Store(&me)
	var current job
	var began time.Time
	closed := false
	// A panic costs the framework its Run; so does a goroutine that the user's code ends
	// (testing.T.FailNow does that). Either way each job gets its result.
	defer func() {
		if !closed {
			c.results <- result{current, broken(current.name, recover()), true, c.since(began)}
			c.run()
		}
	}()
	for current = range c.jobs {
		began = c.now()
		err := current.run()
		c.results <- result{current, err, !errors.Is(err, errSkipped), c.since(began)}
	}
	closed = true
}

// now and since cost nothing when nobody wants to know.
func (c *callbacks) now() (now time.Time) {
	if c.measure {
		now = time.Now()
	}
	return now
}

func (c *callbacks) since(began time.Time) (took time.Duration) {
	if c.measure {
		took = time.Since(began)
	}
	return took
}

func (j job) run() error {
	if j.ctx.Err() != nil && !j.always {
		return errSkipped
	}
	return j.call(j.ctx)
}

func broken(name string, cause any) error {
	if cause == nil {
		return fmt.Errorf("%s ended its goroutine (runtime.Goexit, or FailNow of a test): %w", name, errBroken)
	}
	return fmt.Errorf("%s panicked: %v: %w\n%s", name, cause, errBroken, debug.Stack())
}

// stuck notices a call that does not return.
type stuck struct {
	results int       // so far
	seen    int       // of them, when since was set
	since   time.Time // not before the current call began
	warned  bool
}

// slowCallback is how long a call may take without a warning: a third of what an offer
// may usually be held.
const slowCallback = 10 * time.Second

// returned notes that the first of those handed out has a result.
func (c *callbacks) returned() {
	c.handed--
	c.names = c.names[1:]
	c.stuck.results++
}

// watch warns, once, of a call that takes long. It is asked at each heartbeat.
func (c *callbacks) watch(now time.Time, log *slog.Logger) {
	s := &c.stuck
	switch {
	case c.handed == 0 || s.results != s.seen || s.since.IsZero():
		s.seen, s.since, s.warned = s.results, now, false
	case !s.warned && now.Sub(s.since) >= slowCallback:
		s.warned = true
		log.Warn("a callback takes long; all others wait for it, offers expire meanwhile", "callback", c.names[0], "for", now.Sub(s.since).Round(time.Second))
	}
}

// dispatch hands out what may be called now: all, or between sessions only what always may.
func (c *callbacks) dispatch(session context.Context, active bool) {
	rest := 0
	for i := range c.todo {
		j := c.todo[i]
		if c.handed == handedMax || !active && !j.always {
			c.todo[rest] = j
			rest++
			continue
		}
		if j.prepare != nil && !j.prepare() {
			continue
		}
		j.ctx = session
		c.handed++
		c.names = append(c.names, j.name)
		c.jobs <- j
	}
	clear(c.todo[rest:])
	c.todo = c.todo[:rest]
}

func (c *callbacks) push(j job) { c.todo = append(c.todo, j) }

// skip takes back what a session that has ended had queued.
func (c *callbacks) skip() {
	kept := c.todo[:0:0]
	for _, j := range c.todo {
		if j.always {
			kept = append(kept, j)
		} else {
			j.done(errSkipped)
		}
	}
	c.todo = kept
}

// The jobs. Each closure named done runs in the loop.

func (l *loop) callSubscribed() {
	subscriber := l.scheduler.(Subscriber)
	ctx := l.session.ctx
	l.callbacks.push(job{
		name: "Subscribed",
		call: func(ctx context.Context) error { return subscriber.Subscribed(ctx, l.client) },
		done: func(err error) {
			switch {
			case ctx.Err() != nil: // that session has ended
			case err != nil && !errors.Is(err, errSkipped):
				l.failSession(api.E("framework.subscribed", api.KindOf(err), l.framework.ID, err))
			case l.session.ctx == ctx:
				l.awaitOffers()
			}
		},
	})
}

// callSettled comes behind the statuses; at most one waits, as sessions clear the queue.
func (l *loop) callSettled() {
	if settler, ok := l.scheduler.(Settler); ok {
		l.callbacks.push(job{
			name: "Settled",
			call: func(ctx context.Context) error { settler.Settled(ctx); return nil },
			done: func(error) {},
		})
	}
}

func (l *loop) callOffers() {
	if l.showing {
		return
	}
	l.showing = true
	var number uint64
	var shown []api.Offer
	var answers []api.Answer
	l.callbacks.push(job{
		name: "Offers",
		prepare: func() bool {
			l.showing = false
			shown = l.offers.show()
			l.handedOffers++
			number = l.handedOffers
			return len(shown) > 0
		},
		call: func(ctx context.Context) error {
			l.begunOffers.Store(number)
			answers = l.scheduler.Offers(ctx, shown)
			return nil
		},
		done: func(err error) {
			if errors.Is(err, errSkipped) {
				l.showing = false
			} else {
				l.answered(shown, answers)
			}
			l.answeredOffers = number
			l.sayDemands()
		},
	})
}

// callUpdate asks the scheduler to handle t.held[0].
func (l *loop) callUpdate(t *task) {
	t.busy = true
	status := t.held[0]
	l.callbacks.push(job{
		name: "Update",
		call: func(ctx context.Context) error { return l.scheduler.Update(ctx, status) },
		done: func(err error) { l.updated(t, err) },
	})
}

// callRescinded tells of kept offers that are gone.
func (l *loop) callRescinded(ids []api.OfferID, why string) {
	rescinder, ok := l.scheduler.(Rescinder)
	if !ok || len(ids) == 0 {
		return
	}
	l.callbacks.push(job{
		name:   "Rescinded",
		always: true,
		call:   func(ctx context.Context) error { rescinder.Rescinded(ctx, ids, why); return nil },
		done:   func(error) {},
	})
}

// tell calls an optional interface for an event that is told at most once; when too
// much waits already it is not told.
func (l *loop) tell(name string, call func(ctx context.Context)) {
	if len(l.callbacks.todo) >= heldMax {
		l.log.Warn("scheduler is too slow, event dropped", "event", name)
		return
	}
	l.callbacks.push(job{
		name: name,
		call: func(ctx context.Context) error { call(ctx); return nil },
		done: func(error) {},
	})
}
