package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/watchdog"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/tally"
	"github.com/tenderhq/tender/master/internal/vault"
	"github.com/tenderhq/tender/master/internal/watching"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// batchMax bounds the events that are handled before one allocation.
	batchMax = 4096
	// batchTimeMax bounds the time of a batch, because its effects are sent only after it.
	batchTimeMax = 10 * time.Millisecond
	// backlogMax bounds the proposals for which the quorum has no room. When there are more, the loop takes in nothing
	// new from outside.
	backlogMax = 64
)

// leader is this master while it leads. It has one inbox of two lanes, one loop and one core.
type leader struct {
	*callers
	config  *Config
	log     zerolog.Logger
	metrics *metrics
	round   watchdog.Loop
	changes *watching.Stream // what the core notes, for those who watch
	policy  *policyRun

	// The fields below belong to the loop's goroutine.
	core    *core.Core
	peers   peers
	backlog []registry.Command // proposals that the quorum has not taken yet, in order
	served  []time.Time        // since when the resources were free that are offered in this round
	tally   *tally.Tally       // what has changed, for metrics
	seen    time.Time          // when the loop was last at work
	wakeAt  time.Time          // the time for which the timer is set; zero: it is not set
}

// arrival is an event from outside, and where its answers go.
type arrival struct {
	what      core.Happening
	at        time.Time
	scheduler *schedulerStream
	agent     *agentStream
	replies   chan<- core.Reply // has room for all replies to a request
	bytes     int               // approximate size in memory
	taken     func()            // called when the loop has handled it; may be nil
}

func (m *Master) newLeader(lead *raftlog.Leadership, policy allocator.Allocator) *leader {
	config := m.config.Core
	config.Master = m.config.ID
	config.Compile = m.intake.Programs.Compile
	if key := m.config.Trust.Key; !key.IsZero() {
		config.ReceiptKey = key.Derive("receipts of launches")
	}
	config.Client = string(m.config.ID) + "/" + lead.Term.String()
	config.Debug = config.Debug || m.config.Log.shows(zerolog.DebugLevel, *m.log)
	now := time.Now()
	config.Version = m.config.Version
	l := &leader{
		callers: newCallers(m.leading, lead),
		policy:  m.newPolicyRun(policy),
		config:  m.config, metrics: m.metrics,
		log:   m.log.With().Stringer("term", lead.Term).Logger(),
		core:  core.New(config, lead.State, lead.Term, policy, now),
		peers: newPeers(m.metrics.dropped),
		tally: tally.New(func(took time.Duration) { m.metrics.starts.Observe(took.Seconds()) }),
		seen:  now,

		changes: &watching.Stream{Term: lead.Term, Leader: m.config.ID, Told: m.watches.endsTold(lead.Term)},
	}
	l.changes.Append(l.core.Changes())
	return l
}

// run leads until the leadership or ctx ends, or the core breaks a rule of its own.
func (l *leader) run(ctx context.Context) {
	defer l.close()
	defer l.broken()
	defer l.runPolicy(ctx)()
	l.metrics.elections.Inc()
	l.introduce()
	timer := time.NewTimer(pause.Soonest)
	defer timer.Stop()
	for {
		// When the quorum has no room, nothing new is taken in from outside.
		var arrivals <-chan struct{}
		if len(l.backlog) <= backlogMax {
			arrivals = l.inbox.Wake
		}
		l.round.End()
		select {
		case <-ctx.Done():
			l.lead.End("this master ends")
			return
		case <-l.lead.Done():
			return
		case <-arrivals:
			l.awake()
		case commit := <-l.lead.Commits():
			l.awake()
			l.committed(commit)
		case read := <-l.reads:
			l.awake()
			read(l.core, l.seen)
			l.drainReads()
		case <-l.policy.nudges:
			l.awake()
		case <-timer.C:
			l.awake()
			l.wakeAt = time.Time{}
			l.step(core.Woken{})
		}
		l.drain()
		l.allocate()
		l.propose()
		l.flush()
		l.setTimer(timer)
		if l.inbox.Waiting() > 0 {
			l.inbox.Rouse()
		}
		l.busy()
	}
}

