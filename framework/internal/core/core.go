package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/leadersearch"
	"github.com/tenderhq/tender/internal/protocol"
)

// Config is what the core is made from. It is never changed.
type Config struct {
	// Framework is what the framework says of itself at first.
	Framework api.Framework
	// Suppressed are those of its roles that start without offers.
	Suppressed []api.Role
	// Masters are the addresses to begin the search with.
	Masters []string
	// Version is what the masters are told of this program.
	Version string
	// ConnectTimeout ends Run when there was no first session by then. 0: it waits for ever.
	ConnectTimeout time.Duration
	// ReconcileInterval is about how often the masters are asked for the state of all tasks; not above 0: never.
	ReconcileInterval time.Duration
	// TeardownAtEnd removes the framework when Run's context ends.
	TeardownAtEnd bool
	// Interests are the optional callbacks that the scheduler takes.
	Interests Interests
	// Counts says that somebody counts; without it there are no effects named Count.
	Counts bool
}

// Core is a scheduler's session and all that outlives it. It is not safe for concurrent use: the shell's loop owns it.
// It connects the rooms, each of which has a file of its own; what they stand on is base.
type Core struct {
	*base
	self       self
	search     search
	session    session
	ending     ending
	tasks      tasks
	operations operations
	demands    demands
	offers     offers
	accepts    accepts
	updates    updates
	calls      calls
}

// self is who this framework is, as far as the masters have agreed, and what it knows of them.
type self struct {
	framework api.Framework
	instance  api.Nonce
	cluster   api.ClusterID
	term      api.Term // the newest that was heard (R1)
}

// ending is how far the end of Run has come.
type ending struct {
	leaving bool // Run's context has ended
	tearing bool // the framework's removal is wanted
	over    bool
	tearBy  time.Time // Run gives up waiting for the removal; zero: it does not wait
	err     error     // Run's result
}

// New makes a core. Started is to be its first event.
func New(config Config) *Core {
	b := &base{config: config}
	return &Core{
		base:       b,
		self:       self{framework: config.Framework},
		search:     search{base: b, Search: leadersearch.New(config.Masters)},
		tasks:      newTasks(0),
		operations: newOperations(),
		demands:    newDemands(config),
		offers:     newOffers(),
		calls:      calls{base: b},
	}
}

// Step takes one event and returns what is to be done, in order. The list holds until the next Step, which uses its
// room again.
func (c *Core) Step(event Event) []Effect {
	if c.ending.over {
		return nil
	}
	c.take(event)
	c.dispatch(event.What)
	if !c.ending.over {
		c.doWhatIsDue()
	}
	if c.ending.over {
		c.tellEnd()
	} else {
		c.calls.handOut(c.session.phase == active && !c.ending.leaving, c.ending.leaving, &c.offers)
	}
	return c.effects
}

func (c *Core) dispatch(what Happening) {
	switch what := what.(type) {
	case Started:
		c.beginSearch(what)
	case Woken:
	case Dialed:
		c.noteDialed(what.Err)
	case Heard:
		c.takeMessage(what)
	case LinkEnded:
		c.linkEnded(what)
	case Called:
		c.takeResult(what)
	case Left:
		c.beginLeaving()
	default:
		c.serveWish(what.(Wish)) // the others are above
	}
}

// serveWish does what a caller of the Client asks for.
func (c *Core) serveWish(what Wish) {
	switch what := what.(type) {
	case Answered:
		for _, answer := range what.Answers {
			c.sendAnswer(answer)
		}
	case KillAsked:
		c.killTask(what)
	case StatusAcknowledged:
		c.acknowledgeLater(what.Status)
	case DemandStated:
		c.demands.state(what)
		c.tellDemands()
	case WantedAsked:
		shapes, stated := c.demands.left(what.Role)
		c.emit(WantedTold{Request: what.Request, Shapes: shapes, Stated: stated})
	case SuppressAsked:
		c.demands.suppress(what.Roles)
		c.sendCall(protocol.Suppress{Roles: what.Roles})
	case ReviveAsked:
		c.demands.revive(what.Roles)
		c.sendCall(protocol.Revive{Roles: what.Roles})
	case CallAsked:
		c.sendCall(what.Call)
	case ReconcileAsked:
		c.askTasks(what.Tasks)
	case OperationsAsked:
		c.askOperations(what.Operations)
	case UpdateAsked:
		c.updates.add(what)
		c.sendUpdate()
	case UpdateWithdrawn:
		c.updates.withdraw(what.Request)
	case TurnAsked:
		c.calls.push(CallTurn{Turn: what.Turn, name: what.Name})
	case TeardownAsked:
		c.tearDown()
	}
}

