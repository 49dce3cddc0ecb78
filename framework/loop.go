package framework

import (
	"context"
	"crypto/rand"

	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// callsMax bounds the calls that the master has not taken; beyond it the session is closed.
	callsMax = 1 << 16
	// idleMax is how long the loop sleeps when nothing is due.
	idleMax = time.Hour
)

var errSlowMaster = fmt.Errorf("the master has not taken %d calls", callsMax)

// loop is the shell around the core: it tells the core what happens and performs what the core decides. Only its own
// goroutine touches it, and it never blocks: links, dials and callbacks have their own goroutines and report through
// channels.
type loop struct {
	config   Config
	log      *slog.Logger
	client   *Client
	core     *core.Core
	requests chan request            // from the Client and from the goroutine of the callbacks
	replies  map[uint64]chan<- reply // to callers of the Client, by the number of their request
	turns    turns

	who       *identity
	running   context.Context // Run's
	session   context.Context // the context of callbacks; nil between sessions
	endingOf  context.CancelFunc
	dial      dialing
	link      *link // nil: none
	callbacks *callbacks
	ship      *ship

	timer   *time.Timer
	armed   time.Time // the time that the timer is set to; zero: it is not set
	over    bool      // Run is to end
	err     error
	cleanup sync.WaitGroup
}

// dialing is the current attempt to reach a master; there is at most one at a time.
type dialing struct {
	address string
	began   time.Time
	stop    context.CancelFunc // nil: none is under way
	ended   chan dialResult
}

type dialResult struct {
	link *link
	err  error
}

func newLoop(config Config, scheduler Scheduler) *loop {
	l := &loop{
		config:   config,
		log:      config.Logger.With("framework", config.Name),
		core:     core.New(coreConfig(config, scheduler)),
		requests: make(chan request, requestsMax),
		replies:  make(map[uint64]chan<- reply),
		turns:    newTurns(),
		dial:     dialing{ended: make(chan dialResult, 1)},
		ship:     newShip(config),
		timer:    time.NewTimer(idleMax),
	}
	ended := make(chan struct{})
	l.client = &Client{loop: l, ended: ended, lanes: newLanes(), present: &presence{
		instance: api.Nonce(rand.Text()), ended: ended, framework: config.framework(), changed: make(chan struct{}),
	}}
	l.callbacks = newCallbacks(scheduler, l.client, config.Metrics.Callback != nil)
	return l
}

// coreConfig is what the core has to know of the user's config and scheduler.
func coreConfig(config Config, scheduler Scheduler) core.Config {
	suppressed := config.SuppressedRoles
	if config.Suppressed {
		suppressed = config.Roles
	}
	return core.Config{
		Framework:         config.framework(),
		Suppressed:        suppressed,
		Masters:           config.Masters,
		Version:           version.String(),
		ConnectTimeout:    config.ConnectTimeout,
		ReconcileInterval: config.ReconcileInterval,
		TeardownAtEnd:     config.TeardownAtEnd,
		Interests:         interestsOf(scheduler),
		Counts:            config.Metrics.counts(),
	}
}

// runLoop is the loop.
func (l *loop) runLoop(ctx context.Context) error {
	l.running = ctx
	l.cleanup.Go(l.callbacks.run)
	l.stepCore(core.Started{Instance: l.client.present.instance})
	for done := ctx.Done(); !l.over; {
		l.armTimer()
		select {
		case <-done:
			done = nil
			l.stepCore(core.Left{})
		case next, open := <-l.linkHeard():
			l.hearLink(next, open)
		case request := <-l.requests:
			request(l)
			for range len(l.requests) {
				if !l.over {
					(<-l.requests)(l)
				}
			}
		case dialed := <-l.dial.ended:
			l.dialEnded(dialed)
		case <-l.timer.C:
			l.armed = time.Time{}
			l.stepCore(core.Woken{})
		}
		l.callTurnsDue()
		l.watchOutbox()
	}
	l.endLoop()
	return l.err
}

// stepCore tells the core what has happened, and performs what the core decides.
func (l *loop) stepCore(what core.Happening) {
	for _, effect := range l.core.Step(core.Event{At: time.Now(), Chance: mathrand.Uint64(), What: what}) {
		l.performEffect(effect)
	}
}

// armTimer sets the timer to the earliest thing that will be due.
func (l *loop) armTimer() {
	due := l.core.Wake()
	if at := l.turns.planned.Next(); !at.IsZero() && (due.IsZero() || at.Before(due)) {
		due = at
	}
	if due.IsZero() || due.Equal(l.armed) {
		return
	}
	l.armed = due
	l.timer.Reset(max(time.Until(due), pause.Soonest))
}

func (l *loop) linkHeard() <-chan heard {
	if l.link == nil {
		return nil
	}
	return l.link.heard
}

// hearLink passes a message of the link to the core, or the end of the link.
func (l *loop) hearLink(next heard, open bool) {
	if !open {
		l.stepCore(core.LinkEnded{Err: l.link.why, Leader: wire.LeaderOf(l.link.why)})
		return
	}
	l.stepCore(core.Heard{Term: next.term, Events: next.events, Leader: leaderIn(next.events)})
}

