package rdd

import (
	"context"
	"encoding/gob"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	packing "github.com/tenderhq/tender/framework/pack"
)

// fine is the mode [Fine], and its scheduler. An executor is a task of Tender that has memory and no cpu: it serves
// what is cached. Each task of a job is another task of Tender in the same process, with a cpu out of an offer. Each
// executor has an executor ID of its own, so that no task is sent to the successor of one that has died.
type fine struct {
	c      *Context
	self   *api.Executor
	data   []byte            // what executors are told when they start
	client *framework.Client // nil before the first session

	at     map[api.AgentID]*fineExecutor
	open   map[api.TaskID]*fineExecutor // by the executor's task, as long as its end is not known
	number int                          // number of executors so far
	stated []api.Shape                  // what the masters were last told; nil: they must be told again
}

// fineExecutor is an executor that was started.
type fineExecutor struct {
	place *place
	self  *api.Executor
	tasks int       // tasks of jobs that were launched there and have not ended
	idle  time.Time // since when it has nothing to do and holds nothing; zero: it does
}

// newFine also returns the condition for delay scheduling: no executor may run more tasks at a time than it has slots.
func newFine(c *Context) (*fine, func(*packing.Bin, api.Task) bool) {
	m := &fine{c: c, at: map[api.AgentID]*fineExecutor{}, open: map[api.TaskID]*fineExecutor{}}
	return m, func(bin *packing.Bin, _ api.Task) bool { return len(bin.Tasks) < m.slotsAt(bin.Offer.Agent) }
}

func (m *fine) scheduler(self *api.Executor) (framework.Scheduler, error) {
	data, err := pack(m.c.setup())
	m.self, m.data = self, data
	return m, err
}

// Subscribed implements [framework.Subscriber].
func (m *fine) Subscribed(_ context.Context, client *framework.Client) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.client = client
	m.state()
	return nil
}

// slotsAt returns how many more tasks may run on the agent at the same time.
func (m *fine) slotsAt(agent api.AgentID) int {
	if e := m.at[agent]; e != nil {
		return m.c.config.Slots - e.tasks
	}
	return m.c.config.Slots
}

// ask returns what an executor takes on its agent, without any task of a job.
func (m *fine) ask() api.Resources {
	return m.self.Resources.Plus(api.Scalars(0, m.c.config.MemoryMB))
}

// wanted returns for what offers are useful now: a cpu for each queued task, on agents whose executor has a free slot,
// and, as long as there may be more executors, room for an executor and a task.
func (m *fine) wanted() []api.Shape {
	var agents []api.AgentID
	slots, queued := 0, m.c.delay.Queued("")
	for _, agent := range slices.Sorted(maps.Keys(m.at)) {
		if free := m.slotsAt(agent); free > 0 {
			agents, slots = append(agents, agent), slots+free
		}
	}
	shapes := []api.Shape{}
	if n := min(queued, slots); n > 0 {
		shapes = append(shapes, api.Shape{Resources: taskCPUs, Count: int64(n), Preferred: agents, OnlyPreferred: true})
	}
	if n := min(queued, m.c.config.Executors-len(m.at)); n > 0 {
		shapes = append(shapes, api.Shape{Resources: taskCPUs.Plus(m.ask()), Count: int64(n)})
	}
	return shapes
}

// state states the demand to the masters, if it has changed.
func (m *fine) state() {
	if wanted := m.wanted(); m.client != nil && !reflect.DeepEqual(wanted, m.stated) {
		m.stated = wanted
		_ = m.client.Demand(api.Demand{Role: m.c.config.Role, Shapes: wanted}) // an error: the framework has ended, as Run tells
	}
}

func (m *fine) handOut() time.Duration {
	wait := m.endIdle()
	m.state()
	return wait
}

