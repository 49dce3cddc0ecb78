// Package taskset keeps a set of tasks running, so that most frameworks are a page of
// code. A [Set] is a scheduler: it holds items, each of which is work to be done once
// (a queue) or something to be kept running (a service), and does for them what every
// framework would: states what it wants and nothing more, places tasks, tries again,
// gives up, replaces what is lost, kills what is no longer wanted.
//
//	set := taskset.New(taskset.Config{})
//	for _, file := range files {
//		set.Add(ctx, taskset.Item{ID: file.ID, Task: file.Task()})
//	}
//	set.Close() // no more items will come
//	err := framework.Run(ctx, framework.Config{Name: "batch"}, set)
//	return errors.Join(err, set.Err())
//
// # Trying again
//
// An attempt fails when its task FAILED, when it took longer than AttemptTimeout, or when
// it was killed by its limits. An item that has failed Attempts times is given up; so is
// one whose task is in ERROR, since the same task again would be. What is not the task's
// fault counts for nothing: DROPPED, GONE, PREEMPTED, REVOKED, every AGENT_* reason, a
// kill by an operator. Before the n-th attempt in a row that ended badly the item pauses
// for Pause·2^(n-2), at most PauseMax, of which up to a half is taken off so that
// items do not come in waves ("equal jitter"). The first loss that was not the task's
// fault costs no pause. An attempt that ran for PauseMax begins a new row. After three bad
// ends in a row the next attempt goes to another agent, if one has room within ten seconds
// (or PauseMax, if that is less): the machine may have what others have not.
//
// # Lost agents
//
// A task on an agent that is silent is UNREACHABLE: it may still run. The item is
// started elsewhere at once, or after Unreachable; should the first one come back, one of
// the two is killed. Of work to be done once the one that has run for longer stays, because
// it has done more; of a service the one that is up, and of two the newer. Where two must
// never run, say Unreachable: -1 and wait for the agent or an operator.
//
// # Stragglers
//
// With Speculate, an attempt that takes much longer than its group's others is given a
// copy on another agent; who ends well first wins, and the other is killed. The rule is
// that of MapReduce's backup tasks (OSDI 2004, section 3.6) with the bounds of LATE (OSDI
// 2008) and Spark: only when no item of the group waits and three quarters of them are
// done; an attempt that runs for more than Speculate times their median; the longest
// first; one copy for each attempt; copies of no more than a tenth of what runs.
//
// # Leaving an agent
//
// When an agent is to be maintained, or a task is to be preempted, the masters ask for it
// back by an inverse offer. A service is then started elsewhere if there is room, with
// its old task beside it; once the new one runs, the old one is killed. Where there is no
// room in time the masters kill it, and it is started anew. Work to be done once stays:
// it may still be done by then, and is tried again if it is killed, which counts for
// nothing. Operators see which answer their maintenance got: yes when all that runs
// there is services.
//
// # Changes
//
// [Set.Scale] keeps so many of a service running, and [Set.Roll] changes it to another task, few
// items at a time. The next item's turn is when a new task has proven itself by being up for a while: RUNNING, and
// healthy where it has a check for readiness. One that ends before that by its own fault, or is not up in
// time, stops the change, and its item goes back to what it was; [Rolling] says after how many, and whether all goes
// back. What each task runs stands in its label, so whoever takes over goes on.
//
// # Restarts
//
// A scheduler that was restarted (same framework ID, or the same Name with Standby)
// adds its items again before Run, unless Config.Keep keeps them in the store. What runs
// of them is taken over, as the leader tells it; tasks of items that are not in the set are
// killed. Ends that were handled before the restart are forgotten, and so done again,
// unless Config.Remember or Config.Keep is set. With Standby, Run ends (framework.ErrFenced) when a set
// is to be active again behind another instance; run a new one then.
package taskset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/pause"
)

// Defaults of [Config].
const (
	DefaultAttempts = 4
	DefaultPause    = time.Second
	DefaultPauseMax = time.Minute
	// DefaultRememberMost is a tenth of the keys that a framework's store may have.
	DefaultRememberMost = 10_000
)

