// Command many runs a list of jobs, as many at once as the cluster has room for, and
// tries again what was lost. It is the second program of docs/write-a-framework.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
)

// need is what one task asks for.
var need = api.Scalars(0.5, 64)

// many is the scheduler. Its methods are called one at a time, so it needs no lock.
type many struct {
	client  *framework.Client
	waiting []api.Task              // tasks that no agent has
	flying  map[api.TaskID]api.Task // tasks that are launched and have not ended
	tries   int
	done    int
	end     context.CancelFunc
}

func newMany(jobs int, end context.CancelFunc) *many {
	m := &many{flying: map[api.TaskID]api.Task{}, end: end}
	for job := range jobs {
		m.enqueue(fmt.Sprintf("job-%d", job))
	}
	return m
}

// enqueue makes a task for a job. An ID is never used twice, so each try has an ID of its own.
func (m *many) enqueue(job string) {
	m.tries++
	m.waiting = append(m.waiting, api.Task{
		ID:        api.TaskID(fmt.Sprintf("%s.%d", job, m.tries)),
		Name:      job,
		Resources: need,
		Command:   &api.Command{Argv: []string{"sleep", "1"}},
	})
}

// Subscribed is called when a session begins, also after a failover.
func (m *many) Subscribed(_ context.Context, client *framework.Client) error {
	m.client = client
	return m.demand()
}

// demand states what is still wanted. Offers come only while something is, and fit it.
func (m *many) demand() error {
	var demand api.Demand
	if n := int64(len(m.waiting)); n > 0 {
		demand.Shapes = []api.Shape{{Resources: need, Count: n}}
	}
	return m.client.Demand(demand)
}

// Offers puts waiting tasks into the offers.
func (m *many) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	answers, left := pack.Pack(offers, m.waiting, pack.Options{
		Put: func(_ *pack.Bin, task api.Task) { m.flying[task.ID] = task },
	})
	m.waiting = left
	return answers
}

// Update is told what becomes of the tasks. A job whose task did not finish is tried again.
func (m *many) Update(_ context.Context, status api.Status) error {
	task, ok := m.flying[status.Task]
	if !ok || !status.State.Terminal() {
		return nil // the scheduler knows it already, or the task goes on
	}
	delete(m.flying, status.Task)
	if status.State == api.TaskFinished {
		m.done++
	} else {
		fmt.Println(status.Task, "is", status.State, status.Reason, status.Message)
		m.enqueue(task.Name)
	}
	if len(m.waiting)+len(m.flying) == 0 {
		fmt.Println(m.done, "jobs are done")
		m.end()
		return nil
	}
	return m.demand()
}

func main() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	masters := strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	config := framework.Config{
		Name: "many", Masters: masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true,
		Suppressed: true, // until the masters know the demand
	}
	if err := framework.Run(ctx, config, newMany(30, end)); err != nil {
		log.Fatal(err)
	}
}