// Offers implements [framework.Scheduler].
func (m *fine) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for _, bin := range packing.Bins(offers) {
		answer := api.Answer{Offers: []api.OfferID{bin.Offer.ID}}
		if tasks := m.fill(bin); len(tasks) > 0 {
			answer.Operations = []api.Operation{{Kind: api.OpLaunch, Tasks: tasks}}
			m.stated = nil // the masters take launches off the demand
		}
		answer.Filter.Refuse = m.c.delay.Refuse(bin)
		answers = append(answers, answer)
	}
	m.state()
	return answers
}

// giveUp kills the task of Tender, which gives its cpu back. Its end is handled like that of any other.
func (m *fine) giveUp(t *task) {
	_ = m.client.Kill(api.TaskID(t.id)) // an error: the framework has ended, and all its tasks
}

// fill puts queued tasks into an offer, together with an executor if there is none yet.
func (m *fine) fill(bin *packing.Bin) (tasks []api.Task) {
	agent := bin.Offer.Agent
	e := m.at[agent]
	if e == nil {
		if len(m.at) >= m.c.config.Executors {
			return nil
		}
		_, rest, ok := bin.Left.Carve(m.ask())
		if !ok {
			return nil
		}
		bin.Left = rest
	}
	if m.c.delay.Fill(bin); len(bin.Tasks) == 0 {
		return nil
	}
	if e == nil {
		var task api.Task
		e, task = m.begin(agent)
		tasks = append(tasks, task)
	}
	for _, task := range bin.Tasks {
		t := m.c.start(string(task.ID), e.place)
		t.order = m.c.order(t)
		e.tasks++
		m.open[task.ID] = e
		task.Executor = e.self
		tasks = append(tasks, task)
	}
	return tasks
}

// begin makes an executor for an agent, and returns the task to launch for it.
func (m *fine) begin(agent api.AgentID) (*fineExecutor, api.Task) {
	m.number++
	name := fmt.Sprint("executor-", m.number)
	self := *m.self
	self.ID = api.ExecutorID(name)
	e := &fineExecutor{self: &self, place: &place{name: plan.Place(name), agent: agent}}
	task := api.Task{ID: api.TaskID(name), Resources: api.Scalars(0, m.c.config.MemoryMB), Executor: &self, Data: m.data}
	m.at[agent], m.open[task.ID], m.c.places[e.place.name] = e, e, e.place
	return e, task
}

// dismiss gives up an executor and everything that runs there.
func (m *fine) dismiss(e *fineExecutor) {
	if m.at[e.place.agent] != e {
		return
	}
	delete(m.at, e.place.agent)
	for _, id := range slices.Sorted(maps.Keys(m.open)) {
		if m.open[id] == e {
			_ = m.client.Kill(id) // an error: the framework has ended, and all its tasks
		}
	}
	_ = m.client.Shutdown(e.place.agent, e.self.ID) // likewise
}

// idleMost is how long an executor is kept that has nothing to do and holds nothing.
const idleMost = 10 * time.Second

// endIdle ends executors that nobody needs, and returns when to look again.
func (m *fine) endIdle() (again time.Duration) {
	for _, agent := range slices.Sorted(maps.Keys(m.at)) {
		e := m.at[agent]
		switch {
		case e == nil: // it has just been ended with another
		case len(m.c.jobs) > 0 || e.tasks > 0 || m.c.books.Holds(e.place.name):
			e.idle = time.Time{}
		case e.idle.IsZero():
			e.idle = time.Now()
			again = sooner(again, idleMost)
		case time.Since(e.idle) >= idleMost:
			m.dismiss(e)
			m.c.lose(e.place.name)
		default:
			again = sooner(again, idleMost-time.Since(e.idle))
		}
	}
	return again
}

