package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// answerTimeout is how long a master may take until its first event, as it has to commit the session first.
	answerTimeout = 5 * time.Second
	// heartbeatInterval and sessionTimeout hold until the leader has told its own values.
	heartbeatInterval = time.Second
	sessionTimeout    = 5 * time.Second
	// teardownTimeout bounds how long Run waits at its end until the framework is removed.
	teardownTimeout = 5 * time.Second
)

// ErrRevoked is why Run ends when the framework's principal was revoked.
var ErrRevoked = errors.New("the principal of this framework was revoked: its certificates and tokens count no more, and its tasks end when its failover time is over")

// ErrFenced is why Run ends when a newer instance of the same framework has taken over.
var ErrFenced = errors.New("a newer instance of this framework has taken over and has its tasks; to wait for its end instead, run all instances with one Name and Standby")

// ErrNoAnswer and ErrOvertaken are used by the shell too.
var (
	ErrNoAnswer  = errors.New("no answer in time")
	ErrOvertaken = errors.New("another update came first")
)

var (
	errSilent      = errors.New("no heartbeat from the master for too long; its leadership may have moved on")
	errNotTornDown = errors.New("no master has confirmed the removal; tasks live on until the failover timeout is over")
	errOldTerm     = errors.New("an older term than was heard before")
	errFarTerm     = errors.New("a term that is impossibly far ahead of what was heard before; a wrong master?")
	errStrange     = errors.New("this master belongs to another cluster than the session before")
	errMoved       = errors.New("another instance was active, or may have been; starting over without memory of tasks")
)

// phase is how far a session has come.
type phase uint8

const (
	none        phase = iota // no stream
	subscribing              // Subscribe is sent
	standing                 // standing by: another instance is active
	active
)

var phaseNames = [...]string{"none", "subscribing", "standing by", "active"}

func (p phase) String() string { return phaseNames[p] }

// session holds what lives as long as one stream.
type session struct {
	*base
	phase     phase
	address   string // the master's
	begun     uint64 // how many sessions have become active in this Run
	calls     uint64 // number of the last call
	heardAt   time.Time
	heartbeat time.Duration
	timeout   time.Duration
	beatAt    time.Time // the next heartbeat is due
	activeAt  time.Time
	askAt     time.Time // the next reconciliation is due; zero: never
}

// beginStream begins the session of a stream that was just opened.
func (s *session) beginStream(address string) {
	*s = session{base: s.base, phase: subscribing, address: address, begun: s.begun, heardAt: s.now,
		heartbeat: heartbeatInterval, timeout: sessionTimeout, beatAt: s.now.Add(heartbeatInterval)}
}

// endStream ends the session, and returns how far it had come.
func (s *session) endStream() (reached phase) {
	reached = s.phase
	*s = session{base: s.base, begun: s.begun}
	return reached
}

// silentAt returns when the master will have been silent for so long that another instance or another leader may have
// taken over: after two thirds of the session timeout (R6).
func (s *session) silentAt() time.Time {
	switch s.phase {
	case subscribing:
		return s.heardAt.Add(answerTimeout)
	case standing: // there is nothing to fence
		return s.heardAt.Add(2 * s.timeout)
	}
	return s.heardAt.Add(s.timeout * 2 / 3)
}

func (s *session) isSilent(now time.Time) bool { return !now.Before(s.silentAt()) }

// nextNumber returns the number of the next call.
func (s *session) nextNumber() uint64 {
	s.calls++
	return s.calls
}

// noteHeard notes that the master has been in touch.
func (s *session) noteHeard() { s.heardAt = s.now }

// standBy notes that another instance is active.
func (s *session) standBy() { s.phase = standing }

// beginActive begins the active phase, with the intervals that the leader has told.
func (s *session) beginActive(event protocol.Subscribed, now time.Time) {
	s.phase, s.activeAt = active, now
	s.begun++
	if event.HeartbeatInterval > 0 {
		s.heartbeat = event.HeartbeatInterval
	}
	if event.SessionTimeout > 0 {
		s.timeout = event.SessionTimeout
	}
	s.beatAt = now.Add(s.heartbeat)
}

// noteDialed subscribes at the master that was reached. If the cluster no longer exists, and with it everything that
// ran there, Run ends.
func (c *Core) noteDialed(err error) {
	switch {
	case !api.Is(err, api.Removed):
	case c.ending.tearing:
		c.ending.over = true
		return
	default:
		c.endRun(api.E("framework.connect", api.Removed, c.self.framework.ID, err))
		return
	}
	if c.search.dialed(err) {
		c.session.beginStream(c.search.Address())
		c.sendSubscribe()
	}
}

