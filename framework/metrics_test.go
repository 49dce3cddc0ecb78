package framework_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// counts is what the metrics of a framework have counted.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name] += n
}

func (c *counts) get() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}

func (c *counts) metrics() framework.Metrics {
	return framework.Metrics{
		Connected: func(_ string, _ time.Duration, err error) {
			if err != nil {
				c.add("connect failures", 1)
			}
		},
		Session: func(active bool) {
			if active {
				c.add("sessions", 1)
				c.add("active", 1)
			} else {
				c.add("active", -1)
			}
		},
		Offers:   func(n int) { c.add("offers", n) },
		Answers:  func(end framework.OfferEnd, n int) { c.add(string(end), n) },
		Launches: func(n int) { c.add("launches", n) },
		Status:   func(state api.TaskState, _ api.Reason) { c.add(state.String(), 1) },
		Callback: func(method string, took time.Duration, _ error) {
			c.add(method, 1)
			c.add("seconds in "+method, int(took.Seconds()))
		},
		Refused: func(operation string, _ api.Kind) { c.add("refused "+operation, 1) },
		Queues: func(q framework.Queues) {
			c.add("samples", 1)
			c.add("unsettled", q.Unsettled)
		},
	}
}

// slowly runs one task for each offer, up to a number of tasks, and thinks for two seconds each time.
type slowly struct {
	tasks  int
	client *framework.Client
}

func (s *slowly) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	return nil
}

func (s *slowly) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	var answers []api.Answer
	for _, offer := range offers {
		if s.tasks > 0 {
			id := api.TaskID("task-" + string(rune('0'+s.tasks)))
			s.tasks--
			answers = append(answers, api.Launch(offer, api.Task{
				ID: id, Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "sleep 100"},
			}))
		}
	}
	return answers
}

func (s *slowly) Update(context.Context, api.Status) error { return nil }

// TestMetrics: the numbers of the metrics add up, also over a failover.
func TestMetrics(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		seen := &counts{of: make(map[string]int)}
		f := c.Start(framework.Config{Name: "counted", Metrics: seen.metrics()}, &slowly{tasks: 3})
		f.AwaitCount(3, api.TaskRunning)
		c.Leader().Kill()
		c.Advance(20 * time.Second)
		f.AwaitCount(3, api.TaskFinished)
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
		of := seen.get()
		for name, want := range map[string]int{
			"sessions": 2, "active": 0, "launches": 3, "accepted": 3, "FINISHED": 3, "refused offer.accept": 0, "Subscribed": 2,
		} {
			if of[name] != want {
				t.Errorf("%s: %d, want %d", name, of[name], want)
			}
		}
		if ended := of["accepted"] + of["declined"] + of["rescinded"]; of["offers"] == 0 || ended != of["offers"] {
			t.Errorf("%d offers came, %d ended", of["offers"], ended)
		}
		if of["seconds in Offers"] < 2*3 || of["seconds in Update"] != 0 {
			t.Errorf("%d s in Offers, %d s in Update", of["seconds in Offers"], of["seconds in Update"])
		}
		if of["connect failures"] == 0 || of["samples"] < 100 || of["unsettled"] < of["samples"] {
			t.Errorf("connects failed %d times, %d samples of %d tasks", of["connect failures"], of["samples"], of["unsettled"])
		}
	})
}