// Config says how a set treats its items. The zero value suits most sets.
type Config struct {
	// Attempts is how many attempts may fail before an item is given up; a service is never given up. Default 4;
	// negative: no limit.
	Attempts int
	// Pause is the pause before the second attempt. It doubles with each attempt in a row that ends badly, up to
	// PauseMax. Defaults 1 s and 1 min. Negative Pause: no pauses.
	Pause, PauseMax time.Duration
	// AttemptTimeout kills an attempt that takes longer, counted from its launch, and counts it as failed. It does not
	// apply to services. Default: no limit.
	AttemptTimeout time.Duration
	// Timeout gives up an item that is not done this long after it was added. Default: no limit.
	Timeout time.Duration
	// Unreachable is how long a task on a silent agent is awaited before its item is started elsewhere. Default: not at
	// all; negative: for ever.
	Unreachable time.Duration
	// Speculate makes a copy of an attempt that has run for this many times the median of its group. 0: never; 1.5 is
	// what Spark does.
	Speculate float64

	// Rank chooses among the offers that have room: [pack.BestFit], [pack.WorstFit]. Default: the first offer. It is
	// called while the set is locked, so it must not use the set.
	Rank func(bin *pack.Bin, task api.Task) float64
	// Spread puts the tasks of a group evenly over places, such as api.ByAttribute("rack"); Rank only decides between
	// equally good places. It is part of the demand, so that the masters offer resources in the places with the fewest
	// tasks.
	Spread api.Place
	// Apart keeps more than Most tasks of a group from running in one place, such as [api.ByAgent]. It is part of the
	// demand as well.
	Apart api.Place
	Most  int // default 1
	// Locality says how long a group waits for agents that its items prefer. Such items go where they prefer, whatever
	// Rank and Spread say; Apart still holds.
	Locality locality.Config

	// Role is the role in which resources are wanted for items that name none. Default: the framework's only role.
	Role api.Role
	// Keep keeps the items themselves in the framework's store, under this prefix. Once Add, Remove, Scale or Roll has
	// returned nil, its change holds, whichever instance takes over. For that these methods wait for a session and for
	// a majority of the masters; before the first session they return an error. An item is deleted from the store after
	// it has ended and Ended was told. "": nothing is kept, and a scheduler that is restarted must add its items again.
	Keep string
	// Loaded is called once, if Keep is set, when the items of the store are in the set and nothing is started yet. It
	// may change the set, for example to add what a new framework begins with. Its error ends Run.
	Loaded func(ctx context.Context, set *Set) error
	// Remember keeps in the framework's store, under this prefix, how often each item has failed and whether it has
	// ended. An item that is added again after a restart then continues from there, and one that was done stays done.
	// Only the item's Timeout begins anew, even if the item was given up because of it. Each record is a write to the
	// quorum before the end of the task is acknowledged. "": nothing is remembered.
	Remember string
	// RememberMost bounds the records of items that have ended; the oldest are deleted. Default 10,000. An item whose
	// record was deleted is done again if it is added again. The record of an item that is removed is deleted as well.
	RememberMost int

	// Update is called with each status of an item's task before the set handles it, for example for its data. If it
	// returns an error, the set does not handle the status, and the status comes again. It must not return
	// framework.ErrLater.
	Update func(ctx context.Context, item string, status api.Status) error
	// Updated is called with each status when the set has handled it, so that [Set.Tasks] shows it. It may use the set,
	// and is the place to write a load balancer's configuration.
	Updated func(item string, status api.Status)
	// Ended is called once for each item that has ended. If a status has caused the end, it is called before that
	// status is acknowledged. It may use the set.
	Ended func(Outcome)
	// Rolled is called for each rolling change that is done or has stopped, in whichever goroutine notices that. It may
	// use the set.
	Rolled func(Progress)
}

func (c Config) withDefaults() Config {
	c.Attempts = cmp.Or(c.Attempts, DefaultAttempts)
	c.Pause = cmp.Or(c.Pause, DefaultPause)
	if c.PauseMax <= 0 {
		c.PauseMax = DefaultPauseMax
	}
	c.Most = max(c.Most, 1)
	if c.RememberMost <= 0 {
		c.RememberMost = DefaultRememberMost
	}
	return c
}

