package main

import (
	"context"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// The test runs the real executor code, on agents and in an executor that are played.
func TestPrimes(t *testing.T) {
	cluster := frameworktest.Cluster{
		Agents: 2, Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"counter": count},
	}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		ctx, end := context.WithCancel(context.Background())
		primes := newCounter(api.Executor{ID: "counter", Command: api.Command{Argv: []string{"primes"}}, Resources: api.Scalars(0.1, 32)}, end)
		f := c.StartContext(ctx, framework.Config{Name: "primes", TeardownAtEnd: true}, primes)
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		if primes.failure != nil || primes.primes != 17984 {
			t.Errorf("%d primes below 200000, want 17984; %v", primes.primes, primes.failure)
		}
	})
}
