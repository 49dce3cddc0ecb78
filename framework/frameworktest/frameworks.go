package frameworktest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/words"
)

// Framework is the process of a scheduler in the story. It runs on its own host. The host has the name of the
// framework, from the second start on with a number appended.
type Framework struct {
	handle    *Handle
	host      string
	config    framework.Config
	scheduler framework.Scheduler
	stuck     bool // it does not end; only the story's goroutine uses it
	life      runner

	mu     sync.Mutex
	id     api.FrameworkID
	client *framework.Client
	told   map[api.TaskID][]api.Status

	offered   int // number of offers so far
	rescinded int
}

// Start runs a scheduler in the cluster. It fills in Masters, Dialer, Listen and Logger of the config.
func (h *Handle) Start(config framework.Config, scheduler framework.Scheduler) *Framework {
	h.t.Helper()
	return h.StartContext(context.Background(), config, scheduler)
}

// StartContext is Start for a scheduler that ends when the context ends. Make the context inside the story.
func (h *Handle) StartContext(ctx context.Context, config framework.Config, scheduler framework.Scheduler) *Framework {
	h.t.Helper()
	f := &Framework{
		handle: h, host: h.hostFor(config.Name), config: config, scheduler: scheduler, id: config.ID, told: make(map[api.TaskID][]api.Status),
	}
	if len(f.config.Masters) == 0 {
		f.config.Masters = h.MasterAddresses()
	}
	if f.config.Dialer == nil {
		f.config.Dialer = func(ctx context.Context, address string) (net.Conn, error) {
			return h.network.dial(ctx, f.host, address)
		}
	}
	if f.config.Listen == nil {
		f.config.Listen = func(_ context.Context, address string) (net.Listener, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return h.network.listen(f.host, port)
		}
	}
	if f.config.Logger == nil {
		f.config.Logger = h.logs.slog(f.host)
	}
	h.frameworks = append(h.frameworks, f)
	f.life.beginRun(ctx, h, f.host, func(ctx context.Context) error {
		h.journal.noteScheduler(f.ID(), true)
		defer func() { h.journal.noteScheduler(f.ID(), false) }()
		return framework.Run(ctx, f.config, &recorder{framework: f, known: make(map[api.TaskID]bool)})
	})
	return f
}

// ID returns the framework's ID; "" before its first session.
func (f *Framework) ID() api.FrameworkID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// Scheduler returns the scheduler that it runs.
func (f *Framework) Scheduler() framework.Scheduler { return f.scheduler }

// Teardown removes the framework with its tasks, as soon as it has a session, and waits until Run has returned. It
// returns what Run returned.
func (f *Framework) Teardown() error {
	f.handle.t.Helper()
	if err := f.Client().Teardown(); err != nil {
		return err
	}
	return f.Await()
}

// Stop ends the scheduler in order and returns what Run returned.
func (f *Framework) Stop() error {
	f.endScheduler()
	return f.life.err
}

// endScheduler ends the scheduler and waits for that. If a callback ignores its context, it is reported, once: it holds
// up the end of the test, because a bubble ends only when all its goroutines have ended.
func (f *Framework) endScheduler() {
	f.life.stop()
	if f.stuck {
		return
	}
	select {
	case <-f.life.ended:
	case <-time.After(awaitMax):
		f.stuck = true
		f.handle.failStory("the context of %s has ended %v ago, and its callback has not returned, as it must\n%s",
			f.host, awaitMax, f.handle.callbacks.blocked(f.host))
	}
}

// Kill ends the scheduler as kill -9 does: nobody hears from it any more.
func (f *Framework) Kill() {
	f.handle.network.crash(f.host)
	f.handle.journal.forgetScheduler(f.ID())
	f.endScheduler()
	f.handle.network.crash(f.host)
}

// Isolate cuts the scheduler off from all others.
func (f *Framework) Isolate() { f.handle.network.isolate(f.host, true) }

// Rejoin undoes Isolate.
func (f *Framework) Rejoin() { f.handle.network.isolate(f.host, false) }

// Ended is closed when Run has returned. Unlike the methods it may be waited for in any goroutine of the story; Stop
// then returns what Run returned.
func (f *Framework) Ended() <-chan struct{} { return f.life.ended }

