package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// answerTimeout is how long a master may take for its first event: it has to
	// commit the session.
	answerTimeout = 5 * time.Second
	// heartbeatInterval and sessionTimeout hold until the leader says its own.
	heartbeatInterval = time.Second
	sessionTimeout    = 5 * time.Second
	// awayWarnEvery is how often the absence of masters is worth a warning.
	awayWarnEvery = time.Minute
	// unsettledPerPageMax keeps a page far below the size of a message.
	unsettledPerPageMax = 1000
)

var (
	errNoAnswer    = errors.New("no answer in time")
	errSilent      = errors.New("no heartbeat from the master for too long; its leadership may have moved on")
	errSlowMaster  = fmt.Errorf("the master has not taken %d calls", callsMax)
	errNotTornDown = errors.New("no master has confirmed the removal; tasks live on until the failover timeout is over")
	errOldTerm     = errors.New("an older term than was heard before")
	errFarTerm     = errors.New("a term that is impossibly far ahead of what was heard before; a wrong master?")
	errStrange     = errors.New("this master belongs to another cluster than the session before")
	errMoved       = errors.New("another instance was active; starting over without memory of tasks")
)

// phase is how far a session has come.
type phase uint8

const (
	none        phase = iota // no link
	subscribing              // Subscribe is sent
	standing                 // by: another instance is active
	active
)

// session is what lives as long as one link.
type session struct {
	phase     phase
	ctx       context.Context // of callbacks; ends with the session
	cancel    context.CancelFunc
	number    uint64 // as the registry counts them
	heardAt   time.Time
	heartbeat time.Duration
	timeout   time.Duration
	beatAt    time.Time // the next heartbeat is due
	activeAt  time.Time
	askAt     time.Time // the next reconciliation is due; zero: never
	tearBy    time.Time // Run gives up waiting for the removal; zero: it does not wait
}

// silentAt is when the master has been silent for so long that another instance or
// another leader may have taken over: two thirds of the session timeout (R6).
func (s *session) silentAt() time.Time {
	switch s.phase {
	case subscribing:
		return s.heardAt.Add(answerTimeout)
	case standing: // nothing to fence
		return s.heardAt.Add(2 * s.timeout)
	}
	return s.heardAt.Add(s.timeout * 2 / 3)
}

func (s *session) silent(now time.Time) bool { return !now.Before(s.silentAt()) }

// planDial chooses the next master.
func (l *loop) planDial(now time.Time) {
	address, wait := l.masters.next()
	l.nextDial, l.dialAt = address, now.Add(wait)
}

// connectBy is when Run gives up on a first session; zero: never.
func (l *loop) connectBy() time.Time {
	if l.greeted || l.config.ConnectTimeout <= 0 {
		return time.Time{}
	}
	return l.began.Add(l.config.ConnectTimeout)
}