// Update implements [framework.Scheduler].
func (m *fine) Update(_ context.Context, status api.Status) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	e := m.open[status.Task]
	lost := status.State == api.TaskUnreachable || status.State == api.TaskUnknown
	switch {
	case !status.State.Terminal() && !lost:
		if e == nil || m.at[e.place.agent] != e { // it was given up, and is back
			return m.client.Kill(status.Task)
		}
		return nil
	case e == nil:
		return nil
	case status.State == api.TaskUnreachable: // it is killed when it comes back
		_ = m.client.Kill(status.Task) // an error: the framework has ended, and all its tasks
	}
	delete(m.open, status.Task)
	if plan.Place(status.Task) == e.place.name {
		m.dismiss(e)
		m.c.bury(e.place.name, status)
		return nil
	}
	e.tasks--
	m.ended(status)
	m.c.advance()
	return nil
}

// ended handles the end of a task of Tender that has run a task of a job. If that task has reported, it is done
// already.
func (m *fine) ended(status api.Status) {
	t := m.c.tasks[string(status.Task)]
	switch {
	case t == nil:
	case m.c.running(t.job) && (status.State == api.TaskError || status.State == api.TaskFailed && status.Reason == api.ReasonNone):
		m.c.told(report{ID: t.id, Error: fmt.Sprintf("%s: %s", status.State, status.Message), Cached: t.place.cached})
	default: // lost with its executor, killed for others, or never begun
		m.c.abandon(t)
	}
}

func (m *fine) routes(mux *http.ServeMux) {
	mux.HandleFunc("/order", m.answer(m.order))
	mux.HandleFunc("/report", m.answer(m.report))
}

// answer serves a question of a task.
func (m *fine) answer(find func(question) *order) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := gob.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.c.mu.Lock()
		o := find(q)
		m.c.mu.Unlock()
		if o == nil {
			http.Error(w, errGone.Error(), http.StatusGone)
			return
		}
		_ = gob.NewEncoder(w).Encode(o) // an answer that gets lost is asked for again
	}
}

// order returns what the task that asks has to do; nil: it was given up.
func (m *fine) order(q question) *order {
	t := m.c.tasks[q.Task]
	if t == nil || t.place == nil || t.place.name != q.Place {
		return nil
	}
	t.place.address, m.c.stillborn = q.Address, 0
	return t.order
}

// report handles the end of a task, once. The report of a task that was given up changes nothing.
func (m *fine) report(q question) *order {
	m.c.told(*q.Report)
	m.c.advance()
	return &order{}
}

// workers holds the executors in this process, in mode fine: one, except in tests.
type workers struct {
	mu    sync.Mutex
	ready map[api.ExecutorID]chan *worker // of one element, which who needs it takes out and puts back; empty: it does not serve
}

func (ws *workers) of(id api.ExecutorID) chan *worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ready[id] == nil {
		ws.ready[id] = make(chan *worker, 1)
	}
	return ws.ready[id]
}

// serve is the life of an executor: it serves what its tasks have cached and written, until it is killed.
func (ws *workers) serve(ctx context.Context, network Network, s setup, task *executor.Task) error {
	w, stop, err := newWorker(ctx, network, s, task.Sandbox)
	if err != nil {
		return err
	}
	defer w.client.http.CloseIdleConnections()
	defer stop()
	ready := ws.of(task.ExecutorID())
	ready <- w
	<-ctx.Done()
	<-ready
	return ctx.Err()
}

// runTask runs one task of a job for the executor in this process. If the executor has ended, or never starts, the
// driver is told so and kills this task too.
func (ws *workers) runTask(ctx context.Context, task *executor.Task) error {
	ready := ws.of(task.ExecutorID())
	var w *worker
	select {
	case w = <-ready:
		ready <- w
	case <-ctx.Done():
		return ctx.Err()
	}
	q := question{Place: plan.Place(task.ExecutorID()), Address: w.address, Task: string(task.ID)}
	o, err := w.ask(ctx, "/order", q)
	if err != nil {
		return err
	}
	told := w.perform(ctx, *o)
	q.Report = &told
	_, err = w.ask(ctx, "/report", q)
	return err
}