// leaderIn returns the address of the leader if a refusal among the events names it, otherwise "".
func leaderIn(events []protocol.SchedulerEvent) string {
	for _, event := range events {
		if refused, is := event.(protocol.Refused); is && refused.Err != nil && refused.Err.Kind == api.NotLeader {
			return wire.LeaderOf(refused.Err)
		}
	}
	return ""
}

// watchOutbox closes a link whose master takes the calls too slowly.
func (l *loop) watchOutbox() {
	if l.link != nil && l.link.out.waiting() > callsMax {
		l.stepCore(core.LinkEnded{Err: api.E("framework.session", api.Limit, l.link.address, errSlowMaster)})
	}
}

// hearResult tells the core the result of a callback.
func (l *loop) hearResult(r result) {
	if measure := l.config.Metrics.Callback; measure != nil && r.called {
		measure(r.job.callback.Name(), r.took, r.err)
	}
	l.stepCore(happeningOf(r.outcome(), r))
}

// calledWell is the result of nearly all callbacks. It is made once, so that a status costs no allocation.
var calledWell core.Happening = core.Called{Outcome: core.Handled}

func happeningOf(outcome core.Outcome, result result) core.Happening {
	if outcome == core.Handled && result.answers == nil {
		return calledWell
	}
	return core.Called{Outcome: outcome, Err: result.err, Answers: result.answers}
}

// callbackContext returns the session's context, or Run's between sessions.
func (l *loop) callbackContext() context.Context {
	if l.session != nil {
		return l.session
	}
	return l.running
}

// performEffect performs one effect of the core.
func (l *loop) performEffect(effect core.Effect) {
	switch effect := effect.(type) {
	case core.Send:
		l.link.out.put(effect.Number, effect.Call)
	case core.Acknowledge:
		l.link.out.acknowledge(effect.Number, effect.Item)
	case core.Callback:
		l.callbacks.hand(job{callback: effect, turn: l.turns.remove(effect), ctx: l.callbackContext()})
	case core.Log:
		l.tellLog(effect)
	case core.Dial:
		l.startDial(effect)
	case core.CloseLink:
		link := l.link
		l.link = nil
		l.cleanup.Go(link.close)
	case core.SessionBegan:
		l.session, l.endingOf = context.WithCancel(l.running)
		l.client.present.subscribed(effect, l.link)
	case core.SessionEnded:
		l.endSession()
		l.client.present.dropped()
	case core.StandsBy:
		l.client.present.standBy()
	case core.FrameworkChanged:
		l.client.present.holds(effect.Framework, effect.Changes)
	case core.UpdateEnded:
		l.answerCaller(effect.Request, reply{err: effect.Err})
	case core.WantedTold:
		l.answerCaller(effect.Request, reply{shapes: effect.Shapes, stated: effect.Stated})
	case core.Ended:
		l.over, l.err = true, effect.Err
	default:
		l.config.Metrics.countEffect(effect.(core.Count), l.link) // the other effects are handled above
	}
}

// endSession cancels the context of the session's callbacks.
func (l *loop) endSession() {
	if l.endingOf != nil {
		l.endingOf()
	}
	l.session, l.endingOf = nil, nil
}

// logLevels translates the core's log levels to those of slog.
var logLevels = [...]slog.Level{core.Debug: slog.LevelDebug, core.Info: slog.LevelInfo, core.Warn: slog.LevelWarn}

func (l *loop) tellLog(line core.Log) {
	fields := make([]any, 0, 2*len(line.Fields))
	for _, field := range line.Fields {
		fields = append(fields, field.Name, field.Value)
	}
	l.log.Log(context.Background(), logLevels[line.Level], line.Message, fields...)
}

// startDial begins an attempt to reach a master.
func (l *loop) startDial(wanted core.Dial) {
	ctx, stop := context.WithCancel(context.Background())
	l.dial.address, l.dial.began, l.dial.stop = wanted.Address, time.Now(), stop
	known := lookout.Config{Own: wanted.Address, Masters: wanted.Masters, Term: wanted.Term}
	l.cleanup.Go(func() {
		link, err := dial(ctx, l.config, known, wanted.Timeout)
		l.dial.ended <- dialResult{link, err}
	})
}

func (l *loop) dialEnded(dialed dialResult) {
	l.dial.stop()
	l.dial.stop = nil
	l.config.Metrics.connected(l.dial.address, time.Since(l.dial.began), dialed.err)
	if dialed.err == nil {
		l.link = dialed.link
	}
	l.stepCore(core.Dialed{Err: dialed.err})
}

// endLoop waits until all that the loop has started has ended.
func (l *loop) endLoop() {
	l.timer.Stop()
	l.endSession()
	if l.link != nil {
		l.link.finish()
	}
	l.endReplies()
	close(l.client.ended)
	close(l.callbacks.jobs)
	if l.dial.stop != nil {
		l.dial.stop()
		if dialed := <-l.dial.ended; dialed.link != nil {
			dialed.link.close()
		}
	}
	l.ship.close()
	l.cleanup.Wait()
}
