package cli_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/hang"
)

// paperFramework passes its offers and statuses to the test, which answers. At the test's end nobody takes them.
type paperFramework struct {
	t        *testing.T
	over     context.Context
	client   *framework.Client // of the callbacks; the test hears of it by clients
	clients  chan *framework.Client
	offers   chan api.Offer
	statuses chan api.Status
	answer   func(*framework.Client, api.Offer) api.Answer
}

func (f *paperFramework) Subscribed(_ context.Context, client *framework.Client) error {
	f.client = client
	hand(f, f.clients, client)
	return nil
}

func (f *paperFramework) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		hand(f, f.offers, offer)
		answers = append(answers, f.answer(f.client, offer))
	}
	return answers
}

func (f *paperFramework) Update(_ context.Context, status api.Status) error {
	hand(f, f.statuses, status)
	return nil
}

func hand[T any](f *paperFramework, to chan<- T, what T) {
	select {
	case to <- what:
	case <-f.over.Done():
	}
}

// taken returns the next item that the framework passes on.
func taken[T any](f *paperFramework, from <-chan T, what string) (next T) {
	f.t.Helper()
	limit := time.NewTimer(hang.After)
	defer limit.Stop()
	select {
	case next = <-from:
	case <-limit.C:
		hung(f.t, what)
	}
	return next
}

// subscribe runs a framework beside the test until the test ends.
func subscribe(t *testing.T, d *devCluster, name string, answer func(*framework.Client, api.Offer) api.Answer) *paperFramework {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	f := &paperFramework{
		t: t, over: ctx,
		clients: make(chan *framework.Client, 8), offers: make(chan api.Offer, 64), statuses: make(chan api.Status, 64), answer: answer,
	}
	ended := make(chan error, 1)
	masters := strings.Split(strings.TrimPrefix(d.env[0], "TENDER_MASTER="), ",")
	go func() {
		ended <- framework.Run(ctx, framework.Config{Name: name, Masters: masters, TeardownAtEnd: true}, f)
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return f
}

// awaitRunning waits until the tasks run, in whatever order their statuses come.
func (f *paperFramework) awaitRunning(tasks ...api.TaskID) {
	for len(tasks) > 0 {
		status := taken(f, f.statuses, fmt.Sprint(tasks, " RUNNING"))
		tasks = slices.DeleteFunc(tasks, func(task api.TaskID) bool {
			return task == status.Task && status.State == api.TaskRunning
		})
	}
}

// wantOffer checks the next offer, without the ports that dev adds.
func wantOffer(t *testing.T, f *paperFramework, what, resources string) {
	t.Helper()
	offer := taken(f, f.offers, what+" is offered "+resources)
	got := offer.Resources.Filter(func(l api.Label) bool { return l.Name != "ports" })
	if got.String() != resources {
		t.Errorf("%s is offered %v, not %s", what, got, resources)
	}
}

// The example of the Mesos paper, on real processes: one agent with 4 cpus and 4 GB, and two frameworks. The built-in
// executor needs no resources of its own, so that what is left is exact.
func TestTheExampleOfTheMesosPaper(t *testing.T) {
	t.Parallel()
	needsBinary(t)
	d := startDev(t, "--agent-resources", "cpus:4;mem:4096")
	sleeper := func(id api.TaskID, cpus, mem float64) api.Task {
		return api.Task{ID: id, Resources: api.Scalars(cpus, mem), Command: &api.Command{Argv: []string{"sleep", "1000"}}}
	}
	first := subscribe(t, d, "one", func(client *framework.Client, offer api.Offer) api.Answer {
		if err := client.Suppress(); err != nil {
			t.Error(err)
		}
		return api.Launch(offer, sleeper("a", 2, 1024), sleeper("b", 1, 2048))
	})
	client := taken(first, first.clients, "a subscription")
	wantOffer(t, first, "the first framework", "cpus:4;mem:4096")
	first.awaitRunning("a", "b")

	second := subscribe(t, d, "two", func(_ *framework.Client, offer api.Offer) api.Answer { return api.Keep(offer) })
	wantOffer(t, second, "the second framework", "cpus:1;mem:1024")
	if err := client.Kill("a"); err != nil {
		t.Fatal(err)
	}
	wantOffer(t, second, "the second framework", "cpus:2;mem:1024")
	if err := client.Kill("b"); err != nil {
		t.Fatal(err)
	}
	wantOffer(t, second, "the second framework", "cpus:1;mem:2048")
}