// awaitMaster dials when it is time.
func (l *loop) awaitMaster(now time.Time) {
	if by := l.connectBy(); !by.IsZero() && !now.Before(by) {
		why := fmt.Errorf("no session within %v; is a master listening there? The last try: %w", l.config.ConnectTimeout, cmp.Or(l.trouble, errNoAnswer))
		l.fail(api.E("framework.connect", api.Unavailable, strings.Join(l.config.Masters, ","), why))
		return
	}
	if l.dialStop != nil || now.Before(l.dialAt) {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	l.dialStop, l.dialBegan = stop, now
	timeout := l.masters.dialTimeout()
	known := lookout.Config{Own: l.nextDial, Masters: l.masters.all(), Term: l.term}
	l.cleanup.Go(func() {
		link, err := dial(ctx, l.config, known, timeout)
		l.dialed <- dialResult{link, err}
	})
}

func (l *loop) dialEnded(dialed dialResult, now time.Time) {
	l.dialStop()
	l.dialStop = nil
	l.config.Metrics.connected(l.nextDial, now.Sub(l.dialBegan), dialed.err)
	if dialed.err != nil {
		l.trouble = dialed.err
		l.log.Debug("master not reached", "error", dialed.err)
		l.warnOfAbsence(now)
		l.planDial(now)
		return
	}
	l.link = dialed.link
	tearBy := l.session.tearBy
	l.session = session{phase: subscribing, heardAt: now, heartbeat: heartbeatInterval, timeout: sessionTimeout, tearBy: tearBy}
	l.session.beatAt = now.Add(heartbeatInterval)
	l.subscribe()
}

// subscribe says who we are and what we do not know the end of (R8).
func (l *loop) subscribe() {
	l.link.out.put(protocol.Subscribe{
		Cluster:    l.cluster,
		Term:       l.term,
		Version:    version.String(),
		Framework:  l.framework,
		Instance:   l.instance,
		Suppressed: l.wishes.begin(l.asksFirst()),
	})
	l.book.again()
	tasks := l.book.unsettled()
	for page := range pages(tasks, unsettledPerPageMax) {
		l.link.out.put(protocol.Unsettled{Tasks: page.items, Last: page.last})
	}
}

// start begins an active session.
func (l *loop) start(ctx context.Context, event protocol.Subscribed, now time.Time) {
	l.cluster = event.Cluster
	l.framework.ID = event.Framework
	l.client.subscribed(event.Framework, event.Session, l.link.conn)
	l.masters.found(l.link.address, event.Masters)
	l.greeted, l.trouble = true, nil
	l.warnAt = time.Time{}

	s := &l.session
	l.config.Metrics.session(true)
	s.phase, s.number, s.activeAt = active, event.Session, now
	s.ctx, s.cancel = context.WithCancel(ctx)
	if event.HeartbeatInterval > 0 {
		s.heartbeat = event.HeartbeatInterval
	}
	if event.SessionTimeout > 0 {
		s.timeout = event.SessionTimeout
	}
	s.beatAt = now.Add(s.heartbeat)
	l.planReconcile(now)
	l.log.Info("subscribed", "id", event.Framework, "master", event.Master, "address", l.link.address, "term", l.term.String())
	if l.tearing {
		l.send(protocol.Teardown{})
		return
	}
	for _, call := range l.wishes.calls() {
		l.send(call)
	}
	if l.asksFirst() {
		l.callSubscribed()
	} else {
		l.awaitOffers()
	}
	l.sendUpdate()
	l.askAwaited()
	for _, t := range l.book.kills() {
		l.sendKill(t)
	}
	waiting := l.waiting
	l.waiting = nil
	for _, t := range waiting {
		l.resume(t)
	}
}

// asksFirst reports whether the scheduler is called before there may be offers.
func (l *loop) asksFirst() bool {
	_, is := l.scheduler.(Subscriber)
	return is
}

// awaitOffers says that there may be offers: what is wanted has been told.
func (l *loop) awaitOffers() {
	if roles := l.wishes.tell(); len(roles) > 0 {
		l.send(protocol.Revive{Roles: roles})
	}
}

func (l *loop) planReconcile(now time.Time) {
	l.session.askAt = time.Time{}
	if every := l.config.ReconcileInterval; every > 0 {
		l.session.askAt = now.Add(every/2 + rand.N(every))
	}
}

// beat keeps the session, and asks about all tasks now and then.
func (l *loop) beat(now time.Time) {
	s := &l.session
	if now.Before(s.beatAt) {
		return
	}
	s.beatAt = now.Add(s.heartbeat)
	l.link.out.put(protocol.SchedulerHeartbeat{})
	if s.phase != active {
		return
	}
	if now.Sub(s.activeAt) >= s.heartbeat {
		l.masters.settled()
	}
	l.callbacks.watch(now, l.log)
	l.measureQueues()
	if !s.askAt.IsZero() && !now.Before(s.askAt) {
		l.planReconcile(now)
		l.reconcile(l.book.unsettled())
	}
}

// reconcile asks about the tasks, page by page; about none when there are none.
func (l *loop) reconcile(tasks []protocol.UnsettledTask) {
	for page := range pages(tasks, unsettledPerPageMax) {
		if len(page.items) > 0 {
			l.send(protocol.Reconcile{Tasks: page.items})
		}
	}
}

// drop ends the session: its offers are gone, its callbacks canceled. What the
// scheduler has not handled waits for the next one.
func (l *loop) drop(err error, now time.Time) {
	if l.tearing && api.KindOf(err) == api.Removed { // as it was asked for
		l.log.Info("torn down", "id", l.framework.ID, "address", l.link.address)
	} else {
		l.log.Info("session ended", "address", l.link.address, "error", err)
	}
	l.trouble = err
	s := l.session
	l.session = session{tearBy: s.tearBy}
	l.endMetrics(s.phase)
	if s.cancel != nil {
		s.cancel()
	}
	l.client.dropped()
	link := l.link
	l.link = nil
	l.cleanup.Go(link.close)
	l.accepts = accepts{}
	l.unsendUpdate()
	l.showing = false
	l.callbacks.skip()
	l.callRescinded(l.offers.drop(), "the session has ended: "+err.Error())
	if s.phase == active && l.masters.rounds == 0 {
		l.masters.queue = nil
	}
	l.judgeEnd(err, s.phase, now)
	l.noteAbsence(s.phase, now)
	l.planDial(now)
}

// judgeEnd decides whether the end of a session is the end of Run.
func (l *loop) judgeEnd(err error, reached phase, now time.Time) {
	switch kind := api.KindOf(err); {
	case kind == api.NotLeader:
		l.masters.redirected(wire.LeaderOf(err))
	case kind == api.Fenced && l.config.Standby:
		l.forgetTasks()
	case kind == api.Fenced:
		l.fail(api.E("framework.run", api.Fenced, l.framework.ID, fmt.Errorf("%w: %w", ErrFenced, err)))
	case kind == api.Removed && l.tearing:
		l.over = true
	case kind == api.Removed:
		l.fail(api.E("framework.run", api.Removed, l.framework.ID, err))
	case reached == subscribing && !l.greeted && final(kind):
		l.fail(api.E("framework.subscribe", kind, l.config.Name, err))
	}
}

// final reports whether a first subscription that is refused will be refused by any
// master at any time. Later on a refusal may as well come from an address that has
// become another cluster's, so the search goes on.
func final(kind api.Kind) bool {
	switch kind {
	case api.Invalid, api.NotFound, api.Exists, api.Denied, api.Unsupported:
		return true
	}
	return false
}

// stand waits for our turn. What is remembered of tasks belongs to the active instance
// now, so the next subscription starts without it.
func (l *loop) stand(event protocol.Waiting, now time.Time) {
	l.greeted, l.trouble = true, nil
	l.session.phase = standing
	l.log.Info("standing by", "active", event.ActiveInstance, "address", l.link.address)
	if len(l.book.tasks) > 0 {
		l.forgetTasks()
		l.drop(api.E("framework.session", api.Fenced, l.link.address, errMoved), now)
	}
}

// noteAbsence follows the end of a session; a subscription that fails only goes on with it.
func (l *loop) noteAbsence(reached phase, now time.Time) {
	if reached > subscribing {
		l.awayFrom, l.warnAt = now, now.Add(awayWarnEvery)
	}
	l.warnOfAbsence(now)
}

// warnOfAbsence says now and then why there has been no session for so long. What the
// scheduler asks for meanwhile waits.
func (l *loop) warnOfAbsence(now time.Time) {
	if l.over || now.Before(l.warnAt) {
		return
	}
	l.warnAt = now.Add(awayWarnEvery)
	l.log.Warn("no master takes a session; trying on", "for", now.Sub(l.awayFrom).Round(time.Second), "masters", l.masters.round(), "error", l.trouble)
}

func (l *loop) forgetTasks() {
	l.book, l.operations = newBook(), make(operations)
	l.retries, l.waiting = nil, nil
}

// tearDown asks for the framework's removal, now or in the next session.
func (l *loop) tearDown() {
	l.tearing = true
	l.send(protocol.Teardown{})
}

// page is a part of a list; at least one page comes, and one is the last.
type page[T any] struct {
	items []T
	last  bool
}

func pages[T any](items []T, size int) func(yield func(page[T]) bool) {
	return func(yield func(page[T]) bool) {
		for {
			n := min(size, len(items))
			p := page[T]{items[:n], n == len(items)}
			items = items[n:]
			if !yield(p) || p.last {
				return
			}
		}
	}
}
