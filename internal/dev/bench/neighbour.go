package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// hostileTasks are what a neighbour is measured beside. They come to limits of their walls, so they run in no agent without.
var hostileTasks = []struct{ name, shell string }{
	{"a task that needs all processors", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"},
	{"a fork bomb", "bomb() { while :; do bomb & done 2>/dev/null; }; while :; do bomb; done"},
	{"a task that needs all memory", "while :; do dd if=/dev/zero of=/dev/null bs=512M count=1 2>/dev/null; done"},
	{"a task that fills its output", "while :; do head -c 1048576 /dev/zero; done"},
}

// neighbourPids bounds the processes of each: what is measured is another task, not how long the kernel takes to end them.
const neighbourPids = 100

// measureNeighbour measures the delays of a task that does a little again and again, alone and beside each hostile one. Both
// have asked for a core.
func (a *alone) measureNeighbour(ctx context.Context, o options, walls string) error {
	quiet, err := a.delays(ctx, o, "")
	if err != nil {
		return err
	}
	for _, hostile := range hostileTasks {
		beside, err := a.delays(ctx, o, hostile.shell)
		if err != nil {
			return fmt.Errorf("beside %s: %w", hostile.name, err)
		}
		row("a neighbour's p99 beside "+hostile.name+", "+walls, fmt.Sprintf("%.1f ms", beside),
			fmt.Sprintf("%.1f ms without it: %.1f times as long", quiet, beside/quiet))
	}
	return nil
}

// delays runs the neighbour once, beside a hostile task or, with "", alone, and returns its p99 in milliseconds.
func (a *alone) delays(ctx context.Context, o options, hostile string) (p99 float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	n := &neighbourhood{hostile: hostile, neighbour: api.Command{
		Argv: []string{"./bench", "-only", "neighbour", "-beside", o.beside.String()},
		URIs: []api.URI{{Source: "file://" + self, Name: "bench", Executable: true}},
	}}
	ctx, n.finish = context.WithCancel(ctx)
	defer n.finish()
	config := framework.Config{Name: "beside", Masters: strings.Split(a.cluster.MasterAddresses(), ","), TeardownAtEnd: true, Token: framework.NoToken}
	if err := errors.Join(framework.Run(ctx, config, n), n.failure); err != nil {
		return 0, err
	}
	outputs, err := filepath.Glob(filepath.Join(a.folder, "agent", "sandboxes", string(n.framework), "*", "tasks", "neighbour", "stdout"))
	if err != nil || len(outputs) != 1 {
		return 0, fmt.Errorf("the neighbour has left the outputs %v, %w", outputs, err)
	}
	text, err := os.ReadFile(outputs[0])
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &p99)
	return p99, err
}

// neighbourhood is a scheduler that runs a neighbour once the hostile task runs, and that one again whenever it has ended.
type neighbourhood struct {
	neighbour api.Command
	hostile   string // "": none
	client    *framework.Client
	framework api.FrameworkID
	tasks     []api.Task // to be launched
	again     int
	ending
}

func (n *neighbourhood) Subscribed(_ context.Context, client *framework.Client) error {
	n.client, n.framework = client, client.FrameworkID()
	if n.hostile == "" {
		return n.want(n.neighbourTask())
	}
	return n.want(n.hostileTask())
}

func (n *neighbourhood) neighbourTask() api.Task {
	return api.Task{ID: "neighbour", Resources: api.Scalars(1, 64), Command: &n.neighbour}
}

func (n *neighbourhood) hostileTask() api.Task {
	n.again++
	return api.Task{
		ID: api.TaskID(fmt.Sprintf("hostile.%d", n.again)), Resources: api.Scalars(1, 64), Limits: api.Limits{Pids: neighbourPids},
		Command: &api.Command{Shell: n.hostile},
	}
}

func (n *neighbourhood) want(task api.Task) error {
	n.tasks = append(n.tasks, task)
	return n.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: task.Resources, Count: int64(len(n.tasks))}}})
}

func (n *neighbourhood) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		answer := api.Launch(offer, n.tasks...) // the agent has room for all of them
		answer.Filter, n.tasks = api.NoFilter, nil
		answers = append(answers, answer)
	}
	n.fail(n.client.Demand(api.Demand{}))
	return answers
}

func (n *neighbourhood) Update(_ context.Context, status api.Status) error {
	own := status.Task == "neighbour"
	switch {
	case !own && status.State == api.TaskRunning && n.again == 1:
		return n.want(n.neighbourTask())
	case !own && status.State.Terminal():
		return n.want(n.hostileTask())
	case own && status.State == api.TaskFinished:
		n.finish()
	case own && status.State.Terminal():
		n.fail(fmt.Errorf("the neighbour is %s %s: %s", status.State, status.Reason, status.Message))
	}
	return nil
}

// beNeighbour is the task: every five milliseconds it is to sum up numbers for about half a millisecond. It prints the p99
// in milliseconds of how long after its time each was done.
func beNeighbour(_ context.Context, o options) error {
	const each, numbers = 5 * time.Millisecond, 500_000
	var took []float64
	sum := 0
	for next := time.Now(); len(took) < int(o.beside/each); next = next.Add(each) {
		time.Sleep(time.Until(next))
		for i := range numbers {
			sum += i ^ sum
		}
		took = append(took, time.Since(next).Seconds()*1000)
	}
	slices.Sort(took)
	_, err := fmt.Println(took[len(took)*99/100], "of", len(took), "sums, the last of them", sum)
	return err
}