// Await waits until Run has returned, and returns what it returned. The test fails when that takes
// more than a day.
func (f *Framework) Await() error {
	f.handle.t.Helper()
	f.handle.AwaitFor(day, "the framework "+f.host+" to end", func() bool { return !f.life.runs() })
	return f.life.err
}

// Frameworks lists the schedulers that run, in the order of their start.
func (h *Handle) Frameworks() []*Framework {
	return slices.DeleteFunc(slices.Clone(h.frameworks), func(f *Framework) bool { return !f.life.runs() })
}

// AwaitEnded waits until every framework has ended well. The test fails if one ends with an error.
func (h *Handle) AwaitEnded() {
	h.t.Helper()
	for _, f := range h.frameworks {
		if err := f.Await(); err != nil {
			h.failStory("%s: %v", f.host, err)
		}
	}
}

// describeFramework says whether the framework runs and, if not, why.
func (f *Framework) describeFramework() string {
	if f.life.runs() {
		return "runs; its tasks by their last state: " + f.tallyStates()
	}
	return fmt.Sprintf("Run returned %v", f.life.err)
}

// Again starts a scheduler as the successor of one that has ended, with the same configuration and the same ID.
func (f *Framework) Again(scheduler framework.Scheduler) *Framework {
	f.handle.t.Helper()
	config := f.config
	config.ID, config.Dialer, config.Listen, config.Logger = f.ID(), nil, nil, nil
	return f.handle.Start(config, scheduler)
}

// Statuses returns what the scheduler was told of a task, including repeats.
func (f *Framework) Statuses(task api.TaskID) []api.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told[task])
}

// States returns the last state that the scheduler was told of each task.
func (f *Framework) States() map[api.TaskID]api.TaskState {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := make(map[api.TaskID]api.TaskState, len(f.told))
	for id, list := range maps.All(f.told) {
		states[id] = list[len(list)-1].State
	}
	return states
}

// Count returns how many tasks are in one of the states, according to what the scheduler was told last.
func (f *Framework) Count(states ...api.TaskState) int {
	n := 0
	for _, state := range maps.All(f.States()) {
		if slices.Contains(states, state) {
			n++
		}
	}
	return n
}

// AwaitState waits until the scheduler was told that the task is in this state, and returns that status.
func (f *Framework) AwaitState(task api.TaskID, state api.TaskState) api.Status {
	f.handle.t.Helper()
	var found api.Status
	f.handle.Await(string(task)+" to be "+state.String(), func() bool {
		for _, status := range f.Statuses(task) {
			if status.State == state {
				found = status
				return true
			}
		}
		return false
	})
	return found
}

// AwaitCount waits until at least n tasks are in one of the states.
func (f *Framework) AwaitCount(n int, states ...api.TaskState) {
	f.handle.t.Helper()
	f.handle.Await(words.Count(n, "task")+" of "+f.host+" to be "+join(states), func() bool { return f.Count(states...) >= n })
}

// recorder stands between the SDK and the scheduler, and writes into the journal what passes. It implements the
// optional interfaces that the scheduler implements.
type recorder struct {
	framework *Framework
	known     map[api.TaskID]bool // tasks that this process has heard of
	term      api.Term            // term of the newest offer
	goroutine string              // the goroutine that calls the scheduler; known from its first call on
}

// noteCall notes that a method of the scheduler is called, and returns the function that notes its end.
func (r *recorder) noteCall(method string) (end func()) {
	if r.goroutine == "" {
		r.goroutine = me()
	}
	return r.framework.handle.callbacks.begin(r.framework.host, method, r.goroutine)
}

var _ interface {
	framework.Scheduler
	framework.Subscriber
	framework.Settler
	framework.Rescinder
	framework.InverseOfferee
	framework.Messenger
	framework.ExecutorWatcher
	framework.AgentWatcher
	framework.OperationWatcher
	framework.RefusalWatcher
} = (*recorder)(nil)