// Set is a scheduler that keeps items running. Give it to one [framework.Run]. Its methods may be called from any
// goroutine.
type Set struct {
	config Config

	mu        sync.Mutex
	state     *state
	client    masters           // nil: no session yet, or Run has ended
	framework *framework.Client // from the first session on
	timer     *time.Timer
	telling   bool
	torn      bool // it has asked for the framework's removal

	takeovers uint64           // of the framework by other instances, when the set was read
	store     *framework.Store // from the first session on
	writing   chan struct{}    // with Keep: one change at a time; whoever put its element in makes it, without holding mu
	loaded    bool             // the items of the store are in the set
	endings   []string         // items whose record says that they have ended, the oldest first; only callbacks use it
	// settled holds the tasks whose last status the set has handled but has not acknowledged yet. Only callbacks use
	// it.
	//
	// Holds: no entry outlives the Update that acknowledges the status.
	settled map[api.TaskID]struct{}
}

// masters is what a set uses of its [framework.Client].
type masters interface {
	Roles() []api.Role
	Demand(demand api.Demand) error
	Kill(task api.TaskID, options ...framework.KillOption) error
	AnswerInverse(accept bool, offers ...api.OfferID) error
	Teardown() error
}

var _ interface {
	framework.Scheduler
	framework.Subscriber
	framework.Settler
	framework.InverseOfferee
	framework.Rescinder
} = (*Set)(nil)

// New makes a set without items.
func New(config Config) *Set {
	config = config.withDefaults()
	return &Set{config: config, state: newState(config), settled: make(map[api.TaskID]struct{}), writing: make(chan struct{}, 1)}
}

// runWork runs work on the set under the lock, performs what follows from it, and calls Ended and Rolled where they have to
// be told.
func (s *Set) runWork(work func(now time.Time)) {
	s.runLocked(work)
	s.tellEnds()
}

func (s *Set) runLocked(work func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.state.alarms.ringDue(now)
	work(now)
	s.state.rollouts.rollOn(now)
	s.askMasters(now)
}

// askMasters asks the masters for what has become necessary: demands, kills, the framework's removal.
func (s *Set) askMasters(now time.Time) {
	if s.client == nil {
		return
	}
	err := s.restateDemand(now)
	for _, id := range s.state.kills {
		err = errors.Join(err, s.client.Kill(id))
	}
	s.state.kills = s.state.kills[:0]
	if s.state.closed && s.state.known && len(s.state.items) == 0 && len(s.state.ended) == 0 && !s.torn {
		s.torn = true
		err = errors.Join(err, s.client.Teardown())
	}
	if err != nil { // Run has ended
		s.client = nil
	}
	s.armTimer(now)
}

// armTimer sets the timer to the next alarm.
func (s *Set) armTimer(now time.Time) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.client == nil || s.state.alarms.Len() == 0 {
		return
	}
	wait := max(s.state.alarms.Next().Sub(now), pause.Soonest)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.ringTimer)
		return
	}
	s.timer.Reset(wait)
}

// ringTimer runs when the timer has fired.
func (s *Set) ringTimer() {
	s.runWork(func(time.Time) {})
	_ = s.flushStore(context.Background()) // fails when Run has ended, or when the store refuses: the next flush tries again
}

// tellEnds calls Ended and Rolled, one call at a time, without holding the lock.
func (s *Set) tellEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	defer func() { s.telling = false }()
	for len(s.state.ended)+len(s.state.rollouts.rolled) > 0 {
		if len(s.state.ended) == 0 {
			s.tellRolled()
			continue
		}
		ended := s.state.ended[0]
		if s.config.Ended != nil {
			s.mu.Unlock()
			s.config.Ended(ended)
			s.mu.Lock()
		}
		s.state.ended = s.state.ended[1:]
		s.state.noteChange(itemKeys + ended.Item)
		if len(s.state.ended) == 0 {
			s.askMasters(time.Now())
		}
	}
}

