package framework

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

// job is one call of the user's code.
type job struct {
	callback core.Callback
	turn     *turn // for a CallTurn: the function to run
	ctx      context.Context
}

// result is a job that has run.
type result struct {
	job     job
	err     error
	called  bool          // false: the job was skipped
	took    time.Duration // how long the call took, if that is measured
	answers []api.Answer  // what Offers returned
}

// errSkipped says that a job was not called, because its session had ended or the function had been called off.
var errSkipped = errors.New("the session has ended")

// errBroken marks an error that comes from a panic of the user's code.
var errBroken = errors.New("a callback must not panic")

// callbacks is the goroutine that calls the user's code.
type callbacks struct {
	scheduler Scheduler
	client    *Client
	measure   bool     // somebody wants to know how long calls take
	jobs      chan job // capacity HandedMax: no send ever blocks
	// begunOffers is the number of the call of Offers that began last, for callers of the Client.
	begunOffers atomic.Uint64
	// goroutine is the name of the goroutine that calls the user's code, so that a caller on that goroutine can be kept
	// from waiting for itself.
	goroutine atomic.Pointer[string]
}

func newCallbacks(scheduler Scheduler, client *Client, measure bool) *callbacks {
	return &callbacks{scheduler: scheduler, client: client, measure: measure,
		jobs: make(chan job, core.HandedMax)}
}

// hand queues a job behind those that were handed over before.
func (c *callbacks) hand(j job) { c.jobs <- j }

func (c *callbacks) run() {
	me := goroutine()
	c.goroutine.Store(&me)
	var current job
	var began time.Time
	closed := false
	// A panic of the user's code ends Run. So does user code that ends its goroutine, as testing.T.FailNow does. In
	// both cases each job still gets its result.
	defer func() {
		if !closed {
			c.tell(result{job: current, err: broken(current.callback.Name(), recover()), called: true, took: c.since(began)})
			c.run()
		}
	}()
	for current = range c.jobs {
		began = c.now()
		answers, err := c.call(current)
		c.tell(result{current, err, !errors.Is(err, errSkipped), c.since(began), answers})
	}
	closed = true
}

// tell passes a result to the loop. It goes the way of what callbacks ask for: behind what its own callback has asked
// for, and before what the next one asks for, which may build on it. (The ID of a task that was DROPPED is free in the
// callback after the one that was told so.)
func (c *callbacks) tell(result result) {
	_ = c.client.askLoop(result.job.callback.Name(), func(l *loop) { l.hearResult(result) }) // it fails when Run has ended
}

// now returns the time if call times are measured. Otherwise it returns the zero time, and costs nothing.
func (c *callbacks) now() (now time.Time) {
	if c.measure {
		now = time.Now()
	}
	return now
}

func (c *callbacks) since(began time.Time) (took time.Duration) {
	if c.measure {
		took = time.Since(began)
	}
	return took
}

// call calls the user's code, unless the job's session has ended.
func (c *callbacks) call(j job) ([]api.Answer, error) {
	if j.ctx.Err() != nil && !core.IsAlwaysMade(j.callback) {
		return nil, errSkipped
	}
	ctx := j.ctx
	switch callback := j.callback.(type) {
	case core.CallOffers:
		c.begunOffers.Store(callback.Number)
		return c.scheduler.Offers(ctx, callback.Offers), nil
	case core.CallUpdate:
		return nil, c.scheduler.Update(ctx, callback.Status)
	case core.CallSubscribed:
		return nil, c.scheduler.(Subscriber).Subscribed(ctx, c.client)
	case core.CallTurn:
		return nil, j.turn.run()
	case core.CallSettled:
		c.scheduler.(Settler).Settled(ctx)
	case core.CallRescinded:
		c.scheduler.(Rescinder).Rescinded(ctx, callback.Offers, callback.Why)
	case core.CallInverseOffers:
		c.scheduler.(InverseOfferee).InverseOffers(ctx, callback.Offers)
	case core.CallMessage:
		c.scheduler.(Messenger).Message(ctx, callback.Agent, callback.Executor, callback.Data)
	case core.CallExecutorLost:
		c.scheduler.(ExecutorWatcher).ExecutorLost(ctx, callback.Agent, callback.Executor, callback.Message)
	case core.CallAgentLost:
		c.scheduler.(AgentWatcher).AgentLost(ctx, callback.Agent, callback.Gone, callback.Why)
	case core.CallOperationDone:
		c.scheduler.(OperationWatcher).OperationDone(ctx, callback.Agent, callback.Operation, asError(callback.Err))
	case core.CallRefused:
		c.scheduler.(RefusalWatcher).Refused(ctx, callback.Err.Op, callback.Err)
	}
	return nil, nil
}

// interestsOf returns which optional interfaces the scheduler implements.
func interestsOf(scheduler Scheduler) core.Interests {
	return interestIf[Subscriber](scheduler, core.InSubscribed) |
		interestIf[Settler](scheduler, core.InSettled) |
		interestIf[Rescinder](scheduler, core.InRescinded) |
		interestIf[InverseOfferee](scheduler, core.InInverseOffers) |
		interestIf[Messenger](scheduler, core.InMessages) |
		interestIf[ExecutorWatcher](scheduler, core.InExecutorLost) |
		interestIf[AgentWatcher](scheduler, core.InAgentLost) |
		interestIf[OperationWatcher](scheduler, core.InOperations) |
		interestIf[RefusalWatcher](scheduler, core.InRefused)
}

func interestIf[Optional any](scheduler Scheduler, interest core.Interests) core.Interests {
	if _, has := scheduler.(Optional); has {
		return interest
	}
	return 0
}

// asError turns a nil *api.Error into a nil error; a plain conversion would give an error that is not nil.
func asError(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// outcome returns what the core needs to know of a result.
func (r result) outcome() core.Outcome {
	_, subscribed := r.job.callback.(core.CallSubscribed)
	_, update := r.job.callback.(core.CallUpdate)
	switch {
	case errors.Is(r.err, errBroken):
		return core.Broken
	case errors.Is(r.err, errSkipped):
		return core.Skipped
	case subscribed && r.job.ctx.Err() != nil: // its error concerns a session that has ended
		return core.Skipped
	case r.err == nil:
		return core.Handled
	case update && errors.Is(r.err, ErrLater):
		return core.Later
	}
	return core.Failed
}

func broken(name string, cause any) error {
	if cause == nil {
		return fmt.Errorf("%s ended its goroutine (runtime.Goexit, or FailNow of a test): %w", name, errBroken)
	}
	return fmt.Errorf("%s panicked: %v: %w\n%s", name, cause, errBroken, debug.Stack())
}
