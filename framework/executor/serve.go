package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/version"
)

const (
	// settleTimeout bounds how long the executor, at its end, waits for the agent's acknowledgements.
	settleTimeout = 2 * time.Second
	// endMargin is how much longer than the grace the end of the tasks may take.
	endMargin = time.Second
)

// Serve runs an executor until its agent orders it to end or ctx ends; both return nil, unless tasks did not end within
// their grace. It returns an error if the agent stayed away for too long or refuses this executor, and if Init failed.
// Before Serve returns, every task was killed and had its grace, and the agent had a moment to hear that they have
// ended.
func Serve(ctx context.Context, config Config, handler Handler) error {
	config, err := config.complete()
	if err != nil {
		return err
	}
	s := &server{
		config:   config,
		handler:  handler,
		log:      config.Logger,
		ledger:   newLedger(),
		order:    make(chan time.Duration, 1),
		recovery: config.RecoveryTimeout,
		ready:    config.Init == nil,
	}
	return s.runSessions(ctx)
}

// server is one running executor.
type server struct {
	config  Config
	handler Handler
	log     *slog.Logger
	ledger  *ledger
	order   chan time.Duration // the agent's order to end, with its grace; capacity 1

	// Only the goroutine of the sessions uses these.
	recovery time.Duration
	greeted  protocol.ExecutorSubscribed
	online   bool // the agent has answered in this session

	calls   sync.Mutex // held while the handler is called: one at a time
	closing bool       // no launches any more; guarded by calls
	ready   bool       // Init has ended, well or not; guarded by calls
	broken  error      // what Init returned; guarded by calls
	waiting []*Task    // tasks that wait for Init; guarded by calls

	watches sync.WaitGroup // the goroutines that check tasks
}

func (s *server) runSessions(ctx context.Context) error {
	sessions, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer s.watchChecks(sessions)()
	lost := make(chan error, 1)
	go func() { lost <- s.holdSessions(sessions) }()
	broken := make(chan error, 1)
	serving, stopHooks := context.WithCancel(sessions)
	var hooks sync.WaitGroup
	defer hooks.Wait()
	defer stopHooks()
	if s.config.Init != nil {
		hooks.Go(func() { s.runInit(serving, broken) })
	}
	if s.config.Idle != nil {
		hooks.Go(func() { s.watchIdle(serving) })
	}

	grace := DefaultGrace
	var reason, failed error
	select {
	case failed = <-broken:
	case <-ctx.Done():
	case grace = <-s.order:
	case reason = <-lost:
	}
	stopHooks()
	stuck := s.killAll(grace)
	if reason == nil {
		settle, done := context.WithTimeout(sessions, settleTimeout)
		s.ledger.awaitCondition(settle, s.ledger.allSettled)
		done()
		stop()
		if err := <-lost; err != nil { // the tasks have ended, so the error makes no difference
			s.log.Info("agent lost at the end", "error", err)
		}
	}
	stop()
	return errors.Join(reason, failed, stuck)
}

// killAll kills all tasks and waits until they have ended, for the grace and a little longer.
func (s *server) killAll(grace time.Duration) error {
	if grace <= 0 {
		grace = DefaultGrace
	}
	s.calls.Lock()
	s.closing = true
	s.calls.Unlock()
	s.endTasks(grace)
	late, done := context.WithTimeout(context.Background(), grace+endMargin)
	defer done()
	if s.ledger.awaitCondition(late, s.ledger.allEnded) {
		return nil
	}
	left := s.ledger.livingTasks()
	if len(left) == 0 {
		return nil
	}
	return api.E("executor.shutdown", api.Internal, left[0].ID, fmt.Errorf("%d of its tasks did not end within %v; do they heed their context?", len(left), grace))
}

// endTasks asks the handler to end all tasks.
func (s *server) endTasks(grace time.Duration) {
	ender, together := s.handler.(Ender)
	for _, task := range s.ledger.livingTasks() {
		if !together {
			s.killTask(task, grace)
			continue
		}
		s.ledger.noteKill(task.ID)
		s.calls.Lock()
		s.dropWaiting(task)
		s.calls.Unlock()
	}
	if together {
		s.calls.Lock()
		defer s.calls.Unlock()
		ender.End(grace)
	}
}

