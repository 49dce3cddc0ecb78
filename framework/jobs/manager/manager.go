package manager

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wallclock"
)

// Defaults of [Config].
const (
	DefaultJobsMax     = 20_000
	DefaultHistoryMost = 1000
	DefaultHistoryAge  = 7 * 24 * time.Hour
)

// Config says how the manager works. The zero value suits most clusters.
type Config struct {
	// JobsMax bounds the jobs, including those that have ended; one more is refused (Limit). Default 20,000.
	JobsMax int
	// HistoryMost and HistoryAge bound the ended jobs that are kept, by number and by age: the oldest are forgotten.
	// Defaults 1,000 and a week.
	HistoryMost int
	HistoryAge  time.Duration
	// Name is that of the manager's framework, to which a grant may be restricted. Default [Endpoint].
	Name string
	// Calendar reads the schedules of cron jobs. Without it such jobs are refused.
	Calendar jobs.Calendar
	// Judge reads the constraints of tasks. Without it jobs that have some are refused.
	Judge jobs.Judge
	// Logger takes the manager's log. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.JobsMax <= 0 {
		c.JobsMax = DefaultJobsMax
	}
	if c.HistoryMost <= 0 {
		c.HistoryMost = DefaultHistoryMost
	}
	if c.HistoryAge <= 0 {
		c.HistoryAge = DefaultHistoryAge
	}
	if c.Name == "" {
		c.Name = Endpoint
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Manager keeps jobs running. Give it to one framework.Run. Its other methods may be called from any goroutine.
type Manager struct {
	config Config

	mu      sync.Mutex
	client  masters // nil: this instance stands by, or Run has ended
	turn    turn
	jobs    map[string]*entry
	names   []string        // names of the jobs, sorted
	claimed map[string]bool // names whose jobs a request is changing
	roles   roles
	watches watches
	wants   wants
	flights flights
	gather  gather
	writing writing
	waits   waits                           // has a lock of its own
	judged  map[string]func(api.Offer) bool // the constraints of tasks, compiled
	timer   *time.Timer
	clock   managerClock
	wakes   alarms.Alarms[string] // when to wake which job; an entry that is out of date does nothing
	endings []ending              // jobs that have ended, the oldest first
}

// turn is a time in which no other manager was active.
type turn struct {
	number uint64 // of takeovers before it
	loaded bool   // the jobs of the store are loaded
	known  bool   // the leader has told which of their tasks run
}

// entry is a job of the manager.
type entry struct {
	name   string
	master *core.JobMaster
	wake   time.Time // time of its entry in wakes; zero: none
}

// ending is a job in the history.
type ending struct {
	name string
	run  string
	at   time.Time
}

var _ interface {
	framework.Scheduler
	framework.Subscriber
	framework.Settler
	framework.Rescinder
} = (*Manager)(nil)

// New makes a manager without jobs. In its first session, and in each before which another manager may have been active,
// it loads those of the store.
func New(config Config) *Manager {
	return &Manager{config: config.withDefaults(), jobs: make(map[string]*entry), claimed: make(map[string]bool),
		roles: roles{refused: make(map[api.Role]error)}, watches: newWatches(), wants: newWants(), flights: newFlights(), gather: newGather(), writing: newWriting(), clock: managerClock{calendar: wallclock.Began(time.Now())}}
}

// do runs work on the jobs under the lock, and performs what follows from it.
func (m *Manager) do(work func(now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doAt(time.Now(), work)
}

// doAt is do at a time. Callers hold mu.
func (m *Manager) doAt(now time.Time, work func(now time.Time)) {
	m.lookAtClock(now)
	work(now)
	m.askMasters(now)
}

// askMasters asks the masters for what has become necessary, and starts to write what has changed.
func (m *Manager) askMasters(now time.Time) {
	m.forgetOld(now)
	if m.client == nil {
		return
	}
	m.endGather(now)
	if m.turn.known && !m.stateDemands() {
		return
	}
	m.startWriting()
	m.armTimer(now)
}

// stateDemands tells the masters what waits, role by role, where they may know it otherwise; false: Run has ended.
func (m *Manager) stateDemands() bool {
	for _, role := range m.wants.Unstated(m.client.Roles()) {
		err := m.client.Demand(api.Demand{Role: role, Shapes: m.wants.shapes(role)})
		if api.Is(err, api.Unavailable) { // Run has ended
			m.endSession()
			return false
		} else if err != nil {
			m.config.Logger.Error("what waits can't be demanded", "role", role, "error", err)
		}
	}
	return true
}

// endSession is called when Run has ended. It tells everybody who waits.
func (m *Manager) endSession() {
	m.client = nil
	m.writing.failAll(errLeft)
	m.watches.tellAll()
}

var (
	errLeft    = errors.New("this instance is not the active one any more")
	errStandby = errors.New("this instance stands by; ask the active one, or again in a moment")
)

// stepJob passes an event to a job, and queues the effects.
func (m *Manager) stepJob(e *entry, now time.Time, happened core.Event) []core.Effect {
	effects := m.stepOnce(e, now, happened)
	return append(effects, m.planRuns(e, now)...)
}

func (m *Manager) stepOnce(e *entry, now time.Time, happened core.Event) []core.Effect {
	before := e.master.Phase
	effects := e.master.Step(now, happened)
	if e.master.Phase != before { // what ends a job needs less room than what goes on
		m.writing.TryAside(e.name)
	}
	for _, effect := range effects {
		switch effect := effect.(type) {
		case core.Save:
			m.writing.MarkDirty(e.name, effect.Key)
		case core.Ended:
			m.endings = append(m.endings, ending{e.name, e.master.Run, now})
		default:
			m.writing.AddEffect(e.name, effect)
		}
	}
	m.noteChange(e)
	return effects
}

// noteChange updates what is known of the job outside of its JobMaster.
func (m *Manager) noteChange(e *entry) {
	m.wants.update(e.name, e.master, m.writing.Aside(e.name) == nil)
	if wake := e.master.Wake(); !wake.IsZero() && (e.wake.IsZero() || wake.Before(e.wake)) {
		e.wake = wake
		m.wakes.Add(wake, e.name)
	}
	m.watches.tell(e.name)
}

// addJob adds a job.
func (m *Manager) addJob(e *entry) {
	if at, is := slices.BinarySearch(m.names, e.name); !is {
		m.names = slices.Insert(m.names, at, e.name)
	}
	m.jobs[e.name] = e
}

// removeJob removes a job.
func (m *Manager) removeJob(name string) {
	if at, is := slices.BinarySearch(m.names, name); is {
		m.names = slices.Delete(m.names, at, at+1)
	}
	delete(m.jobs, name)
	m.watches.tell(name)
}

// armTimer sets the timer to when the next job has to be woken, or to be forgotten.
func (m *Manager) armTimer(now time.Time) {
	if m.timer != nil {
		m.timer.Stop()
	}
	next := m.wakes.Next()
	if len(m.endings) > 0 { // when the oldest in the history becomes too old
		if old := m.endings[0].at.Add(m.config.HistoryAge + 1); next.IsZero() || old.Before(next) {
			next = old
		}
	}
	if until := m.gather.until; !until.IsZero() && (next.IsZero() || until.Before(next)) {
		next = until
	}
	if again := m.writing.TryAt(); !again.IsZero() && (next.IsZero() || again.Before(next)) {
		next = again
	}
	if look := now.Add(wallclock.Doubt); len(m.jobs) > 0 && (next.IsZero() || look.Before(next)) {
		next = look // whether somebody has set the clock
	}
	if next.IsZero() {
		return
	}
	wait := max(next.Sub(now), pause.Soonest)
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, func() { m.do(m.ringAlarms) })
		return
	}
	m.timer.Reset(wait)
}