// sendSubscribe tells the master who we are, and the tasks whose end we do not know (R8).
func (c *Core) sendSubscribe() {
	later := c.wants(InSubscribed)
	c.session.putCall(protocol.Subscribe{
		Cluster:    c.self.cluster,
		Term:       c.self.term,
		Version:    c.config.Version,
		Framework:  c.self.framework,
		Instance:   c.self.instance,
		Suppressed: c.demands.rolesToSilence(later),
		TellLater:  later,
	})
	c.tasks.beginSession()
	for page := range pages(c.tasks.listUnsettled(), unsettledPerPageMax) {
		if last := page.last && !later; last || len(page.items) > 0 {
			c.session.putCall(protocol.Unsettled{Tasks: page.items, Last: last})
		}
	}
}

// beginSession begins an active session.
func (c *Core) beginSession(event protocol.Subscribed) {
	c.self.cluster = event.Cluster
	c.self.framework.ID = event.Framework
	c.search.Found(c.session.address, event.Masters)
	c.search.greet()
	if c.missedTurn(event) && len(c.tasks.open) > 0 {
		c.startOver()
		return
	}
	c.count(1, CountSession{Active: true})
	c.session.beginActive(event, c.now)
	c.emit(SessionBegan{Framework: event.Framework, Session: event.Session, Takeovers: c.self.takeovers})
	c.session.planReconcile()
	c.log(Info, "subscribed", Field{"id", event.Framework}, Field{"master", event.Master},
		Field{"address", c.session.address}, Field{"term", c.self.term.String()})
	if c.ending.tearing {
		c.session.sendCall(protocol.Teardown{})
		return
	}
	c.tellAll()
}

// missedTurn notes the number of a session that begins. It reports whether another instance was active since the session
// before, as the masters know (R6).
func (c *Core) missedTurn(event protocol.Subscribed) bool {
	missed := c.config.Framework.Standby && c.self.session > 0 && event.Turn > c.self.session
	if c.self.session = event.Session; missed {
		c.self.takeovers++
	}
	return missed
}

// startOver begins a session anew without memory of tasks, because another instance has had them, or may have had them,
// meanwhile. What this instance has yet to acknowledge it would be told by nobody (R6).
func (c *Core) startOver() {
	c.forgetTasks()
	c.dropSession(api.E("framework.session", api.Fenced, c.session.address, errMoved), "")
}

// tellAll tells a new session what was asked for before it began.
func (c *Core) tellAll() {
	for _, call := range c.demands.callsForSession() {
		c.session.sendCall(call)
	}
	if c.wants(InSubscribed) {
		c.calls.queueCall(CallSubscribed{session: c.session.begun})
	} else {
		c.awaitOffers()
	}
	c.updates.send()
	c.operations.askAwaited()
	for _, t := range c.tasks.listKilled() {
		c.statuses.sendKill(t, t.killing.graces.Each()...)
	}
	for _, t := range c.tasks.takeWaiting() {
		c.statuses.resumeTask(t)
	}
}

// subscribedReturned lets offers and the states of tasks come, now that the scheduler has stated what it wants and read
// what it needs to understand them. If the session has ended meanwhile, it does nothing.
func (c *Core) subscribedReturned(call CallSubscribed, result Called) {
	switch {
	case result.Outcome == Skipped:
	case result.Outcome == Failed:
		c.endForScheduler(api.E("framework.subscribed", api.KindOf(result.Err), c.self.framework.ID, result.Err))
	case c.session.phase == active && c.session.begun == call.session:
		c.session.sendCall(protocol.Unsettled{Last: true})
		c.awaitOffers()
	}
}

// awaitOffers tells the leader that there may be offers, because it has been told what is wanted.
func (c *Core) awaitOffers() {
	if roles := c.demands.endSilence(); len(roles) > 0 {
		c.session.sendCall(protocol.Revive{Roles: roles})
	}
}

func (s *session) planReconcile() {
	s.askAt = time.Time{}
	if every := s.config.ReconcileInterval; every > 0 {
		s.askAt = s.now.Add(every/2 + time.Duration(s.random().Int64N(int64(every))))
	}
}

// keepSession sends heartbeats, and now and then asks for the states of all tasks.
func (c *Core) keepSession() {
	s := c.session
	if c.now.Before(s.beatAt) {
		return
	}
	s.beatAt = c.now.Add(s.heartbeat)
	c.session.putCall(protocol.SchedulerHeartbeat{})
	if s.phase != active {
		return
	}
	if c.now.Sub(s.activeAt) >= s.heartbeat {
		c.search.Settle()
	}
	c.calls.watchSlowness()
	c.countQueues()
	if !s.askAt.IsZero() && !c.now.Before(s.askAt) {
		c.session.planReconcile()
		c.statuses.askAbout(c.tasks.listUnsettled())
	}
}