// beginSearch begins the search for a master.
func (c *Core) beginSearch(event Started) {
	c.self.instance = event.Instance
	c.search.begin()
}

// doWhatIsDue does what is due.
func (c *Core) doWhatIsDue() {
	if c.session.phase != none && c.session.silent(c.now) {
		c.dropSession(api.E("framework.session", api.Unavailable, c.session.address, errSilent), "")
	}
	switch {
	case c.ending.over:
		return
	case c.session.phase == none:
		if failed := c.search.await(c.self.term); failed != nil {
			c.endRun(failed)
		}
	default:
		c.keepSession()
	}
	if due := c.offers.due; !due.IsZero() && !due.After(c.now) {
		c.returnKept()
	}
	for t := c.tasks.retryDue(c.now); t != nil; t = c.tasks.retryDue(c.now) {
		c.resumeTask(t)
	}
	if by := c.ending.tearBy; !by.IsZero() && !c.now.Before(by) {
		c.endRun(api.E("framework.teardown", api.Unavailable, c.self.framework.ID, errNotTornDown))
	}
}

// Wake is when the next thing will be due; zero: nothing is.
func (c *Core) Wake() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if c.ending.over {
		return next
	}
	if c.session.phase == none {
		if !c.search.dialing {
			sooner(c.search.dialAt)
		}
		sooner(c.search.connectBy())
	} else {
		sooner(c.session.silentAt())
		sooner(c.session.beatAt)
	}
	sooner(c.offers.due)
	sooner(c.ending.tearBy)
	sooner(c.tasks.retries.Next())
	return next
}

// endRun ends Run with a reason; the first one counts.
func (c *Core) endRun(err error) {
	if !c.ending.over {
		c.ending.over, c.ending.err = true, cmp.Or(c.ending.err, err)
	}
}

// endForScheduler ends Run with a reason that the scheduler gave: like the end of Run's context it removes the
// framework first, if its config says so.
func (c *Core) endForScheduler(err error) {
	if !c.config.TeardownAtEnd {
		c.endRun(err)
		return
	}
	c.ending.err = cmp.Or(c.ending.err, err)
	c.beginLeaving()
}

// beginLeaving does what the end of Run's context asks for: it removes the framework if its config says so and it was
// ever known to a master, else it goes.
func (c *Core) beginLeaving() {
	c.ending.leaving = true
	id := c.self.framework.ID
	if c.config.TeardownAtEnd && id != "" && c.session.phase != standing {
		c.ending.tearBy = c.now.Add(teardownTimeout)
		c.tearDown()
		return
	}
	if id != "" {
		c.log(Info, "leaving", Field{"id", id}, Field{"tasks live on", c.self.framework.FailoverTimeout})
	}
	c.ending.over = true
}

// tearDown asks for the framework's removal, now or in the next session.
func (c *Core) tearDown() {
	c.ending.tearing = true
	c.sendCall(protocol.Teardown{})
}

// tellEnd is the last that the core does.
func (c *Core) tellEnd() {
	c.countSessionEnd(c.session.phase)
	c.emit(Ended{Err: c.ending.err})
}

// sendCall puts a call into the session, if there is one; its number is 0 otherwise.
func (c *Core) sendCall(call protocol.SchedulerCall) uint64 {
	if c.session.phase != active {
		return 0
	}
	return c.putCall(call)
}

// putCall puts a call into the stream.
func (c *Core) putCall(call protocol.SchedulerCall) uint64 {
	c.session.calls++
	c.emit(Send{Number: c.session.calls, Call: call})
	return c.session.calls
}