// ringAlarms wakes the jobs that are due, and tries those again that were set aside.
func (m *Manager) ringAlarms(now time.Time) {
	m.writing.TryAllAside(now)
	for name, is := m.wakes.Due(now); is; name, is = m.wakes.Due(now) {
		e := m.jobs[name]
		if e == nil || e.wake.IsZero() || e.wake.After(now) {
			continue
		}
		e.wake = time.Time{}
		m.stepJob(e, now, core.Woken{})
	}
}

// forgetOld deletes the ended jobs that are beyond the bounds of the history.
func (m *Manager) forgetOld(now time.Time) {
	for len(m.endings) > 0 && (len(m.endings) > m.config.HistoryMost || now.Sub(m.endings[0].at) > m.config.HistoryAge) {
		old := m.endings[0]
		m.endings = m.endings[1:]
		if e := m.jobs[old.name]; e != nil && e.master.Run == old.run && e.master.Phase.Ended() && !m.claimed[old.name] {
			m.stepJob(e, now, core.Asked{Delete: true, Why: "its time in the history is over"})
		}
	}
}

// Subscribed implements [framework.Subscriber]: it loads the jobs, unless it has kept them until now.
func (m *Manager) Subscribed(ctx context.Context, client *framework.Client) error {
	return m.beginSession(ctx, session{client})
}

