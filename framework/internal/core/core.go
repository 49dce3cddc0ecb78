package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/lookout/leadersearch"
	"github.com/tenderhq/tender/internal/protocol"
)

// Config is what the core is made from. It never changes.
type Config struct {
	// Framework is what the framework says of itself at the start.
	Framework api.Framework
	// Suppressed are those of its roles that start without offers.
	Suppressed []api.Role
	// Masters are the addresses with which the search begins.
	Masters []string
	// Version is what the masters are told of this program.
	Version string
	// ConnectTimeout ends Run when the first session has not begun by then. 0: no limit.
	ConnectTimeout time.Duration
	// ReconcileInterval is about how often the masters are asked for the state of all tasks; 0 or less: never.
	ReconcileInterval time.Duration
	// TeardownAtEnd removes the framework when Run's context ends.
	TeardownAtEnd bool
	// Interests are the optional callbacks that the scheduler implements.
	Interests Interests
	// Counts says that somebody counts; otherwise there are no effects of type Count.
	Counts bool
}

// Core is a scheduler's session and everything that outlives it. It is not safe for concurrent use: only the shell's
// loop uses it. Core connects the rooms, each of which has its own file; base is what they share.
type Core struct {
	*base
	self       *self
	search     *search
	session    *session
	ending     ending
	tasks      *tasks
	statuses   *statuses
	operations *operations
	demands    *demands
	offers     *offers
	accepts    *accepts
	answers    *answers
	updates    *updates
	calls      *calls
}

// self is who this framework is, as far as the masters have agreed, and what it knows of its cluster.
type self struct {
	framework api.Framework
	instance  api.Nonce
	cluster   api.ClusterID
	term      api.Term // the newest term that was heard (R1)
	session   uint64   // number of the latest session in the registry; 0: there was none
	takeovers uint64   // how often another instance was active since the first session
}

// ending says how far the end of Run has come.
type ending struct {
	leaving bool // Run's context has ended
	tearing bool // the framework's removal was asked for
	over    bool
	tearBy  time.Time // when Run stops waiting for the removal; zero: it does not wait
	err     error     // the result of Run
}

// New makes a core. Its first event must be Started.
func New(config Config) *Core {
	b := &base{config: config}
	c := &Core{
		base:    b,
		self:    &self{framework: config.Framework},
		search:  &search{base: b, Search: leadersearch.New(config.Masters)},
		session: &session{base: b},
		tasks:   newTasks(0),
		demands: newDemands(config),
		offers:  newOffers(),
		accepts: &accepts{},
		calls:   &calls{base: b},
	}
	c.statuses = &statuses{base: b, self: c.self, session: c.session, tasks: c.tasks, calls: c.calls}
	c.operations = &operations{base: b, session: c.session, calls: c.calls, awaited: make(map[api.OperationID]operation)}
	c.answers = &answers{
		base: b, session: c.session, tasks: c.tasks, statuses: c.statuses, operations: c.operations, demands: c.demands,
		offers: c.offers, accepts: c.accepts, calls: c.calls,
	}
	c.updates = &updates{base: b, self: c.self, session: c.session, demands: c.demands}
	return c
}

// Step handles one event and returns what is to be done, in order. The list is valid until the next Step, which uses
// its memory again.
func (c *Core) Step(event Event) []Effect {
	if c.ending.over {
		return nil
	}
	c.take(event)
	c.dispatchEvent(event.What)
	if !c.ending.over {
		c.doWhatIsDue()
	}
	if c.ending.over {
		c.tellEnd()
	} else {
		c.calls.handOut(c.session.phase == active && !c.ending.leaving, c.ending.leaving, c.offers)
	}
	return c.effects
}

func (c *Core) dispatchEvent(what Happening) {
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
		c.serveWish(what.(Wish)) // the other events are handled above
	}
}

// serveWish does what a caller of the Client asks for.
func (c *Core) serveWish(what Wish) {
	switch what := what.(type) {
	case Answered:
		for _, answer := range what.Answers {
			c.answers.sendAnswer(answer)
		}
	case KillAsked:
		c.statuses.killTask(what)
	case StatusAcknowledged:
		c.statuses.acknowledgeLater(what.Status)
	case DemandStated:
		c.demands.queueDemand(what)
		c.answers.tellDemands()
	case WantedAsked:
		shapes, stated := c.demands.demandLeft(what.Role)
		c.emit(WantedTold{Request: what.Request, Shapes: shapes, Stated: stated})
	case SuppressAsked:
		c.demands.suppressRoles(what.Roles)
		c.session.sendCall(protocol.Suppress{Roles: what.Roles})
	case ReviveAsked:
		c.demands.reviveRoles(what.Roles)
		c.session.sendCall(protocol.Revive{Roles: what.Roles})
	case CallAsked:
		c.session.sendCall(what.Call)
	case ReconcileAsked:
		c.statuses.askStates(what.Tasks, what.Agent)
	case OperationsAsked:
		c.operations.askOutcomes(what.Operations)
	case UpdateAsked:
		c.updates.add(what)
		c.updates.send()
	case UpdateWithdrawn:
		c.updates.withdraw(what.Request)
	case TurnAsked:
		c.calls.queueCall(CallTurn{Turn: what.Turn, name: what.Name})
	case TeardownAsked:
		c.tearDown()
	}
}

// beginSearch begins the search for a master.
func (c *Core) beginSearch(event Started) {
	c.self.instance = event.Instance
	c.search.begin()
}

// doWhatIsDue does everything whose time has come.
func (c *Core) doWhatIsDue() {
	if c.session.phase != none && c.session.isSilent(c.now) {
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
		c.answers.returnKept()
	}
	for t := c.tasks.retryDue(c.now); t != nil; t = c.tasks.retryDue(c.now) {
		c.statuses.resumeTask(t)
	}
	if by := c.ending.tearBy; !by.IsZero() && !c.now.Before(by) {
		c.endRun(api.E("framework.teardown", api.Unavailable, c.self.framework.ID, errNotTornDown))
	}
}

// Wake returns when the core next has something to do by time alone; zero: never.
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

// endRun ends Run with this reason, unless Run has ended already.
func (c *Core) endRun(err error) {
	if !c.ending.over {
		c.ending.over, c.ending.err = true, cmp.Or(c.ending.err, err)
	}
}

// endForScheduler ends Run with a reason that the scheduler gave. Like the end of Run's context, this removes the
// framework first if the config says so.
func (c *Core) endForScheduler(err error) {
	if !c.config.TeardownAtEnd {
		c.endRun(err)
		return
	}
	c.ending.err = cmp.Or(c.ending.err, err)
	c.beginLeaving()
}

// beginLeaving starts what follows from the end of Run's context: if the config says so and a master has ever known the
// framework, the framework is removed; otherwise Run just ends.
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

// tearDown asks for the framework's removal, in this session or the next one.
func (c *Core) tearDown() {
	c.ending.tearing = true
	c.session.sendCall(protocol.Teardown{})
}

// tellEnd emits the core's last effects.
func (c *Core) tellEnd() {
	c.countSessionEnd(c.session.phase)
	c.emit(Ended{Err: c.ending.err})
}