// introduce updates the registry's entry about this master, if it is out of date.
func (l *leader) introduce() {
	self := l.leading.listeners.record()
	if l.lead.State.Masters[l.config.ID] != self {
		l.lead.Propose(raftlog.Proposal{Command: registry.Command{
			At: time.Now(), Change: registry.SetMaster{ID: l.config.ID, Master: self},
		}})
	}
}

// awake notices when the loop did not run, because the process was stopped or had no processor time (R23). Waiting for
// the next event does not count; waking later than the timer was set does.
func (l *leader) awake() {
	l.round.Begin()
	now := time.Now()
	from := now
	if !l.wakeAt.IsZero() && now.After(l.wakeAt) {
		from = l.wakeAt
		if l.seen.After(from) {
			from = l.seen
		}
	}
	l.seen = now
	l.away(now.Sub(from))
}

// busy notices when a round took so long that events had to wait.
func (l *leader) busy() {
	now := time.Now()
	took := now.Sub(l.seen)
	l.seen = now
	l.metrics.rounds.Observe(took.Seconds())
	l.away(took)
}

func (l *leader) away(gap time.Duration) {
	if gap > l.heartbeat() {
		l.log.Warn().Stringer("gap", gap).Msg("this process did not run for a while; deadlines are moved")
		l.step(core.Away{Gap: gap})
	}
}

func (l *leader) heartbeat() time.Duration {
	if d := l.config.Core.HeartbeatInterval; d > 0 {
		return d
	}
	return time.Second
}

// drain handles what else is waiting, so that there is one allocation after a burst.
func (l *leader) drain() {
	for range batchMax {
		select {
		case commit := <-l.lead.Commits():
			l.committed(commit)
			continue
		default:
		}
		if len(l.backlog) > backlogMax || time.Since(l.seen) > batchTimeMax {
			return
		}
		arrived, waits := l.inbox.Next()
		if !waits {
			return
		}
		l.take(arrived)
	}
}

// drainReads answers reads that are waiting, as long as others need not wait for that.
func (l *leader) drainReads() {
	for time.Since(l.seen) < batchTimeMax {
		select {
		case read := <-l.reads:
			read(l.core, l.seen)
		default:
			return
		}
	}
}

// take registers a new stream before the core gets its first event, and forgets a stream after its last event.
func (l *leader) take(arrived arrival) {
	switch what := arrived.what.(type) {
	case core.SchedulerOpened:
		l.peers.schedulers[what.Conn] = arrived.scheduler
	case core.AgentOpened:
		l.peers.agents[what.Conn] = arrived.agent
	case core.Requested:
		for i := range cap(arrived.replies) {
			l.peers.requests[what.ID+core.RequestID(i)] = arrived.replies
		}
	default: // other events open no stream
	}
	words := l.core.WordsInVain()
	l.peers.refused = 0
	l.stepCame(arrived.what, arrived.at)
	switch what := arrived.what.(type) {
	case core.SchedulerClosed:
		delete(l.peers.schedulers, what.Conn)
	case core.AgentClosed:
		delete(l.peers.agents, what.Conn)
	case core.SchedulerCalled:
		if stream := l.peers.schedulers[what.Conn]; stream != nil {
			stream.by.Charge(intake.CallsExpense, intake.RefusalPrice(l.peers.refused, len(what.Calls), arrived.bytes))
		}
	case core.AgentCalled:
		if stream := l.peers.agents[what.Conn]; stream != nil {
			stream.by.Charge(intake.CallsExpense, intake.RefusalPrice(int(l.core.WordsInVain()-words), len(what.Calls), arrived.bytes))
		}
	default: // other events close no stream
	}
	if arrived.taken != nil {
		arrived.taken()
	}
}