func (m *Manager) beginSession(ctx context.Context, client masters) error {
	number := client.Takeovers()
	m.mu.Lock()
	loaded := m.turn.loaded && m.turn.number == number
	m.mu.Unlock()
	if !loaded {
		m.forget(number)
		m.roles.home = client.Roles()[0]
		for _, role := range client.Roles() {
			if err := client.Demand(api.Demand{Role: role}); err != nil { // nothing is wanted until it is known what runs
				return err
			}
		}
		if err := m.loadJobs(ctx, client); err != nil {
			return err
		}
	}
	m.joinAll(ctx, client)
	var kills []api.TaskID
	m.do(func(time.Time) {
		m.client = client
		m.gather.end() // the offers of the session before are gone
		for _, name := range m.names {
			kills = append(kills, m.jobs[name].master.Kills()...)
		}
	})
	for _, task := range kills {
		if err := client.Kill(task); err != nil {
			return err
		}
	}
	return nil
}

// forget forgets all jobs, because another manager may have kept them meanwhile, and waits until nothing is written any
// more that would undo what that one has done. In the first session there is nothing to forget.
func (m *Manager) forget(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endSession()
	for m.writing.busy != nil {
		busy := m.writing.busy
		m.mu.Unlock()
		<-busy
		m.mu.Lock()
	}
	fresh := New(m.config)
	m.turn = turn{number: number}
	m.jobs, m.names, m.endings, m.wakes = fresh.jobs, nil, nil, fresh.wakes
	m.wants, m.flights, m.gather, m.writing = fresh.wants, fresh.flights, fresh.gather, fresh.writing
}

// Settled implements [framework.Settler]: the states of all tasks that the leader knows have been told. Only now are
// tasks started, and the masters asked about the remaining tasks.
func (m *Manager) Settled(context.Context) {
	m.do(func(time.Time) {
		if !m.turn.known {
			m.turn.known = true
			m.wants.RestateAll()
		}
		m.askUnheard()
	})
}

// askUnheard asks about the tasks that the store knows and of which nothing was told.
func (m *Manager) askUnheard() {
	var unheard []api.TaskID
	for _, name := range m.names {
		unheard = append(unheard, m.jobs[name].master.Unheard()...)
	}
	for page := range slices.Chunk(unheard, api.ItemsPerCallMax) {
		if m.client == nil {
			return
		}
		if err := m.client.Reconcile(page...); err != nil { // Run has ended
			m.endSession()
		}
	}
}

// Update implements [framework.Scheduler]. What a status has changed is in the store before the status is acknowledged.
func (m *Manager) Update(_ context.Context, status api.Status) (err error) {
	m.do(func(now time.Time) {
		e := m.jobs[core.JobOf(status.Task)]
		switch {
		case !m.turn.loaded:
			err = api.E("jobs.update", api.Unavailable, status.Task, errStandby)
		case e != nil:
			before := m.writing.Mark(e.name)
			if effects := m.stepJob(e, now, core.Heard{Status: status}); onlyAcknowledges(effects) {
				m.writing.Reset(e.name, before)
				return
			}
			err = framework.ErrLater
		case !status.State.Settled() && m.client != nil:
			err = m.client.Kill(status.Task) // its job is gone
		}
	})
	return err
}

// onlyAcknowledges reports whether the effects need no write before them.
func onlyAcknowledges(effects []core.Effect) bool {
	for _, effect := range effects {
		if _, is := effect.(core.Acknowledge); !is {
			return false
		}
	}
	return true
}
