package rdd

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
)

// place is an executor that lives. It asks for one task after the other.
type place struct {
	name    plan.Place
	address string
	asked   chan *order // where its answer is waited for; nil: it runs a task
	task    *task       // nil: it waits
	silent  int         // seconds since it was last heard of
}

// makeRoutes returns the handler for requests to the driver.
func (c *Context) makeRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/next", c.serveNext)
	mux.HandleFunc("/alive", func(_ http.ResponseWriter, r *http.Request) {
		var name plan.Place
		_ = gob.NewDecoder(r.Body).Decode(&name) // what can't be read is no sign of life
		c.mu.Lock()
		defer c.mu.Unlock()
		if p := c.places[name]; p != nil {
			p.silent = 0
		}
	})
	return mux
}

// serveNext answers a question as soon as there is a task for it.
func (c *Context) serveNext(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := gob.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked, err := c.askForTask(q)
	if err == nil {
		select {
		case o, more := <-asked:
			if more {
				_ = gob.NewEncoder(w).Encode(o) // if the order is lost, the executor asks again
				return
			}
			err = errGone
		case <-r.Context().Done():
			c.withdrawQuestion(q, asked)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusGone)
}

var errGone = errors.New("this executor is taken for dead")

// askForTask is an executor's question for a task, with the report of its last one. The returned channel brings the order; it
// is closed when there will be none.
func (c *Context) askForTask(q question) (<-chan *order, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[q.Place] {
		return nil, errGone
	}
	p := c.places[q.Place]
	if p == nil {
		p = &place{name: q.Place, address: q.Address}
		c.places[q.Place], c.stillborn = p, 0
	}
	if p.asked != nil {
		close(p.asked) // it asks again because its connection broke
	}
	if q.Report != nil {
		c.takeReport(*q.Report)
	}
	if t := p.task; t != nil && c.tasks[t.id] == t { // the order was lost on its way
		delete(c.tasks, t.id)
		c.delay.Ended(api.TaskID(t.id))
		t.job.plan.Abandon(t.plan, t.number)
	}
	p.asked, p.task, p.silent = make(chan *order, 1), nil, 0
	asked := p.asked
	c.advanceJobs()
	return asked, nil
}

// withdrawQuestion takes a question back whose asker has gone.
func (c *Context) withdrawQuestion(q question, asked <-chan *order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.places[q.Place]; p != nil && p.asked == asked {
		p.asked = nil
	}
}

// handOutTasks gives queued tasks to executors that wait. A free executor is to its tasks what an agent's offer is to a
// framework. So package locality can be used for delay scheduling as it is: each task goes where its block is, or waits
// a little for that.
func (c *Context) handOutTasks() {
	for _, name := range slices.Sorted(maps.Keys(c.places)) {
		p := c.places[name]
		if p.asked == nil {
			continue
		}
		offer := api.Offer{ID: api.OfferID(name), Agent: api.AgentID(name), Hostname: string(name), Resources: taskCPUs}
		for _, answer := range c.delay.Offers([]api.Offer{offer}) {
			for _, operation := range answer.Operations {
				for _, launched := range operation.Tasks {
					t := c.tasks[string(launched.ID)]
					t.place, p.task = p, t
					t.job.plan.Start(t.plan, t.number, p.name)
					p.asked <- c.makeOrder(t) // capacity 1, and it is empty
					p.asked = nil
				}
			}
		}
	}
}

// hearStatus takes an executor for dead when its task has ended, or when nobody knows what has become of the task.
func (c *Context) hearStatus(status api.Status) {
	if !status.State.Terminal() && status.State != api.TaskUnreachable {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := plan.Place(status.Task)
	if c.gone[name] {
		return
	}
	how := strings.TrimSpace(fmt.Sprintf("%s on %s is %s %s", name, status.Agent, status.State, status.Reason)) + ": " + status.Message
	byItself := (status.State == api.TaskFailed || status.State == api.TaskFinished) && !status.Reason.Blameless()
	if p := c.places[name]; p != nil {
		c.sayNotice("lost an executor, %s", how)
		if p.task != nil && byItself { // a machine that dies is not its task's fault
			c.countFailure(p.task, how)
		}
	} else if c.stillborn++; c.stillborn > stillbornMost {
		c.endAllJobs(fmt.Errorf("rdd: executors do not start; the last one, %s", how))
	}
	c.losePlace(name)
}

// stillbornMost is how many executors in a row may end before they have asked for a task; with one more all jobs are
// given up.
const stillbornMost = 10

// losePlace takes an executor out that has died, or may have.
func (c *Context) losePlace(name plan.Place) {
	c.gone[name] = true
	p := c.places[name]
	if p == nil {
		return
	}
	delete(c.places, name)
	if p.asked != nil {
		close(p.asked)
	}
	for id, t := range c.tasks {
		if t.place == p {
			delete(c.tasks, id)
			c.delay.Ended(api.TaskID(id))
		}
	}
	for _, j := range c.jobs {
		j.plan.Lose(name)
	}
	c.forgetPlace(name)
	c.advanceJobs()
}

// watchPlaces looks once a second at what only time shows: executors that are silent, and jobs without any.
func (c *Context) watchPlaces(ctx context.Context) {
	for pause(ctx, time.Second) == nil {
		if c.countSecond() {
			c.explainWait(ctx)
		}
	}
}

// silentMost is how many seconds an executor may be silent while there are jobs. Then it is killed, and another is
// started. waitedMost is for how many seconds jobs wait without an executor until people are told why.
const (
	silentMost = 20
	waitedMost = 5
)

// countSecond is called each second while the driver runs, so that one that was suspended does not take all others for
// silent. It reports whether it should be explained why there are no executors.
func (c *Context) countSecond() (explain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.jobs) == 0 {
		c.waited = 0
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(c.places)) {
		p := c.places[name]
		if p.silent++; p.silent <= silentMost {
			continue
		}
		c.sayNotice("lost an executor, %s: it is silent for %d s", name, silentMost)
		if c.client != nil {
			_ = c.client.Kill(api.TaskID(name)) // an error: the framework has ended, and all its tasks
		}
		c.losePlace(name)
	}
	if len(c.places) > 0 {
		c.waited = 0
		return false
	}
	c.waited++
	return c.waited == waitedMost || c.waited%60 == 0
}

// explainWait tells why there are no executors, as the masters know it.
func (c *Context) explainWait(ctx context.Context) {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	why := "no master has answered yet"
	if client != nil {
		ctx, end := context.WithTimeout(ctx, 5*time.Second)
		defer end()
		sentences, err := client.Explain(ctx)
		if len(sentences) > 0 {
			why = sentences[0]
		}
		if wanted, _ := client.Wanted(c.config.Role); len(wanted) == 0 {
			why = "they were launched, and have not asked for a task yet"
		} else if err != nil {
			why = err.Error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sayNotice("waiting for executors: %s", why)
}

// sayNotice tells people something.
func (c *Context) sayNotice(format string, args ...any) {
	if c.failure == nil {
		fmt.Fprintf(c.config.Notices, "rdd: "+format+"\n", args...)
	}
}
