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
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/core"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/pause"
)

// Defaults of [Config].
const (
	DefaultJobsMax     = 20_000
	DefaultHistoryMost = 1000
	DefaultHistoryAge  = 7 * 24 * time.Hour
)

// Config says how jobs are kept. The zero value is right for most.
type Config struct {
	// JobsMax bounds the jobs, those that have ended included; one more is refused (Limit). Default 20,000.
	JobsMax int
	// HistoryMost and HistoryAge bound which jobs that have ended are kept: the oldest are forgotten. Defaults 1,000
	// and a week.
	HistoryMost int
	HistoryAge  time.Duration
	// Calendar reads the schedules of cron jobs. Without one such jobs are refused.
	Calendar jobs.Calendar
	// Logger takes what goes wrong. Default: discarded.
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Manager keeps jobs running. Give it to one framework.Run; its other methods may be used from any goroutine.
type Manager struct {
	config Config

	mu       sync.Mutex
	client   masters // nil: it stands by, or Run has ended
	loaded   bool    // the store's jobs are here
	known    bool    // what runs of them was told
	jobs     map[string]*entry
	names    []string        // of the jobs, sorted
	claimed  map[string]bool // names that a request is changing
	watches  watches
	wants    wants
	flights  flights
	gather   gather
	writing  writing
	timer    *time.Timer
	wakes    alarms.Alarms[string] // of jobs by name; one that is out of date wakes nobody
	endings  []ending              // of jobs, the oldest first
	unstated bool                  // the masters may have another demand than holds
}

// entry is a job in the manager.
type entry struct {
	name   string
	master *core.JobMaster
	wake   time.Time // that stands in wakes; zero: none
}

// ending is a job that has ended, for its history.
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

// New makes a manager without jobs: it has those of the store from its first session on.
func New(config Config) *Manager {
	return &Manager{config: config.withDefaults(), jobs: make(map[string]*entry), claimed: make(map[string]bool),
		watches: newWatches(), wants: newWants(), flights: newFlights(), gather: newGather(), writing: newWriting()}
}

// do works on the jobs and acts on what has changed.
func (m *Manager) do(work func(now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	work(now)
	m.act(now)
}

// act asks the masters for what the work made necessary, and has it written.
func (m *Manager) act(now time.Time) {
	m.forgetOld(now)
	if m.client == nil {
		return
	}
	m.endGather(now)
	if m.unstated && m.known {
		m.unstated = false
		err := m.client.Demand(api.Demand{Shapes: m.wants.shapes()})
		if api.Is(err, api.Unavailable) { // Run has ended
			m.left()
			return
		} else if err != nil {
			m.config.Logger.Error("what waits can't be demanded", "error", err)
		}
	}
	m.flush()
	m.arm(now)
}

// left: Run has ended. Whoever waits is told.
func (m *Manager) left() {
	m.client = nil
	m.writing.fail(errLeft)
	m.watches.tellAll()
}

var (
	errLeft    = errors.New("this instance is not the active one any more")
	errStandby = errors.New("this instance stands by; ask the active one, or again in a moment")
)

// step tells a job what has happened, and notes what is to be done for it.
func (m *Manager) step(e *entry, now time.Time, happened core.Event) []core.Effect {
	effects := m.stepOnce(e, now, happened)
	return append(effects, m.planRuns(e, now)...)
}

func (m *Manager) stepOnce(e *entry, now time.Time, happened core.Event) []core.Effect {
	effects := e.master.Step(now, happened)
	for _, effect := range effects {
		switch effect := effect.(type) {
		case core.Save:
			m.writing.dirty(e.name, effect.Key)
		case core.Ended:
			m.endings = append(m.endings, ending{e.name, e.master.Run, now})
		default:
			m.writing.after(e.name, effect)
		}
	}
	m.noteChange(e)
	return effects
}

// noteChange brings what is known of the job outside of its master up to date.
func (m *Manager) noteChange(e *entry) {
	if m.wants.update(e.name, e.master) {
		m.unstated = true
	}
	if wake := e.master.Wake(); !wake.IsZero() && (e.wake.IsZero() || wake.Before(e.wake)) {
		e.wake = wake
		m.wakes.Add(wake, e.name)
	}
	m.watches.tell(e.name)
}

// add takes in a job.
func (m *Manager) add(e *entry) {
	if at, is := slices.BinarySearch(m.names, e.name); !is {
		m.names = slices.Insert(m.names, at, e.name)
	}
	m.jobs[e.name] = e
}

// remove forgets a job.
func (m *Manager) remove(name string) {
	if at, is := slices.BinarySearch(m.names, name); is {
		m.names = slices.Delete(m.names, at, at+1)
	}
	delete(m.jobs, name)
	m.watches.tell(name)
}

// arm has the next job woken in time, or forgotten.
func (m *Manager) arm(now time.Time) {
	if m.timer != nil {
		m.timer.Stop()
	}
	next := m.wakes.Next()
	if len(m.endings) > 0 { // when the history has one too many
		if old := m.endings[0].at.Add(m.config.HistoryAge + 1); next.IsZero() || old.Before(next) {
			next = old
		}
	}
	if until := m.gather.until; !until.IsZero() && (next.IsZero() || until.Before(next)) {
		next = until
	}
	if next.IsZero() {
		return
	}
	wait := max(next.Sub(now), pause.Soonest)
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, func() { m.do(m.ring) })
		return
	}
	m.timer.Reset(wait)
}

