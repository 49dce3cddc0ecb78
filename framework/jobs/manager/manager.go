package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/pause"
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
	keeper  *keeper.Keeper
	roles   roles
	watches watches
	writing chan struct{} // closed when nothing is left to write; nil: nothing is being written
	waits   waits         // has a lock of its own
	timer   *time.Timer
}

// turn is a time in which no other manager was active.
type turn struct {
	number uint64 // of takeovers before it
	loaded bool   // the jobs of the store are loaded
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
	m := &Manager{config: config.withDefaults(), roles: roles{refused: make(map[api.Role]error)}, watches: newWatches()}
	m.keeper = keeper.New(keeper.Config{JobsMax: m.config.JobsMax, HistoryMost: m.config.HistoryMost, HistoryAge: m.config.HistoryAge, Calendar: m.config.Calendar, Judge: m.config.Judge,
		Log: m.config.Logger, Changed: func(name string, _ keeper.Step) { m.watches.tell(name) }}, time.Now())
	return m
}

// runWork runs work on the jobs under the lock, and performs what follows from it.
func (m *Manager) runWork(work func(now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.keeper.Do(now, work)
	switch {
	case m.client == nil:
	case m.keeper.Over() || m.client.StandsBy():
		m.endSession()
	default:
		m.startWriting()
		m.armTimer(now)
	}
}

// endSession is called when Run has ended, or another manager keeps the jobs. It tells everybody who waits.
func (m *Manager) endSession() {
	m.client = nil
	m.keeper.End(errLeft)
	m.watches.tellAll()
}

var (
	errLeft    = errors.New("this instance is not the active one any more")
	errStandby = errors.New("this instance stands by; ask the active one, or again in a moment")
)

// isServing reports whether this instance is the one that keeps the jobs.
func (m *Manager) isServing() bool { return m.turn.loaded && m.client != nil && !m.client.StandsBy() }

// armTimer sets the timer to when the keeper next has something to do.
func (m *Manager) armTimer(now time.Time) {
	if m.timer != nil {
		m.timer.Stop()
	}
	next := m.keeper.Next(now)
	if next.IsZero() {
		return
	}
	wait := max(next.Sub(now), pause.Soonest)
	if m.timer == nil {
		m.timer = time.AfterFunc(wait, func() { m.runWork(m.keeper.Ring) })
		return
	}
	m.timer.Reset(wait)
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
		m.forgetJobs(number)
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
	m.runWork(func(time.Time) {
		m.client = client
		m.keeper.Begin(client)
	})
	return nil
}

// forgetJobs forgets all jobs, because another manager may have kept them meanwhile, and waits until nothing is written
// any more that would undo what that one has done. In the first session there is nothing to forget.
func (m *Manager) forgetJobs(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endSession()
	for m.writing != nil {
		writing := m.writing
		m.mu.Unlock()
		<-writing
		m.mu.Lock()
	}
	m.turn = turn{number: number}
	m.keeper.Forget()
}

// Settled implements [framework.Settler]: the states of all tasks that the leader knows have been told.
func (m *Manager) Settled(context.Context) {
	m.runWork(func(time.Time) { m.keeper.Settle() })
}

// Update implements [framework.Scheduler]. What a status has changed is in the store before the status is acknowledged.
func (m *Manager) Update(_ context.Context, status api.Status) (err error) {
	m.runWork(func(now time.Time) {
		if !m.turn.loaded {
			err = api.E("jobs.update", api.Unavailable, status.Task, errStandby)
		} else if m.keeper.Hear(status, now) {
			err = framework.ErrLater
		}
	})
	return err
}

// Offers implements [framework.Scheduler]: it assigns the waiting tasks.
func (m *Manager) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	m.runWork(func(now time.Time) { answers = m.keeper.Offers(offers, now) })
	return answers
}

// Rescinded implements [framework.Rescinder]: held offers may be rescinded.
func (m *Manager) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	m.runWork(func(time.Time) { m.keeper.Rescind(offers) })
}
