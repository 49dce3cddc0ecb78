package main

import (
	"context"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestHello runs the example on a whole cluster in memory, in virtual time.
func TestHello(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		ctx, end := context.WithCancel(context.Background())
		f := c.StartContext(ctx, framework.Config{Name: "hello", TeardownAtEnd: true}, &hello{end: end})
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(api.TaskFinished); n != 1 {
			t.Errorf("%d tasks said hello, want 1", n)
		}
		c.AwaitSettled()
	})
}

// TestHelloWhileTheLeaderDies: it takes a little longer.
func TestHelloWhileTheLeaderDies(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		c.Leader().Kill()
		ctx, end := context.WithCancel(context.Background())
		f := c.StartContext(ctx, framework.Config{Name: "hello", TeardownAtEnd: true}, &hello{end: end})
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(api.TaskFinished); n != 1 {
			t.Errorf("%d tasks said hello, want 1", n)
		}
	})
}