// ring wakes the jobs that are due.
func (m *Manager) ring(now time.Time) {
	for name, is := m.wakes.Due(now); is; name, is = m.wakes.Due(now) {
		e := m.jobs[name]
		if e == nil || e.wake.IsZero() || e.wake.After(now) {
			continue
		}
		e.wake = time.Time{}
		m.step(e, now, core.Woken{})
	}
}

// forgetOld deletes what is beyond the bounds of the history.
func (m *Manager) forgetOld(now time.Time) {
	for len(m.endings) > 0 && (len(m.endings) > m.config.HistoryMost || now.Sub(m.endings[0].at) > m.config.HistoryAge) {
		old := m.endings[0]
		m.endings = m.endings[1:]
		if e := m.jobs[old.name]; e != nil && e.master.Run == old.run && e.master.Phase.Ended() && !m.claimed[old.name] {
			m.step(e, now, core.Asked{Delete: true, Why: "its time in the history is over"})
		}
	}
}

// Subscribed implements [framework.Subscriber]: the first session brings the jobs.
func (m *Manager) Subscribed(ctx context.Context, client *framework.Client) error {
	return m.subscribed(ctx, session{client})
}

func (m *Manager) subscribed(ctx context.Context, client masters) error {
	m.mu.Lock()
	loaded := m.loaded
	m.mu.Unlock()
	if !loaded {
		if err := client.Demand(api.Demand{}); err != nil { // nothing, until it is known what runs
			return err
		}
		if err := m.load(ctx, client); err != nil {
			return err
		}
	}
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

// Settled implements [framework.Settler]: the state of each task that the leader knows was told. Only now is anything
// started, and what became of the other tasks is asked.
func (m *Manager) Settled(context.Context) {
	m.do(func(time.Time) {
		if !m.known {
			m.known, m.unstated = true, true
		}
		m.askUnheard()
	})
}

// askUnheard asks what became of the tasks that the store knows and of which nothing was told.
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
			m.left()
		}
	}
}

// Update implements [framework.Scheduler]. What it has changed is in the store before it is acknowledged.
func (m *Manager) Update(_ context.Context, status api.Status) (err error) {
	m.do(func(now time.Time) {
		e := m.jobs[core.JobOf(status.Task)]
		switch {
		case !m.loaded:
			err = api.E("jobs.update", api.Unavailable, status.Task, errStandby)
		case e != nil:
			before := m.writing.mark()
			if effects := m.step(e, now, core.Heard{Status: status}); onlyAcknowledges(effects) {
				m.writing.reset(before)
				return
			}
			err = framework.ErrLater
		case !status.State.Terminal() && status.State != api.TaskUnknown && m.client != nil:
			err = m.client.Kill(status.Task) // of a job that is gone
		}
	})
	return err
}

// onlyAcknowledges: nothing is to be written before.
func onlyAcknowledges(effects []core.Effect) bool {
	for _, effect := range effects {
		if _, is := effect.(core.Acknowledge); !is {
			return false
		}
	}
	return true
}
