// Command primes counts primes on a cluster. It is scheduler and executor in one
// binary: the agents start it again to run its tasks. It is the third program of
// docs/write-a-framework.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/pack"
)

const (
	tasks = 20
	each  = 10_000 // how many numbers each task tests
)

// count runs one task on an agent. It gets the first number as data, and returns a count. Many run at the same time in
// one process, each in its own goroutine.
func count(ctx context.Context, task *executor.Task) error {
	first, err := strconv.Atoi(string(task.Data))
	if err != nil {
		return err // the task is FAILED with this error
	}
	primes := 0
	for n := first; n < first+each; n++ {
		if ctx.Err() != nil {
			return ctx.Err() // it was killed
		}
		if prime(n) {
			primes++
		}
	}
	task.SetResult([]byte(strconv.Itoa(primes)))
	return nil // the task is FINISHED
}

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

// counter is the scheduler.
type counter struct {
	waiting []api.Task
	open    map[api.TaskID]bool
	primes  int
	failure error
	end     context.CancelFunc
}

func newCounter(self api.Executor, end context.CancelFunc) *counter {
	c := &counter{open: map[api.TaskID]bool{}, end: end}
	for i := range tasks {
		task := api.Task{
			ID:        api.TaskID(fmt.Sprintf("count-%d", i)),
			Resources: api.Scalars(0.5, 32),
			Executor:  &self,
			Data:      []byte(strconv.Itoa(i * each)),
		}
		c.waiting, c.open[task.ID] = append(c.waiting, task), true
	}
	return c
}

func (c *counter) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	answers, c.waiting = pack.Pack(offers, c.waiting, pack.Options{})
	return answers
}

func (c *counter) Update(_ context.Context, status api.Status) error {
	if !status.State.Terminal() || !c.open[status.Task] {
		return nil // the task goes on, or the scheduler knows it already
	}
	delete(c.open, status.Task)
	c.failure = errors.Join(c.failure, c.add(status))
	if c.failure != nil || len(c.open) == 0 {
		c.end()
	}
	return nil
}

// add adds the count of a task.
func (c *counter) add(status api.Status) error {
	if status.State != api.TaskFinished {
		return fmt.Errorf("%s is %s: %s", status.Task, status.State, status.Message)
	}
	primes, err := strconv.Atoi(string(status.Data))
	if err != nil {
		return fmt.Errorf("%s has counted no number: %w", status.Task, err)
	}
	c.primes += primes
	return nil
}

// schedule runs the scheduler until every task has ended.
func schedule(ctx context.Context) error {
	self, err := executor.Self("counter") // this very binary
	if err != nil {
		return err
	}
	self.Resources = api.Scalars(0.1, 32) // for the executor itself, once on each agent
	ctx, end := context.WithCancel(ctx)
	defer end()
	masters := strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	c := newCounter(*self, end)
	config := framework.Config{Name: "primes", Masters: masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	if err := cmp.Or(framework.Run(ctx, config, c), c.failure); err != nil {
		return err
	}
	fmt.Println(c.primes, "primes below", tasks*each)
	return nil
}

func main() {
	if err := executor.Main(context.Background(), count, schedule); err != nil {
		log.Fatal(err)
	}
}
