package framework_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// counted runs one task and counts the statuses that it was told. Its methods, and the functions that it passes to Do
// and After, run on one goroutine, so it needs no lock.
type counted struct {
	client *framework.Client
	told   map[api.TaskState]int
}

func (c *counted) Subscribed(_ context.Context, client *framework.Client) error {
	c.client = client
	return nil
}

func (c *counted) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if c.told != nil {
		return nil
	}
	c.told = map[api.TaskState]int{}
	c.client.After(time.Minute, func() { fmt.Println("a minute later", len(c.told), "states were told") })
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "task", Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "sleep 10"},
	})}
}

func (c *counted) Update(_ context.Context, status api.Status) error {
	c.told[status.State]++
	return nil
}

// ServeHTTP is called by goroutines of a server. Do runs the function on the scheduler's goroutine.
func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page string
	if err := c.client.Do(r.Context(), func() { page = fmt.Sprint(c.told) }); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, page)
}

// Do runs a function on the goroutine of the scheduler's methods; After does so later.
func ExampleClient_Do() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		scheduler := &counted{}
		f := c.Start(framework.Config{Name: "counted"}, scheduler)
		f.AwaitCount(1, api.TaskFinished)
		response := httptest.NewRecorder()
		scheduler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(response.Body)
		c.Advance(time.Minute)
	})
	// Output:
	// map[RUNNING:1 FINISHED:1]
	// a minute later 2 states were told
}