func (l *leader) committed(commit raftlog.Commit) {
	l.step(core.Committed{Index: commit.Index, Commands: commit.Commands})
	l.stores.tell(commit)
}

func (l *leader) step(what core.Happening) { l.stepCame(what, time.Time{}) }

func (l *leader) stepCame(what core.Happening, came time.Time) {
	effects := l.core.Step(core.Event{At: time.Now(), Came: came, What: what})
	l.noteChanges()
	l.perform(effects)
	l.giveUp()
}

// noteChanges passes on what the core's last step has changed, to those who watch and to the metrics.
func (l *leader) noteChanges() {
	changes := l.core.Changes()
	l.changes.Append(changes)
	l.tally.Count(changes)
}

// chargeFor counts refused calls, and charges the sender for answers about tasks that do not exist.
func (l *leader) chargeFor(stream *schedulerStream, event protocol.SchedulerEvent) {
	switch event := event.(type) {
	case protocol.Refused:
		l.peers.refused++
	case protocol.Update:
		if event.Status.State == api.TaskUnknown {
			stream.by.Charge(intake.CallsExpense, intake.UnknownPrice)
		}
	default: // other events answer calls that have a price, or come unasked
	}
}

func (l *leader) perform(effects []core.Effect) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case core.ToScheduler:
			if stream := l.peers.schedulers[effect.Conn]; stream != nil {
				l.chargeFor(stream, effect.Event)
				l.peers.queued(stream, stream.Put(effect.Event), core.SchedulerClosed{Conn: effect.Conn, Why: tookTooLittle})
			}
		case core.CloseScheduler:
			if stream := l.peers.schedulers[effect.Conn]; stream != nil {
				stream.Close(effect.Err)
			}
		case core.ToAgent:
			if stream := l.peers.agents[effect.Conn]; stream != nil {
				l.peers.queued(stream, stream.Put(agentEvent{effect.Session, effect.Event}), core.AgentClosed{Conn: effect.Conn, Why: tookTooLittle})
			}
		case core.SendSecrets:
			if stream := l.peers.agents[effect.Conn]; stream != nil {
				event := agentEvent{effect.Session, vault.Open(l.config.Trust.Key, effect)}
				l.peers.queued(stream, stream.Put(event), core.AgentClosed{Conn: effect.Conn, Why: tookTooLittle})
			}
		case core.CloseAgent:
			if stream := l.peers.agents[effect.Conn]; stream != nil {
				stream.Close(effect.Err)
			}
		case core.Propose:
			l.backlog = append(l.backlog, effect.Command)
		case core.Reply:
			if reply := l.peers.requests[effect.ID]; reply != nil {
				reply <- effect // the channel has room for all replies
				delete(l.peers.requests, effect.ID)
			}
		case core.Served:
			l.served = append(l.served, effect.Since...)
		case core.Log:
			l.report(effect)
		}
	}
}

// tookTooLittle is the reason that the core is given when a stream is closed because its queue was full.
const tookTooLittle = "it took its events too slowly"

// giveUp tells the core which streams were closed because their queues were full. It does so before the core handles
// anything else, because their readers also see the end of the streams but do not know the reason.
func (l *leader) giveUp() {
	for len(l.peers.slow) > 0 {
		closed := l.peers.slow[0]
		l.peers.slow = l.peers.slow[1:]
		l.take(arrival{what: closed})
	}
}

// allocate lets the core offer what is free, including what is freed by closing streams whose queues are full.
func (l *leader) allocate() {
	for {
		began := time.Now()
		effects := l.core.Allocate(began)
		l.metrics.allocates.Observe(time.Since(began).Seconds())
		l.noteChanges()
		l.perform(effects)
		if len(l.peers.slow) == 0 {
			return
		}
		l.giveUp()
	}
}

func (l *leader) flush() {
	l.peers.flush()
	if len(l.served) > 0 {
		l.metrics.returned(l.served)
		l.served = l.served[:0]
	}
}