func (r *recorder) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	defer r.noteCall("Offers")()
	r.framework.mu.Lock()
	r.framework.offered += len(offers)
	r.framework.mu.Unlock()
	r.inTerm(offers)
	answers := r.framework.scheduler.Offers(ctx, offers)
	r.framework.handle.journal.noteLaunches(offers, answers)
	for _, answer := range answers {
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				r.known[task.ID] = true
			}
		}
	}
	return answers
}

// inTerm checks promise 4 for offers: a scheduler that has been offered something in one term is offered nothing by a
// leader of an older term.
func (r *recorder) inTerm(offers []api.Offer) {
	for _, offer := range offers {
		term, ok := termOf(offer.ID)
		switch {
		case !ok || term.Before(r.term):
			r.framework.handle.journal.noteBroken("%s is offered %s after an offer of term %s (promise 4)", r.framework.host, offer.ID, r.term)
		default:
			r.term = term
		}
	}
}

// termOf returns the term in which the offer was made, by its ID: offer-TERM-NUMBER.
func termOf(id api.OfferID) (api.Term, bool) {
	parts := strings.Split(string(id), "-")
	if len(parts) != 3 {
		return api.Term{}, false
	}
	number, epoch, _ := strings.Cut(parts[1], "e")
	n, err := strconv.ParseUint(number, 10, 64)
	term := api.Term{Number: n}
	if epoch != "" && err == nil {
		term.Epoch, err = strconv.ParseUint(epoch, 10, 64)
	}
	return term, err == nil
}

func (r *recorder) Update(ctx context.Context, status api.Status) error {
	defer r.noteCall("Update")()
	f := r.framework
	err := f.scheduler.Update(ctx, status)
	f.handle.journal.noteStatus(status, err, !r.known[status.Task])
	r.known[status.Task] = true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[status.Task] = append(f.told[status.Task], status)
	return err
}

func (r *recorder) Subscribed(ctx context.Context, client *framework.Client) error {
	defer r.noteCall("Subscribed")()
	r.framework.mu.Lock()
	r.framework.id, r.framework.client = client.FrameworkID(), client
	r.framework.mu.Unlock()
	if s, ok := r.framework.scheduler.(framework.Subscriber); ok {
		return s.Subscribed(ctx, client)
	}
	return nil
}

func (r *recorder) Rescinded(ctx context.Context, offers []api.OfferID, why string) {
	r.framework.mu.Lock()
	r.framework.rescinded += len(offers)
	r.framework.mu.Unlock()
	pass(r, "Rescinded", func(s framework.Rescinder) { s.Rescinded(ctx, offers, why) })
}

func (r *recorder) Settled(ctx context.Context) {
	pass(r, "Settled", func(s framework.Settler) { s.Settled(ctx) })
}

func (r *recorder) InverseOffers(ctx context.Context, offers []api.InverseOffer) {
	pass(r, "InverseOffers", func(s framework.InverseOfferee) { s.InverseOffers(ctx, offers) })
}

func (r *recorder) Message(ctx context.Context, agent api.AgentID, executor api.ExecutorID, data []byte) {
	pass(r, "Message", func(s framework.Messenger) { s.Message(ctx, agent, executor, data) })
}

func (r *recorder) ExecutorLost(ctx context.Context, agent api.AgentID, executor api.ExecutorID, message string) {
	pass(r, "ExecutorLost", func(s framework.ExecutorWatcher) { s.ExecutorLost(ctx, agent, executor, message) })
}

func (r *recorder) AgentLost(ctx context.Context, agent api.AgentID, gone bool, why string) {
	pass(r, "AgentLost", func(s framework.AgentWatcher) { s.AgentLost(ctx, agent, gone, why) })
}

func (r *recorder) OperationDone(ctx context.Context, agent api.AgentID, operation api.OperationID, err error) {
	pass(r, "OperationDone", func(s framework.OperationWatcher) { s.OperationDone(ctx, agent, operation, err) })
}

func (r *recorder) Refused(ctx context.Context, call string, err error) {
	pass(r, "Refused", func(s framework.RefusalWatcher) { s.Refused(ctx, call, err) })
}

// pass passes an optional callback on to the scheduler, if it has that.
func pass[Optional any](r *recorder, method string, call func(Optional)) {
	defer r.noteCall(method)()
	if scheduler, has := r.framework.scheduler.(Optional); has {
		call(scheduler)
	}
}
