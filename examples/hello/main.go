// Command hello is the smallest complete framework: it runs one command on the first
// resources it is offered, tells what becomes of it, and ends.
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
)

type hello struct {
	tries int  // each task has an ID of its own
	busy  bool // a task is on its way
	end   context.CancelFunc
}

// Offers answers with one task; what is not answered is declined.
func (h *hello) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if h.busy {
		return nil
	}
	h.busy = true
	h.tries++
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID:        api.TaskID(fmt.Sprintf("hello-%d", h.tries)),
		Resources: api.Scalars(0.1, 32),
		Command:   &api.Command{Argv: []string{"echo", "hello, cluster"}},
	})}
}

// Update is told each step of the task, again and again until it returns nil.
func (h *hello) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, "is", status.State, "on", status.Agent, status.Message)
	h.busy = status.State != api.TaskDropped // never started: try the next offer
	if h.busy && status.State.Terminal() {
		h.end()
	}
	return nil
}

func main() {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	masters := strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), "127.0.0.1:5060"), ",")
	config := framework.Config{Name: "hello", Masters: masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	if err := framework.Run(ctx, config, &hello{end: end}); err != nil {
		log.Fatal(err)
	}
}
