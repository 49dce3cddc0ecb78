package frameworktest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// cache is an executor that keeps what it has loaded for its next tasks.
type cache struct {
	mu      sync.Mutex
	loaded  map[string]bool
	loads   int
	running int
	most    int // the most tasks that ran at once
}

// run runs one task. It loads the table that the task's data names, if it has not been loaded yet, works for 30
// seconds, and reports when half of that is over.
func (c *cache) run(ctx context.Context, task *executor.Task) error {
	c.enter(string(task.Data))
	defer c.leave()
	for half := range 2 {
		select {
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if half == 0 {
			task.Progress([]byte("50%"), "half done")
			if err := task.Message([]byte(task.ID + " is half done")); err != nil && !api.Is(err, api.Unavailable) {
				return err
			}
		}
	}
	task.SetResult([]byte("result of " + task.ID))
	return nil
}

func (c *cache) enter(table string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded[table] {
		c.loaded[table] = true
		c.loads++
	}
	c.running++
	c.most = max(c.most, c.running)
}

func (c *cache) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// listener launches tasks for the executor, and notes what it is told.
type listener struct {
	mu       sync.Mutex
	left     int
	messages []string
	progress int
	results  int
}

func (l *listener) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tasks []api.Task
	for ; l.left > 0; l.left-- {
		tasks = append(tasks, api.Task{
			ID: api.TaskID(fmt.Sprintf("task-%d", l.left)), Resources: api.Scalars(0.5, 64), Data: []byte("words"),
			Executor: &api.Executor{ID: "cache", Command: api.Command{Argv: []string{"cache"}}},
		})
	}
	if len(tasks) == 0 {
		return nil
	}
	return []api.Answer{api.Launch(offers[0], tasks...)}
}

func (l *listener) Update(_ context.Context, status api.Status) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case status.State == api.TaskRunning && string(status.Data) == "50%":
		l.progress++
	case status.State == api.TaskFinished && string(status.Data) == "result of "+string(status.Task):
		l.results++
	}
	return nil
}

func (l *listener) Message(_ context.Context, _ api.AgentID, from api.ExecutorID, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, string(from)+": "+string(data))
}

// TestExecutorThatKeepsACache: one executor runs many tasks at once, loads once for all of them, and reports their
// progress. Its agent is restarted in between, and no report is lost.
func TestExecutorThatKeepsACache(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			cached := &cache{loaded: make(map[string]bool)}
			cluster := frameworktest.Cluster{Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"cache": cached.run}}
			frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
				heard := &listener{left: 6}
				f := c.Start(framework.Config{Name: "cached"}, heard)
				f.AwaitCount(6, api.TaskRunning)
				if restart {
					c.Agent(1).Kill()
					c.Advance(20 * time.Second) // half of the time is over while the agent is away
					c.Agent(1).Start()
				}
				f.AwaitCount(6, api.TaskFinished)
				heard.mu.Lock()
				defer heard.mu.Unlock()
				if heard.progress != 6 || heard.results != 6 {
					t.Errorf("heard of %d half-times and %d results", heard.progress, heard.results)
				}
				if messages := len(heard.messages); restart != (messages == 0) {
					t.Errorf("%d messages came", messages)
				} else if messages > 0 && !strings.HasPrefix(heard.messages[0], "cache: task-") {
					t.Errorf("the first message is %q", heard.messages[0])
				}
				cached.mu.Lock()
				defer cached.mu.Unlock()
				if cached.loads != 1 || cached.most != 6 {
					t.Errorf("loaded %d times, %d tasks at once", cached.loads, cached.most)
				}
			})
		})
	}
}
