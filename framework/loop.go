package framework

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// requestsMax bounds what callers of the Client have asked and the loop has not
	// taken; callers wait.
	requestsMax = 1024
	// callsMax bounds what the master has not taken; beyond it the session is closed.
	callsMax = 1 << 16
	// teardownTimeout bounds how long Run, at its end, waits for the framework's removal.
	teardownTimeout = 5 * time.Second
)

// loop owns all state of a Run. Only its goroutine touches it, and it never blocks:
// links, dials and callbacks have goroutines of their own and report by channel.
type loop struct {
	config    Config
	scheduler Scheduler
	log       *slog.Logger
	client    *Client
	requests  chan func() // from the Client

	// What outlives sessions.
	framework api.Framework
	instance  api.Nonce
	cluster   api.ClusterID
	term      api.Term // the newest that was heard (R1)
	book      *book
	wishes    *wishes
	// operations whose result the scheduler has not heard; askAll: it wants to hear of all
	// that are remembered, in the next session.
	operations operations
	askAll     bool
	updates    []*update // of the framework itself; the first is at the master
	changes    uint64    // how many of them have come into effect
	tearing    bool      // the user wants the framework removed
	began      time.Time
	greeted    bool      // a first session, or a place in the queue, was had
	trouble    error     // the latest reason why there is no session
	awayFrom   time.Time // since when there is none
	warnAt     time.Time // when that is worth a word again

	masters   masters
	nextDial  string // the master to dial at dialAt
	dialAt    time.Time
	dialBegan time.Time
	dialed    chan dialResult    // one dial at a time
	dialStop  context.CancelFunc // nil: no dial is going on
	link      *link              // nil: none
	session   session
	offers    *offers
	accepts   accepts
	callbacks *callbacks
	ship      *ship
	showing   bool // a job for Offers is queued
	// begunOffers numbers the call of Offers that began last. The callbacks' goroutine sets it, callers of the Client
	// read it.
	begunOffers    atomic.Uint64
	handedOffers   uint64   // the number of the call that was handed out last
	answeredOffers uint64   // and of the one whose answers were sent last
	unsaid         []unsaid // demands that wait for answers, in the order in which they were stated
	retries        retries
	turns          turns   // that After has planned
	planned        uint64  // by After, so far
	waiting        []*task // with held statuses, to be told in the next session

	timer   *time.Timer
	leaving bool // Run's context has ended
	over    bool // Run is to end
	err     error
	cleanup sync.WaitGroup
}

type dialResult struct {
	link *link
	err  error
}

func newLoop(config Config, scheduler Scheduler) *loop {
	now := time.Now()
	l := &loop{
		config:     config,
		scheduler:  scheduler,
		log:        config.Logger.With("framework", config.Name),
		requests:   make(chan func(), requestsMax),
		framework:  config.framework(),
		instance:   api.Nonce(rand.Text()),
		book:       newBook(),
		wishes:     newWishes(config),
		operations: make(operations),
		masters:    masters{configured: config.Masters},
		dialed:     make(chan dialResult, 1),
		offers:     newOffers(),
		ship:       newShip(config),
		callbacks:  newCallbacks(config.Metrics.Callback != nil),
		began:      now,
		awayFrom:   now,
		warnAt:     now.Add(awayWarnEvery),
		timer:      time.NewTimer(pause.Soonest),
	}
	l.client = &Client{loop: l, ended: make(chan struct{}), changed: make(chan struct{}), framework: l.framework, lanes: newLanes()}
	return l
}

// run is the loop.
func (l *loop) run(ctx context.Context) error {
	l.cleanup.Go(l.callbacks.run)
	l.planDial(l.began)
	for done := ctx.Done(); !l.over; {
		now := time.Now()
		l.advance(now)
		l.callbacks.dispatch(l.callbackContext(ctx), l.session.phase == active && ctx.Err() == nil)
		l.arm(now)
		if l.over {
			break
		}
		select {
		case <-done:
			done = nil
			l.leave()
		case next := <-l.heard():
			l.hear(ctx, next, time.Now())
		case result := <-l.callbacks.results:
			l.called(result)
		case request := <-l.requests:
			request()
		case dialed := <-l.dialed:
			l.dialEnded(dialed, time.Now())
		case <-l.timer.C:
		}
	}
	l.end()
	return l.err
}

func (l *loop) heard() <-chan heard {
	if l.link == nil {
		return nil
	}
	return l.link.heard
}

// callbackContext is the session's, and Run's between sessions.
func (l *loop) callbackContext(ctx context.Context) context.Context {
	if l.session.ctx != nil {
		return l.session.ctx
	}
	return ctx
}