// waitForTurn waits until this instance may become active. The tasks are now the active instance's, so what is
// remembered of them is forgotten and the next subscription does not name them.
func (c *Core) waitForTurn(event protocol.Waiting) {
	c.search.greet()
	c.session.standBy()
	c.emit(StandsBy{})
	c.log(Info, "standing by", Field{"active", event.ActiveInstance}, Field{"address", c.session.address})
	if len(c.tasks.open) > 0 {
		c.startOver()
	}
}

func (c *Core) forgetTasks() {
	*c.tasks = *newTasks(c.tasks.records)
	c.operations.forgetAll()
}

// linkEnded ends the session because its stream has ended.
func (c *Core) linkEnded(event LinkEnded) {
	switch {
	case c.session.phase == none:
	case c.session.isSilent(c.now):
		c.dropSession(api.E("framework.session", api.Unavailable, c.session.address, errSilent), "")
	default:
		c.dropSession(event.Err, event.Leader)
	}
}

// dropSession ends the session: its offers are gone and its callbacks are canceled. Statuses that the scheduler has not
// handled wait for the next session. leader is the address of the leader, if the reason names it.
func (c *Core) dropSession(err error, leader string) {
	if c.ending.tearing && api.KindOf(err) == api.Removed { // as it was asked for
		c.log(Info, "torn down", Field{"id", c.self.framework.ID}, Field{"address", c.session.address})
	} else {
		c.log(Info, "session ended", Field{"address", c.session.address}, Field{"error", err})
	}
	c.search.failed(err, leader)
	reached := c.session.endStream()
	c.countSessionEnd(reached)
	c.emit(SessionEnded{})
	c.emit(CloseLink{})
	*c.accepts = accepts{}
	c.updates.unsend()
	for _, callback := range c.calls.skipWaiting() {
		c.finishCallback(callback, Called{Outcome: Skipped})
	}
	c.calls.tellRescinded(c.offers.drop(), "the session has ended: "+err.Error())
	c.judgeEnd(err, reached)
	if !c.ending.over {
		c.search.noteAbsence(reached)
	}
	c.search.planDial(api.RetryAfter(err))
}

// judgeEnd decides whether Run ends with the session.
func (c *Core) judgeEnd(err error, reached phase) {
	var revoked protocol.Revoked
	var elsewhere protocol.OtherCluster
	switch kind := api.KindOf(err); {
	case kind == api.Fenced && c.config.Framework.Standby:
		c.forgetTasks()
	case kind == api.Fenced:
		c.endRun(api.E("framework.run", api.Fenced, c.self.framework.ID, fmt.Errorf("%w: %w", ErrFenced, err)))
	case errors.As(err, &revoked):
		c.endRun(api.E("framework.run", api.Denied, c.config.Framework.Name, fmt.Errorf("%w: %w", ErrRevoked, err)))
	case kind == api.Removed && c.ending.tearing:
		c.ending.over = true
	case kind == api.Removed:
		c.endRun(api.E("framework.run", api.Removed, c.self.framework.ID, err))
	case reached == subscribing && !c.search.absence.greeted && final(kind):
		c.endRun(api.E("framework.subscribe", kind, c.config.Framework.Name, err))
	case reached == subscribing && kind == api.Denied && !errors.As(err, &elsewhere):
		c.updates.leaveAddedRoles(err)
	}
}

// final reports whether every master would refuse a first subscription for this reason at any time. After the first
// session a refusal may also come from an address that now belongs to another cluster, so the search goes on.
func final(kind api.Kind) bool {
	switch kind {
	case api.Invalid, api.NotFound, api.Exists, api.Denied, api.Unsupported:
		return true
	}
	return false
}

// countSessionEnd counts the end of an active session and of its offers.
func (c *Core) countSessionEnd(reached phase) {
	if reached == active {
		c.countAnswers(OfferRescinded, len(c.offers.open))
		c.count(1, CountSession{Active: false})
	}
}

// countQueues counts what is waiting.
func (c *Core) countQueues() {
	c.count(1, CountQueues{Queues{
		Callbacks: len(c.calls.todo) + max(len(c.calls.handed)-1, 0),
		Statuses:  c.tasks.held,
		Retries:   c.tasks.retries.Len(),
		Offers:    len(c.offers.open),
		Unsettled: len(c.tasks.open),
	}})
}

// page is a part of a list. A list has at least one page, and its last page says so.
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

// sendCall sends a call if there is an active session, and returns the call's number; otherwise 0.
func (s *session) sendCall(call protocol.SchedulerCall) uint64 {
	if s.phase != active {
		return 0
	}
	return s.putCall(call)
}

// putCall numbers a call and puts it into the stream.
func (s *session) putCall(call protocol.SchedulerCall) uint64 {
	s.emit(Send{Number: s.nextNumber(), Call: call})
	return s.calls
}
