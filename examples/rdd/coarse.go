package rdd

import (
	"context"
	"encoding/gob"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/taskset"
)

// coarse is the mode [Coarse]: executors have their cpus for as long as they live, and each of their slots asks the
// driver for one task of a job after another.
type coarse struct{ c *Context }

// slot runs one task at a time. It asks for the next one, and gets the answer when there is one.
type slot struct {
	asked chan *order // nil: it runs a task
	task  *task
}

// question is what an executor asks its driver: this is how my last task has ended; what is the next one?
type question struct {
	Place   plan.Place
	Address string // address at which the executor serves what it holds
	Slot    int    // in mode coarse: the number of the slot that asks
	Task    string // in mode fine: the attempt that the question is about
	Report  *report
}

// scheduler keeps one task running on each of several agents: an executor, which works until the driver does not want
// it any more.
func (m *coarse) scheduler(self *api.Executor) (framework.Scheduler, error) {
	data, err := pack(m.c.setup())
	if err != nil {
		return nil, err
	}
	set := taskset.New(taskset.Config{
		Apart: api.ByAgent, Pause: 200 * time.Millisecond,
		Updated: func(_ string, status api.Status) { m.hear(status) },
	})
	return set, set.Scale("executor", taskset.Item{Task: api.Task{
		Resources: api.Scalars(float64(m.c.config.Slots), m.c.config.MemoryMB), Executor: self, Data: data,
	}}, m.c.config.Executors)
}

// hear takes an executor for dead when its task has ended, or when nobody knows what has become of the task.
func (m *coarse) hear(status api.Status) {
	if status.State.Terminal() || status.State == api.TaskUnreachable {
		m.c.mu.Lock()
		defer m.c.mu.Unlock()
		m.c.bury(plan.Place(status.Task), status)
	}
}

func (m *coarse) routes(mux *http.ServeMux) { mux.HandleFunc("/next", m.serveNext) }

// serveNext answers a question as soon as there is a task for it.
func (m *coarse) serveNext(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := gob.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o, err := m.await(r.Context(), q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusGone)
		return
	}
	_ = gob.NewEncoder(w).Encode(o) // if the order is lost, the slot asks again
}

var errGone = errors.New("this executor is taken for dead")

// await waits for an order.
func (m *coarse) await(ctx context.Context, q question) (*order, error) {
	asked, err := m.ask(q)
	if err != nil {
		return nil, err
	}
	select {
	case o, more := <-asked:
		if !more {
			return nil, errGone
		}
		return o, nil
	case <-ctx.Done():
		m.silence(q, asked)
		return nil, ctx.Err()
	}
}

// ask is a slot's question for a task, with the report of its last one. The returned channel brings the order; it is
// closed when there will be none.
func (m *coarse) ask(q question) (<-chan *order, error) {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[q.Place] {
		return nil, errGone
	}
	p := c.places[q.Place]
	if p == nil {
		p = &place{name: q.Place, agent: api.AgentID(q.Place), address: q.Address, slots: map[int]*slot{}}
		c.places[q.Place], c.stillborn = p, 0
	}
	s := p.slots[q.Slot]
	if s == nil {
		s = &slot{}
		p.slots[q.Slot] = s
	}
	if s.asked != nil {
		close(s.asked) // the slot asks again because its connection broke
	}
	if q.Report != nil {
		c.told(*q.Report)
	}
	if t := s.task; t != nil && c.tasks[t.id] == t { // the order was lost on its way
		c.abandon(t)
	}
	s.asked, s.task = make(chan *order, 1), nil
	asked := s.asked
	c.advance()
	return asked, nil
}

// silence withdraws a question whose asker has gone.
func (m *coarse) silence(q question, asked <-chan *order) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if p := m.c.places[q.Place]; p != nil && p.slots[q.Slot].asked == asked {
		p.slots[q.Slot].asked = nil
	}
}

// handOut gives queued tasks to slots. A free executor is to its tasks what an agent's offer is to a framework. So
// package locality can be used for delay scheduling as it is: each task goes where its block is, or waits a little for
// that.
func (m *coarse) handOut() time.Duration {
	for _, name := range slices.Sorted(maps.Keys(m.c.places)) {
		p := m.c.places[name]
		free := p.free()
		if len(free) == 0 {
			continue
		}
		offer := api.Offer{
			ID: api.OfferID(name), Agent: p.agent, Hostname: string(name), Resources: api.Scalars(float64(len(free)), 0),
		}
		for _, answer := range m.c.delay.Offers([]api.Offer{offer}) {
			for _, operation := range answer.Operations {
				for i, t := range operation.Tasks {
					m.give(p.slots[free[i]], m.c.start(string(t.ID), p))
				}
			}
		}
	}
	return 0
}

// giveUp lets the task run to its end, because its executor has the cpu anyway. Its report changes nothing.
func (m *coarse) giveUp(*task) {}

// give gives a task to a slot.
func (m *coarse) give(s *slot, t *task) {
	s.task = t
	s.asked <- m.c.order(t) // capacity 1, and it is empty
	s.asked = nil
}

// free returns the numbers of the waiting slots, in order.
func (p *place) free() []int {
	var free []int
	for _, number := range slices.Sorted(maps.Keys(p.slots)) {
		if p.slots[number].asked != nil {
			free = append(free, number)
		}
	}
	return free
}