// called takes the results that are there.
func (l *loop) called(next result) {
	for {
		l.callbacks.returned()
		if measure := l.config.Metrics.Callback; measure != nil && next.called {
			measure(next.job.name, next.took, next.err)
		}
		if errors.Is(next.err, errBroken) {
			l.fail(api.E("framework.run", api.Internal, l.framework.ID, next.err))
			return
		}
		l.takeRequests() // what the call has asked for before it returned
		next.job.done(next.err)
		select {
		case next = <-l.callbacks.results:
		default:
			return
		}
	}
}

// takeRequests does what callers of the Client have asked so far.
func (l *loop) takeRequests() {
	for range len(l.requests) {
		(<-l.requests)()
	}
}

// fail ends Run with a reason; the first one counts.
func (l *loop) fail(err error) {
	if !l.over {
		l.over, l.err = true, cmp.Or(l.err, err)
	}
}

// failSession ends Run with a reason that the scheduler gave: like the end of Run's context it removes the framework
// first, if its config says so.
func (l *loop) failSession(err error) {
	if !l.config.TeardownAtEnd {
		l.fail(err)
		return
	}
	if l.err == nil {
		l.err = err
	}
	l.leave()
}

// leave is what the end of Run's context asks for: remove the framework if its config
// says so and it was ever known to a master, else go.
func (l *loop) leave() {
	l.leaving = true
	if l.config.TeardownAtEnd && l.framework.ID != "" && l.session.phase != standing {
		l.session.tearBy = time.Now().Add(teardownTimeout)
		l.tearDown()
		return
	}
	if l.framework.ID != "" {
		l.log.Info("leaving", "id", l.framework.ID, "tasks live on", l.framework.FailoverTimeout)
	}
	l.over = true
}

// end waits for all that was started.
func (l *loop) end() {
	l.timer.Stop()
	l.endMetrics(l.session.phase)
	if l.session.cancel != nil {
		l.session.cancel()
	}
	if l.link != nil {
		l.link.finish()
	}
	l.endUpdates()
	close(l.client.ended)
	close(l.callbacks.jobs)
	if l.dialStop != nil {
		l.dialStop()
		if dialed := <-l.dialed; dialed.link != nil {
			dialed.link.close()
		}
	}
	l.ship.close()
	l.cleanup.Wait()
}

// advance does what is due.
func (l *loop) advance(now time.Time) {
	switch {
	case l.link == nil:
		l.awaitMaster(now)
	case l.session.silent(now):
		l.drop(api.E("framework.session", api.Unavailable, l.link.address, errSilent), now)
	case l.link.out.waiting() > callsMax:
		l.drop(api.E("framework.session", api.Limit, l.link.address, errSlowMaster), now)
	default:
		l.beat(now)
	}
	if due := l.offers.due; !due.IsZero() && !due.After(now) {
		l.returnKept(now)
	}
	for len(l.retries) > 0 && !l.retries[0].at.After(now) {
		l.resume(heap.Pop(&l.retries).(retry).task)
	}
	l.callTurnsDue(now)
	if by := l.session.tearBy; !by.IsZero() && !now.Before(by) {
		l.fail(api.E("framework.teardown", api.Unavailable, l.framework.ID, errNotTornDown))
	}
}

// arm sets the timer to the earliest thing that will be due.
func (l *loop) arm(now time.Time) {
	next := now.Add(time.Hour)
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if l.link == nil {
		if l.dialStop == nil {
			sooner(l.dialAt)
		}
		sooner(l.connectBy())
	} else {
		sooner(l.session.silentAt())
		sooner(l.session.beatAt)
	}
	sooner(l.offers.due)
	sooner(l.session.tearBy)
	if len(l.retries) > 0 {
		sooner(l.retries[0].at)
	}
	if len(l.turns) > 0 {
		sooner(l.turns[0].at)
	}
	l.timer.Reset(max(next.Sub(now), pause.Soonest))
}

// retry is a task whose first held status is to be tried again.
type retry struct {
	at   time.Time
	task *task
}

type retries []retry

func (r retries) Len() int           { return len(r) }
func (r retries) Less(i, j int) bool { return r[i].at.Before(r[j].at) }
func (r retries) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *retries) Push(x any)        { *r = append(*r, x.(retry)) }
func (r *retries) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}

// send puts a call into the session, if there is one; its number is 0 otherwise.
func (l *loop) send(call protocol.SchedulerCall) uint64 {
	if l.session.phase != active {
		return 0
	}
	return l.link.out.put(call)
}