func (l *leader) report(effect core.Log) {
	level := zerolog.InfoLevel
	switch {
	case effect.Warn:
		level = zerolog.WarnLevel
	case effect.Debug:
		level = zerolog.DebugLevel
	}
	event := l.log.WithLevel(level)
	for _, f := range effect.Fields {
		event = event.Str(f.Name, f.Value)
	}
	event.Msg(effect.Message)
}

// propose hands commands to the quorum in order. A command for which the quorum has no room stays first in the backlog,
// so that a later command never overtakes it.
func (l *leader) propose() {
	for full := false; len(l.backlog) > 0 && !full; {
		proposals := make([]raftlog.Proposal, len(l.backlog))
		refused := make(map[int]*api.Error)
		for i, command := range l.backlog {
			proposals[i] = raftlog.Proposal{Command: command, Done: func(_ registry.Result, err error) {
				if kind := api.KindOf(err); err != nil && (kind == api.Limit || kind == api.Invalid) { // before Propose returns
					refused[i] = wire.Error(err)
				}
			}}
		}
		taken := l.lead.Propose(proposals...)
		commands := l.backlog[:taken]
		l.backlog, full = l.backlog[taken:], taken < len(proposals)
		for _, i := range slices.Sorted(maps.Keys(refused)) {
			l.unwritable(commands[i], refused[i])
		}
	}
	if len(l.backlog) == 0 {
		l.backlog = nil
	}
}

// unwritable tells the core that a change can't be written to the Raft log, because nobody else will (R34). The core learns all other
// results from commits, in the order of the log. If a command is lost, its leadership has ended.
func (l *leader) unwritable(command registry.Command, err *api.Error) {
	l.log.Warn().Err(err).Str("change", fmt.Sprintf("%T", command.Change)).Msg("a change can't be written to the Raft log")
	l.step(core.ProposalRefused{Client: command.Client, Counter: command.Counter, Err: err})
}

func (l *leader) setTimer(timer *time.Timer) {
	wake := l.core.Wake()
	if wake.Equal(l.wakeAt) {
		return
	}
	l.wakeAt = wake
	if wake.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(time.Until(wake), pause.Soonest))
}

// broken ends a leadership whose core has broken a rule of its own, and logs the evidence. The process and the other
// masters continue (R18).
func (l *leader) broken() {
	evidence := recover()
	if evidence == nil {
		return
	}
	var rule invariant.Broken
	if err, ok := evidence.(error); ok && errors.As(err, &rule) {
		evidence = rule.Evidence
	}
	l.log.Error().Str("evidence", fmt.Sprint(evidence)).Str("stack", string(debug.Stack())).Msg("the core is broken")
	l.metrics.broken.Inc()
	l.lead.End(fmt.Sprintf("the core is broken: %v", evidence))
}

// stopServing sends new callers to the next leader, and ends the calls that wait for this one.
func (l *leader) stopServing() {
	if l.leading.now.CompareAndSwap(l, nil) { // once: after a stuck loop was abandoned, its end comes here again
		l.serving.end()
	}
}

// abandon gives up this leadership although its loop is stuck. Otherwise Raft would continue its heartbeats, and no
// other leader would be elected (R36).
func (l *leader) abandon(evidence string) {
	l.log.Error().Stringer("longest", l.longestRound()).Str("stack", evidence).Msg("the leader's loop is stuck")
	l.metrics.stuck.Inc()
	l.lead.End("its loop is stuck")
	l.stopServing()
}

// longestRound is how long a round of the loop may take: three session timeouts.
func (l *leader) longestRound() time.Duration {
	timeout := l.config.Core.SessionTimeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	return 3 * timeout
}

// close ends every stream and answers all requests that wait.
func (l *leader) close() {
	l.stopServing()
	err := l.leading.notLeader("session")
	l.peers.close(err, api.E("master.request", api.Unknown, l.config.ID, errors.New("the leadership ended before the outcome was known")))
}