// tellRolled calls Rolled once, without holding the lock.
func (s *Set) tellRolled() {
	rolled := s.state.rollouts.rolled[0]
	s.state.rollouts.rolled = s.state.rollouts.rolled[1:]
	if s.config.Rolled != nil {
		s.mu.Unlock()
		defer s.mu.Lock()
		s.config.Rolled(rolled)
	}
}

// Subscribed implements [framework.Subscriber]. It ends Run with [framework.ErrFenced] when another instance has been
// active since this one was: what this set knows is out of date.
func (s *Set) Subscribed(ctx context.Context, client *framework.Client) error {
	s.mu.Lock()
	first := s.client == nil && !s.state.known
	if first {
		s.takeovers = client.Takeovers()
	}
	s.mu.Unlock()
	if client.Takeovers() != s.takeovers {
		return api.E("taskset.subscribed", api.Fenced, client.FrameworkID(),
			fmt.Errorf("another instance may have been active, and what this one remembers is out of date; run a new set: %w", framework.ErrFenced))
	}
	if first {
		if err := s.beginRoles(ctx, client); err != nil {
			return err
		}
		if err := s.readStore(ctx, client); err != nil {
			return err
		}
	}
	s.runWork(func(time.Time) { s.client = client })
	return nil
}

// readStore takes into the set what the store has kept.
func (s *Set) readStore(ctx context.Context, client *framework.Client) error {
	s.store = client.Store()
	if s.config.Keep != "" {
		if err := s.loadKept(ctx); err != nil {
			return err
		}
	}
	if s.config.Remember != "" {
		if err := s.recallRecords(ctx); err != nil {
			return err
		}
	}
	if s.config.Keep != "" && s.config.Loaded != nil {
		return s.config.Loaded(ctx, s)
	}
	return nil
}

// Settled implements [framework.Settler]. Only now is anything started, because until now it might have been running
// already.
func (s *Set) Settled(context.Context) {
	s.runWork(func(time.Time) {
		if !s.state.known {
			s.state.rollouts.takeOver()
		}
		s.state.known = true
		s.state.waiting.wants.RestateAll()
	})
}

// Add puts items into the set. It adds those that it can, and its error says what is wrong with the others, such as an
// ID that is taken or a task that no agent could ever run.
//
// Add, Remove, Scale and Roll wait where a role is new to the framework or Config.Keep is set: for a session, a majority
// of the masters, and changes before this one. When ctx ends first they return its error, and the change was not made.
func (s *Set) Add(ctx context.Context, items ...Item) error {
	var roles []api.Role
	for _, item := range items {
		roles = append(roles, item.Role)
	}
	if err := s.joinRoles(ctx, roles...); err != nil {
		return err
	}
	var changes []change
	for _, item := range items {
		changes = append(changes, change{
			check: func() error { return s.state.checkItem(item) },
			key:   itemKeys + item.ID,
			value: func() (*kept, error) { return keepAlone(item) },
			work:  func(now time.Time) { s.state.addItem(item, now) },
		})
	}
	return s.makeChanges(ctx, changes...)
}

var (
	errClosed = errors.New("the set is closed; add all items before Close")
	errTwice  = errors.New("an item of this ID is in the set")
)

func (s *state) checkItem(item Item) error {
	const op = "taskset.add"
	switch err := api.CheckID("item", item.ID); {
	case err != nil:
		return api.E(op, api.Invalid, item.ID, err)
	case len(item.ID) > itemIDBytesMax:
		return api.E(op, api.Invalid, item.ID, fmt.Errorf("the ID has %d bytes, at most %d are allowed", len(item.ID), itemIDBytesMax))
	case s.closed:
		return api.E(op, api.Invalid, item.ID, errClosed)
	case s.items[item.ID] != nil:
		return api.E(op, api.Exists, item.ID, errTwice)
	}
	if err := errors.Join(s.waiting.checkRole(item), s.checkTask(item)); err != nil {
		return api.E(op, api.Invalid, item.ID, err)
	}
	return nil
}