func (s *server) killTask(task *Task, grace time.Duration) {
	s.ledger.noteKill(task.ID)
	s.calls.Lock()
	defer s.calls.Unlock()
	if !s.dropWaiting(task) {
		s.handler.Kill(task, grace)
	}
}

// holdSessions holds one session after the other until ctx ends (then it returns nil), the agent refuses this executor, or
// the agent has been away for too long.
func (s *server) holdSessions(ctx context.Context) error {
	seen := time.Now()
	for tries := 0; ; tries++ {
		began := time.Now()
		err := s.holdSession(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that was asked for is no error
		}
		if final(err) {
			return err
		}
		now := time.Now()
		if s.online {
			s.online, seen = false, now
			if now.Sub(began) > protocol.BackoffLast {
				tries = 0
			}
		}
		s.log.Info("agent lost", "error", err)
		if away := now.Sub(seen); away >= s.recovery {
			return api.E("executor.session", api.Unavailable, s.config.Socket, fmt.Errorf("the agent was away for %v: %w", away.Round(time.Millisecond), err))
		}
		if !pause.For(ctx, min(protocol.Backoff(tries, rand.Int64N), s.recovery-now.Sub(seen))) {
			return nil
		}
	}
}

// final reports whether err means that the agent will never accept this executor.
func final(err error) bool {
	switch api.KindOf(err) {
	case api.Invalid, api.NotFound, api.Denied, api.Fenced, api.Removed, api.Unsupported:
		return true
	}
	return false
}

// holdSession holds one session until it ends.
func (s *server) holdSession(ctx context.Context) error {
	link, err := dial(ctx, s.config)
	if err != nil {
		return err
	}
	s.ledger.beginSession(protocol.SubscribeExecutor{
		ExecutorRef: api.ExecutorRef{Framework: s.config.Framework, Executor: s.config.ID},
		Token:       s.config.Token,
		Version:     version.String(),
	})
	late := time.AfterFunc(answerTimeout, func() {
		link.Leave(api.E("executor.subscribe", api.Unavailable, s.config.Socket, errNoAnswer))
	})
	var writer sync.WaitGroup
	writer.Go(func() { write(link, s.ledger) })
	err = read(link, func(event protocol.ExecutorEvent) {
		late.Stop()
		s.handleEvent(event)
	})
	late.Stop()
	s.ledger.endSession()
	link.Close()
	writer.Wait()
	return err
}

// handleEvent handles one event of the agent.
func (s *server) handleEvent(event protocol.ExecutorEvent) {
	switch event := event.(type) {
	case protocol.ExecutorSubscribed:
		s.greetAgent(event)
	case protocol.ExecutorLaunch:
		s.launchTask(event)
	case protocol.ExecutorKill:
		if task := s.ledger.taskNamed(event.Task); task != nil {
			s.killTask(task, event.Grace)
		}
	case protocol.ExecutorAcknowledged:
		s.ledger.dropAcknowledged(event.Task, event.Number)
	case protocol.ExecutorMessage:
		if messenger, ok := s.handler.(Messenger); ok {
			s.calls.Lock()
			defer s.calls.Unlock()
			messenger.Message(event.Data)
		}
	case protocol.ExecutorShutdown:
		select {
		case s.order <- event.Grace:
		default: // it is ending already
		}
	}
}

func (s *server) greetAgent(event protocol.ExecutorSubscribed) {
	s.greeted, s.online = event, true
	if event.RecoveryTimeout > 0 {
		s.recovery = event.RecoveryTimeout
	}
	s.log.Info("subscribed", "agent", event.Agent)
}

func (s *server) launchTask(event protocol.ExecutorLaunch) {
	task := &Task{
		Task:      event.Task,
		Sandbox:   event.Sandbox,
		Shared:    event.Shared,
		GPUs:      event.GPUs,
		Framework: s.config.Framework,
		Agent:     s.greeted.Agent,
		Hostname:  s.greeted.Hostname,
		secrets:   event.Secrets,
	}
	if !s.ledger.addTask(task) {
		return // a repeated launch
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	s.beginTask(task)
}
