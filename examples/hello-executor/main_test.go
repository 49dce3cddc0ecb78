package main

import (
	"context"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestHelloExecutor runs greet, the real code, in an executor that is played; one task has nobody to greet.
func TestHelloExecutor(t *testing.T) {
	cluster := frameworktest.Cluster{
		Masters: 3, Agents: 2, Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"greeter": greet},
	}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		self := &api.Executor{ID: "greeter", Command: api.Command{Argv: []string{"hello-executor"}}, Resources: api.Scalars(0.1, 32)}
		ctx, end := context.WithCancel(context.Background())
		scheduler := newHello(self, end, "Ada", "Grace")
		scheduler.add(api.Task{ID: "nobody", Resources: api.Scalars(0.1, 32), Executor: self})
		f := c.StartContext(ctx, framework.Config{Name: "hello-executor", TeardownAtEnd: true}, scheduler)
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		f.ExpectCount(2, api.TaskFinished)
		f.ExpectCount(1, api.TaskFailed)
		if told := f.Statuses("Ada"); !strings.HasPrefix(string(told[len(told)-1].Data), "hello, Ada, from process ") {
			t.Errorf("the last of %v brings no greeting", told)
		}
		if told := f.Statuses("nobody"); told[len(told)-1].Message != "nobody to greet" {
			t.Errorf("the last of %v does not say what was wrong", told)
		}
		c.AwaitSettled()
	})
}

// TestWhatIsDroppedIsTriedAgain: no task is lost with an offer that was gone.
func TestWhatIsDroppedIsTriedAgain(t *testing.T) {
	h := newHello(nil, func() { t.Error("it ends too early") }, "Ada")
	h.waiting = nil
	if err := h.Update(t.Context(), api.Status{Task: "Ada", State: api.TaskDropped}); err != nil {
		t.Fatal(err)
	}
	if len(h.waiting) != 1 || h.waiting[0].ID != "Ada-again" || string(h.waiting[0].Data) != "Ada" {
		t.Errorf("waiting: %v", h.waiting)
	}
}