// checkTask returns why no agent could ever run the item's task, by the same function that masters and agents use. It
// leaves out what the task's offer fills in.
func (s *state) checkTask(item Item) error {
	task := item.Task
	task.ID = api.TaskID(item.ID)
	task.Ports = maps.Clone(task.Ports)
	maps.DeleteFunc(task.Ports, func(_ string, port uint16) bool { return port == 0 })
	task.Checks = slices.DeleteFunc(slices.Clone(task.Checks), func(check api.Check) bool {
		port, named := item.Task.Ports[check.PortName()]
		return named && port == 0
	})
	if s.config.Spread != "" || s.config.Apart != "" {
		task.Group = item.Group
	}
	return task.Check()
}

// Remove removes items from the set, whatever state they are in: their tasks are killed, and Ended is not called. An item
// that Scale keeps is refused (api.Invalid), because its service would have fewer than Scale has said: use Scale.
func (s *Set) Remove(ctx context.Context, ids ...string) error {
	var changes []change
	for _, id := range ids {
		changes = append(changes, change{
			check: func() error { return s.state.checkRemove(id) },
			key:   itemKeys + id,
			work:  func(time.Time) { s.state.removeItem(id) },
		})
	}
	return s.makeChanges(ctx, changes...)
}

func (s *state) checkRemove(id string) error {
	if it := s.items[id]; it != nil && it.service != nil {
		return api.E("taskset.remove", api.Invalid, id, fmt.Errorf("it is one of the %d that Scale keeps of service %s; use Scale to keep fewer, "+
			"or kill its task to have it started anew", it.service.n, it.service.name))
	}
	return nil
}

func (s *state) removeItem(id string) {
	it := s.items[id]
	if it == nil {
		return
	}
	if s.config.Remember != "" && it.Failures > 0 {
		s.removed = append(s.removed, id)
	}
	s.dropItem(it)
}

// Close says that no more items will come. When the last item has ended, the framework is removed and Run returns nil.
func (s *Set) Close() { s.runWork(func(time.Time) { s.state.closed = true }) }

// faultsKept bounds how many failures Err lists one by one.
const faultsKept = 10

// Err returns nil unless items were given up. Otherwise it says how many were, and why the first few.
func (s *Set) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.numbers.GivenUp == 0 {
		return nil
	}
	items := "items were"
	if s.state.numbers.GivenUp == 1 {
		items = "item was"
	}
	return fmt.Errorf("%d %s given up: %w", s.state.numbers.GivenUp, items, errors.Join(s.state.faults...))
}

// Numbers tell what a set is doing and has done.
type Numbers struct {
	Items     int // items that have not ended
	Waiting   int // attempts that wait for an offer
	Pausing   int // items that pause before their next attempt
	Running   int // tasks that were launched and have not ended, including UNREACHABLE ones
	Done      int // items that ended well
	GivenUp   int // items that were given up
	Attempts  int // tasks launched
	Failed    int // attempts that failed
	Lost      int // attempts that ended badly without a fault of their own
	Copies    int // copies of stragglers that were launched
	CopiesWon int // copies that ended well before the original
	Moves     int // services that were started elsewhere because they were asked to leave
}

// Numbers returns the set's numbers.
func (s *Set) Numbers() Numbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.state.numbers
	n.Items, n.Waiting, n.Running = len(s.state.items), len(s.state.waiting.wishes), len(s.state.attempts)
	return n
}

// Locality returns what waiting for preferred agents has gained and cost, over all groups.
func (s *Set) Locality() locality.Numbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.state.waiting.past
	for _, r := range s.state.waiting.roles { // order: irrelevant because it is a sum
		sum = sum.Plus(r.delay.Numbers(""))
	}
	return sum
}

// Waits replaces the waits of Config.Locality for one group; the group must have items.
func (s *Set) Waits(group string, node, near locality.Wait) {
	s.runWork(func(time.Time) {
		if g := s.state.waiting.groups[group]; g != nil {
			g.role.delay.Waits(jobOf(group), node, near)
		}
	})
}
