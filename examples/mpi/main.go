// Command mpi runs an MPI program of MPICH as a gang: all of its processes start at the same time, or none does, and they
// end together. It works like this: mpiexec is told not to start anything itself (-launcher manual) and prints the
// command lines of its proxies, one for each machine; each becomes a task, and connects back to mpiexec.
//
//	mpi -n 4 -- ./cpi
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
)

// need is what one process of the program takes.
var need = api.Scalars(1, 128)

// gang is the scheduler. Its methods are called one at a time, so it needs no lock.
type gang struct {
	begin  func() (commands []string, err error) // starts mpiexec, and returns the command line of each proxy
	end    func(err error)                       // ends it all; nil: the program has ended well
	size   int
	client *framework.Client
	offers map[api.OfferID]api.Offer // kept until all of the gang fit into them
	flying map[api.TaskID]bool       // tasks that are launched and have not ended
	tries  int
	broken bool // a task has ended badly; when all have ended the gang begins anew
}

func newGang(size int, begin func() ([]string, error), end func(error)) *gang {
	return &gang{begin: begin, end: end, size: size, offers: map[api.OfferID]api.Offer{}, flying: map[api.TaskID]bool{}}
}

// Subscribed states the demand: for the whole gang, also while a part of the room for it is held already.
func (g *gang) Subscribed(_ context.Context, client *framework.Client) error {
	g.client = client
	return g.demand()
}

func (g *gang) demand() error {
	demand := api.Demand{}
	if len(g.flying) == 0 {
		demand.Shapes = []api.Shape{{Resources: need, Count: int64(g.size)}}
	}
	return g.client.Demand(demand)
}

// Offers keeps offers until there is room for all, and then launches all.
func (g *gang) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if len(g.flying) > 0 {
		return nil // declined
	}
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		g.offers[offer.ID] = offer
		answers = append(answers, api.Keep(offer))
	}
	tasks := make([]api.Task, g.size)
	for i := range tasks {
		tasks[i] = api.Task{ID: api.TaskID(fmt.Sprintf("mpi-%d.%d", i, g.tries)), Resources: need}
	}
	kept := slices.SortedFunc(maps.Values(g.offers), func(a, b api.Offer) int { return cmp.Compare(a.ID, b.ID) })
	launch, left := pack.Pack(kept, tasks, pack.Options{})
	if len(left) > 0 {
		return answers
	}
	commands, err := g.begin()
	if err != nil {
		g.end(err)
		return nil
	}
	for _, answer := range launch {
		delete(g.offers, answer.Offers[0])
		for i := range answer.Operations[0].Tasks {
			task := &answer.Operations[0].Tasks[i]
			task.Command = &api.Command{Argv: strings.Fields(commands[len(g.flying)])}
			g.flying[task.ID] = true
		}
	}
	for _, rest := range g.offers {
		launch = append(launch, api.Decline(rest, 0))
	}
	clear(g.offers)
	g.tries++
	return launch
}

// Rescinded forgets offers that are gone.
func (g *gang) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	for _, id := range offers {
		delete(g.offers, id)
	}
}

// Update ends the gang when one of its tasks ends badly, and begins anew if that was not the task's fault.
func (g *gang) Update(_ context.Context, status api.Status) error {
	if !g.flying[status.Task] || !status.State.Terminal() {
		return nil
	}
	delete(g.flying, status.Task)
	blameless := status.Reason.Blameless() || status.State == api.TaskDropped || status.State == api.TaskGone
	switch {
	case status.State == api.TaskFinished || g.broken:
	case blameless:
		g.broken = true
		for _, id := range slices.Sorted(maps.Keys(g.flying)) {
			if err := g.client.Kill(id); err != nil {
				return err
			}
		}
	default:
		g.end(fmt.Errorf("%s on %s is %s %s: %s", status.Task, status.Agent, status.State, status.Reason, status.Message))
	}
	switch {
	case len(g.flying) > 0:
	case g.broken:
		log.Printf("%s is %s %s; the gang begins anew", status.Task, status.State, status.Reason)
		g.broken = false
		return g.demand()
	default:
		g.end(nil)
	}
	return nil
}

// mpiexec starts MPICH's mpiexec anew each time it is called; its predecessor is killed.
type mpiexec struct {
	size    int
	address string // at which proxies reach it
	program []string
	command *exec.Cmd
	ended   chan error // of one element
}

const launchLine = "HYDRA_LAUNCH: "

func (m *mpiexec) begin() (commands []string, err error) {
	if m.command != nil {
		_ = m.command.Process.Kill() // it may have ended already
		log.Print("the mpiexec of before: ", <-m.ended)
	}
	hosts := make([]string, m.size) // names that only mpiexec uses
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-%d", i)
	}
	args := []string{"-launcher", "manual", "-disable-hostname-propagation", "-localhost", m.address, "-hosts", strings.Join(hosts, ","), "-n", fmt.Sprint(m.size)}
	m.command, m.ended = exec.Command("mpiexec.mpich", append(args, m.program...)...), make(chan error, 1)
	m.command.Stderr = os.Stderr
	out, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for len(commands) < m.size && lines.Scan() {
		if line, found := strings.CutPrefix(lines.Text(), launchLine); found {
			commands = append(commands, line)
		}
	}
	command, ended := m.command, m.ended
	go func() { // what the program prints; it ends with mpiexec
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "HYDRA_LAUNCH") {
				fmt.Println(lines.Text())
			}
		}
		ended <- command.Wait()
	}()
	if len(commands) < m.size {
		return nil, errors.New("mpiexec has ended before it named its proxies")
	}
	return commands, nil
}

func main() {
	size := flag.Int("n", 2, "`number` of processes, each with a task of its own")
	address := flag.String("address", "127.0.0.1", "`address` of this machine, for the agents")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	m := &mpiexec{size: *size, address: *address, program: flag.Args()}
	config := framework.Config{
		Name: "mpi", Masters: strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ","),
		ConnectTimeout: 10 * time.Second, TeardownAtEnd: true, Suppressed: true,
	}
	done := errors.New("done")
	err := framework.Run(ctx, config, newGang(*size, m.begin, func(err error) { end(cmp.Or(err, done)) }))
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, done) {
		err = cause
	}
	if err == nil && m.command != nil {
		err = <-m.ended
	}
	if err != nil {
		log.Fatal(err)
	}
}
