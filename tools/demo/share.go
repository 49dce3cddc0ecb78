package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tools/devcluster"
)

const (
	shareAgents = 16
	// agentResources are enough for one task of the batch, or one executor.
	agentResources = "cpus:1.1;mem:512;disk:1024"
	// hold is how long each state must last.
	hold = 4 * time.Second
)

// sharing is two frameworks that know nothing of each other on one cluster: the job manager with a batch of thousands of
// small tasks, and a program of the small Spark, which wants an executor on every machine. The program comes, goes, and
// comes back; once under the policy fairshare and once under priority. What each of them had is drawn as a chart.
type sharing struct {
	binary   string // the binary of tender
	programs string // the binary of examples/rdd
	points   string // the folder of the points
	result   string // the program's result, which is the same each time
}

// policy describes what a policy should show.
type policy struct {
	name string
	task string // the tasks of the batch
	rdd  float64
	jobs float64 // the shares that they should have while both want everything
	say  string
}

func (d *sharing) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "tender-share-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.points = filepath.Join(dir, "points")
	if d.programs, err = build(ctx, dir, "rdd/programs"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, d.programs, "generate", "-local", "-points", "20000", "-dir", d.points).CombinedOutput(); err != nil {
		return fmt.Errorf("generating points: %w\n%s", err, out)
	}
	for _, p := range []policy{
		{"fairshare", "sleep 2", 0.5, 0.5, "each has half: what ends of the one goes to the other, until they are level"},
		{"priority", "sleep 1000", 1, 0, "the higher one has all that it wants: tasks of the other are asked back, and have ten seconds to end"},
	} {
		if err := d.play(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// turn is a cluster with one policy.
type turn struct {
	*sharing
	stage
	policy policy

	mu    sync.Mutex
	chart chart // guarded by mu
}

func (d *sharing) play(ctx context.Context, p policy) (err error) {
	log.Printf("a cluster of %d agents shares by %s", shareAgents, p.name)
	t := &turn{sharing: d, policy: p}
	t.stage, err = open(ctx, devcluster.Options{Binary: d.binary, Agents: shareAgents, Args: []string{"--allocator", p.name, "--agent-resources", agentResources}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Stop()) }()
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	t.chart.began = time.Now()
	go func() { looked <- t.look(looking, apiv1.NewOperatorServiceClient(conn)) }()
	err = t.story(ctx)
	stop()
	err = errors.Join(err, <-looked)
	fmt.Printf("\n%s: what each has of the cluster\n\n%s\n", p.name, &t.chart)
	return err
}

// look notes the shares a few times a second, until its context ends.
func (t *turn) look(ctx context.Context, operator apiv1.OperatorServiceClient) error {
	for pause.For(ctx, 200*time.Millisecond) {
		list, err := operator.ListFrameworks(ctx, &apiv1.ListRequest{})
		switch {
		case ctx.Err() != nil:
			continue // the context has ended, and so does the loop
		case err != nil:
			return fmt.Errorf("looking at the shares: %w", err)
		}
		now := sample{at: time.Now()}
		for _, one := range list.GetItems() {
			switch {
			case one.GetState() == "removed":
			case one.GetName() == "jobs":
				now.jobs += one.GetDominantShare()
			default:
				now.rdd += one.GetDominantShare()
			}
		}
		t.mu.Lock()
		t.chart.samples = append(t.chart.samples, now)
		t.mu.Unlock()
	}
	return nil
}

// story is what happens in each turn.
func (t *turn) story(ctx context.Context) error {
	if _, err := t.tender(ctx, "", "priority", "rdd", "10"); err != nil {
		return err
	}
	file := fmt.Sprintf("name = \"small\"\ntype = \"batch\"\ntask = { command = %q, cpus = 1.1, mem = 32.0, kill_grace = \"1s\" }\n"+
		"batch = { completions = 1000000, parallelism = 64 }\n", t.policy.task)
	if err := t.submit(ctx, file); err != nil {
		return err
	}
	t.mark("a batch of small tasks is submitted")
	if err := t.await(ctx, "the batch has the cluster", 0, 1); err != nil {
		return err
	}
	for _, how := range []string{"comes", "comes back"} {
		if err := t.share(ctx, how); err != nil {
			return err
		}
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	log.Printf("%s: %s", t.policy.name, t.policy.say)
	_, err := t.tender(ctx, "", "job", "stop", "small")
	return err
}

// share starts the program and ends it again.
func (t *turn) share(ctx context.Context, how string) error {
	t.mark("rdd " + how)
	program, err := t.start(ctx)
	if err != nil {
		return err
	}
	err = t.await(ctx, "rdd has its part", t.policy.rdd, t.policy.jobs)
	if err == nil {
		t.mark("rdd is done, and gives back what it has")
	}
	result, failed := program.end()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if t.result == "" {
		t.result = result
	}
	if result != t.result {
		return fmt.Errorf("the program's result was %s and is %s", t.result, result)
	}
	return t.await(ctx, "the batch has the cluster again", 0, 1)
}

func (t *turn) mark(what string) {
	log.Printf("%s: %s", t.policy.name, what)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chart.mark(time.Now(), what)
}

// near is how far a share may be from what it should be: one agent is a sixteenth of the cluster, and tasks that follow
// each other leave a little free between them.
const near = 0.1

// await waits until the shares are as they should be, and checks that they stay so.
func (t *turn) await(ctx context.Context, what string, rdd, jobs float64) error {
	began := time.Now()
	good := func(one sample) bool { return math.Abs(one.rdd-rdd) <= near && math.Abs(one.jobs-jobs) <= near }
	last := func() (one sample) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if n := len(t.chart.samples); n > 0 {
			one = t.chart.samples[n-1]
		}
		return one
	}
	for !good(last()) {
		if time.Since(began) > time.Minute || !pause.For(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waiting until %s: after %.0f s rdd has %.0f%% and the jobs have %.0f%%, wanted %.0f%% and %.0f%%", what,
				time.Since(began).Seconds(), 100*last().rdd, 100*last().jobs, 100*rdd, 100*jobs)
		}
	}
	there := time.Now()
	t.mark(fmt.Sprintf("%s, %.1f s later", what, there.Sub(began).Seconds()))
	pause.For(ctx, hold)
	t.mu.Lock()
	seen, _ := mean(t.chart.within(there, time.Now()))
	t.mu.Unlock()
	log.Printf("%s: in these %v rdd has %.0f%% of the cluster, the jobs have %.0f%%", t.policy.name, hold, 100*seen.rdd, 100*seen.jobs)
	if !good(seen) {
		return fmt.Errorf("%s: then rdd has %.0f%% and the jobs have %.0f%%, wanted %.0f%% and %.0f%%", what, 100*seen.rdd, 100*seen.jobs, 100*rdd, 100*jobs)
	}
	return nil
}

// check checks the batch: tasks that were preempted are no failures of it.
func (t *turn) check(ctx context.Context) error {
	out, err := t.tender(ctx, "", "job", "status", "small", "-o", "json")
	if err != nil {
		return err
	}
	status := new(apiv1.JobStatus)
	if err := protojson.Unmarshal(out, status); err != nil {
		return err
	}
	for _, task := range status.GetTasks() {
		if task.GetFailures() > 0 {
			return fmt.Errorf("%s has failed %d times, and none of its tasks fails", task.GetTaskId(), task.GetFailures())
		}
	}
	sub := status.GetSubJobs()[0]
	if sub.GetFailed() > 0 || status.GetPhase() != "RUNNING" {
		return fmt.Errorf("the batch is %s with %d that failed: %s", status.GetPhase(), sub.GetFailed(), status.GetWhy())
	}
	log.Printf("%s: the batch has done %d, and none has failed", t.policy.name, sub.GetDone())
	return nil
}

// submit submits a job, and tries again until the job manager is active.
func (t *turn) submit(ctx context.Context, file string) error {
	for {
		_, err := t.tender(ctx, file, "job", "submit", "-")
		if err == nil || !pause.For(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// program is a driver of the small Spark. It works, and then keeps its executors until it is told to end.
type program struct {
	command *exec.Cmd
	in      io.WriteCloser
	lines   *bufio.Scanner
}

func (t *turn) start(ctx context.Context) (*program, error) {
	const works = 3 // iterations before it waits
	return startProgram(ctx, t.programs, "logreg", "-master", t.MasterAddresses(), "-role", "rdd",
		"-executors", strconv.Itoa(shareAgents), "-memory", "128", "-iterations", strconv.Itoa(works+1), "-hold", strconv.Itoa(works), t.points)
}

// startProgram starts a driver of the small Spark.
func startProgram(ctx context.Context, path string, args ...string) (*program, error) {
	command := exec.CommandContext(ctx, path, args...)
	command.Stderr = os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &program{command: command, in: in, lines: bufio.NewScanner(out)}, command.Start()
}

// end lets the program finish, and returns its result.
func (p *program) end() (result string, err error) {
	_, err = p.in.Write([]byte("\n"))
	for p.lines.Scan() {
		if text, found := strings.CutPrefix(p.lines.Text(), "result: "); found {
			result = text
		}
	}
	return result, errors.Join(err, p.lines.Err(), p.in.Close(), p.command.Wait())
}
