package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// jobsAgents is how many agents hold the tasks; the agents are only sessions.
	jobsAgents = 100
	// jobsTasks is how many tasks each job has.
	jobsTasks = 10
	// jobsFew is the number of jobs with which the cost of one change is measured first.
	jobsFew = 100
	// jobsLooks and jobsChanges are how many statuses and changes are measured.
	jobsLooks   = 2000
	jobsChanges = 200
	// jobsPatience is how long each wait may take.
	jobsPatience = 10 * time.Minute
)

// jobsBench is a job manager with many jobs, and another one that stands by, each a process, with three masters that
// store everything on their disks.
type jobsBench struct {
	binary   string
	runs     int // how often a manager is killed
	quorum   *quorum
	flock    *flockProcess
	managers []*devcluster.Process  // the active one first, then the one that stands by
	started  int                    // how many managers were started so far
	client   apiv1.JobServiceClient // at the leading master, which forwards the calls
	leader   *node
	jobs     int // how many were submitted
}

// manyJobs measures the job manager with more and more jobs, and how long the next manager takes to take them over.
func manyJobs(ctx context.Context, o options) (err error) {
	b := &jobsBench{binary: o.binary, runs: o.runs, quorum: &quorum{flags: []string{"--log-level", "warn"}}}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.start(ctx, o); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return b.submit(ctx, jobsFew) },
		b.changes,
		func(ctx context.Context) error { return b.submit(ctx, o.jobs) },
		b.looks, b.lists, b.changes, b.memory, b.takeOver,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *jobsBench) start(ctx context.Context, o options) (err error) {
	if err := b.quorum.found(ctx, o.binary, o.dir); err != nil {
		return err
	}
	if b.leader, err = b.quorum.leader(ctx); err != nil {
		return err
	}
	b.client = apiv1.NewJobServiceClient(b.leader.client)
	if b.flock, err = startFlock(jobsAgents, b.quorum.addresses()); err != nil {
		return err
	}
	if _, err := b.flock.whole(ctx, jobsAgents, api.Term{}); err != nil {
		return err
	}
	if err := b.startManager(); err != nil {
		return err
	}
	if err := b.answers(ctx, func(ctx context.Context) error {
		_, err := b.client.ListJobs(ctx, &apiv1.ListJobsRequest{})
		return err
	}); err != nil {
		return err
	}
	return b.startManager() // the one that stands by
}

func (b *jobsBench) startManager() error {
	b.started++
	one := &devcluster.Process{Binary: b.binary, Args: []string{"jobs", "--master", strings.Join(b.quorum.addresses(), ",")},
		Log: filepath.Join(b.quorum.dir, fmt.Sprintf("manager-%d.log", b.started))}
	if err := one.Start(); err != nil {
		return err
	}
	b.managers = append(b.managers, one)
	return nil
}

func (b *jobsBench) stop() (err error) {
	for _, one := range b.managers {
		err = errors.Join(err, one.Kill())
	}
	if b.flock != nil {
		b.flock.stop()
	}
	return errors.Join(err, b.quorum.stop())
}

// answers repeats a call until there is no error.
func (b *jobsBench) answers(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, jobsPatience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || !pause.For(ctx, 5*time.Millisecond) {
			return err
		}
	}
}

func (b *jobsBench) row(what, figure, beside string) {
	row(fmt.Sprintf("%d jobs of %d tasks: %s", b.jobs, jobsTasks, what), figure, beside)
}

// job returns a job of so many tasks, which run until they are killed.
func job(name string, tasks int) *structpb.Struct {
	object, err := structpb.NewStruct(map[string]any{
		"name": name, "type": "batch", "task": map[string]any{"command": "sleep 1000000", "cpus": 0.001, "mem": 1},
		"batch": map[string]any{"completions": tasks, "parallelism": tasks},
	})
	if err != nil {
		panic(err) // it is always the same
	}
	return object
}

func jobName(i int) string { return fmt.Sprintf("job-%05d", i) }

// submit submits jobs until there are n, many at the same time, and waits until all of their tasks run.
func (b *jobsBench) submit(ctx context.Context, n int) error {
	first, began, used := b.jobs, time.Now(), b.used()
	var mu sync.Mutex
	var times []time.Duration
	err := inParallel(n-first, func(i int) error {
		sent := time.Now()
		_, err := b.client.SubmitJob(ctx, &apiv1.SubmitJobRequest{Job: job(jobName(first+i), jobsTasks)})
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Since(sent))
		return err
	})
	if err != nil {
		return fmt.Errorf("submitting: %w", err)
	}
	b.jobs = n
	took := time.Since(began)
	b.row("submitted", fmt.Sprintf("%.0f jobs/s, p50 %.0f ms, p99 %.0f ms", float64(n-first)/took.Seconds(), ms(quantile(times, 0.5)), ms(quantile(times, 0.99))),
		fmt.Sprintf("%d at a time, while their tasks start", registryClients))
	if err := b.allRun(ctx); err != nil {
		return err
	}
	all := time.Since(began)
	b.row("until all tasks run", fmt.Sprintf("%.1f s, %.0f tasks/s", all.Seconds(), float64((n-first)*jobsTasks)/all.Seconds()),
		fmt.Sprintf("the manager used %.0f%% of a processor", 100*(b.used()-used)/all.Seconds()))
	return nil
}

func (b *jobsBench) used() float64 { return ownCPU(b.managers[0].PID()) }

// allRun waits until all tasks of all jobs run.
func (b *jobsBench) allRun(ctx context.Context) error {
	return b.answers(ctx, func(ctx context.Context) error {
		running, err := b.list(ctx)
		if err == nil && running < b.jobs*jobsTasks {
			pause.For(ctx, 200*time.Millisecond) // so that the looking itself does not count
			err = fmt.Errorf("%d tasks run", running)
		}
		return err
	})
}

// list lists all jobs and counts the tasks that run.
func (b *jobsBench) list(ctx context.Context) (running int, err error) {
	for token := ""; ; {
		page, err := b.client.ListJobs(ctx, &apiv1.ListJobsRequest{Limit: api.PageItemsMax, PageToken: token})
		if err != nil {
			return running, err
		}
		for _, one := range page.GetItems() {
			for _, sub := range one.GetSubJobs() {
				running += int(sub.GetRunning())
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return running, nil
		}
	}
}

// looks measures how long the status of one job takes.
func (b *jobsBench) looks(ctx context.Context) error {
	var times []time.Duration
	for range jobsLooks {
		sent := time.Now()
		if _, err := b.client.GetJob(ctx, &apiv1.GetJobRequest{Name: jobName(rand.IntN(b.jobs))}); err != nil {
			return err
		}
		times = append(times, time.Since(sent))
	}
	b.row("status of one, with its tasks", fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", ms(quantile(times, 0.5)), ms(quantile(times, 0.99))),
		fmt.Sprintf("%d, one after the other, through the leading master", jobsLooks))
	return nil
}

// lists measures how long the list of all jobs takes, in pages.
func (b *jobsBench) lists(ctx context.Context) error {
	began := time.Now()
	if _, err := b.list(ctx); err != nil {
		return err
	}
	b.row("list of all", fmt.Sprintf("%.0f ms", ms(time.Since(began))), fmt.Sprintf("in pages of %d", api.PageItemsMax))
	return nil
}

// changes measures one change after the other: a job of one task is submitted, runs, and is deleted.
func (b *jobsBench) changes(ctx context.Context) error {
	var times []time.Duration
	used, leader := b.used(), ownCPU(b.leader.process.Process.Pid)
	for i := range jobsChanges {
		sent := time.Now()
		if err := b.change(ctx, fmt.Sprintf("more-%05d-%d", b.jobs, i)); err != nil {
			return err
		}
		times = append(times, time.Since(sent))
	}
	perChange := func(seconds float64) float64 { return 1000 * seconds / jobsChanges }
	b.row("one more is submitted, runs, is deleted, is gone", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", ms(quantile(times, 0.5)), ms(quantile(times, 0.99))),
		fmt.Sprintf("%d, one after the other; of a processor the manager uses %.2f ms for each, the leader %.2f ms", jobsChanges,
			perChange(b.used()-used), perChange(ownCPU(b.leader.process.Process.Pid)-leader)))
	return nil
}

func (b *jobsBench) change(ctx context.Context, name string) error {
	if _, err := b.client.SubmitJob(ctx, &apiv1.SubmitJobRequest{Job: job(name, 1)}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // it ends the watch
	watch, err := b.client.WatchJob(ctx, &apiv1.GetJobRequest{Name: name})
	if err != nil {
		return err
	}
	for asked := false; ; {
		status, err := watch.Recv()
		switch {
		case err != nil && asked:
			return nil // the job is gone, and with it the watch
		case err != nil:
			return err
		case !asked && status.GetSubJobs()[0].GetRunning() == 1:
			asked = true
			if _, err := b.client.DeleteJob(ctx, &apiv1.DeleteJobRequest{Name: name}); err != nil {
				return err
			}
		}
	}
}

func (b *jobsBench) memory(context.Context) error {
	b.row("memory", fmt.Sprintf("%.0f MB in the manager", residentMB(b.managers[0].PID())),
		fmt.Sprintf("%.0f MB in the leading master", residentMB(b.leader.process.Process.Pid)))
	return nil
}

// takeOver kills the manager again and again, and measures how long it takes until the next one has the jobs.
func (b *jobsBench) takeOver(ctx context.Context) error {
	var without, silent, known []time.Duration
	var used []float64
	for range b.runs {
		killed := time.Now()
		if err := b.managers[0].Kill(); err != nil {
			return err
		}
		b.managers = b.managers[1:]
		if err := b.answers(ctx, func(ctx context.Context) error {
			_, err := b.client.GetJob(ctx, &apiv1.GetJobRequest{Name: jobName(b.jobs - 1)})
			return err
		}); err != nil {
			return err
		}
		silent = append(silent, time.Since(killed))
		used = append(used, b.used())
		turn, here, err := b.turn()
		if err != nil {
			return err
		}
		without = append(without, here.Sub(turn))
		if err := b.allRun(ctx); err != nil {
			return err
		}
		known = append(known, time.Since(killed))
		if err := b.startManager(); err != nil {
			return err
		}
	}
	b.row("kill -9 of the manager: from the next one's turn until it has all jobs",
		fmt.Sprintf("%.2f s (%.2f to %.2f)", quantile(without, 0.5).Seconds(), slices.Min(without).Seconds(), slices.Max(without).Seconds()),
		fmt.Sprintf("%d times; %.1f s from the kill to its first answer, until which it used %.2f s of a processor, %.1f s until it knows again "+
			"that all tasks run; then it has %.0f MB", b.runs, quantile(silent, 0.5).Seconds(), median(used), quantile(known, 0.5).Seconds(),
			residentMB(b.managers[0].PID())))
	return nil
}

// turn reads from the next manager's log when it became the active one, and when it had all jobs.
func (b *jobsBench) turn() (turn, here time.Time, err error) {
	text, err := os.ReadFile(b.managers[0].Log)
	if err != nil {
		return turn, here, err
	}
	for line := range bytes.Lines(text) {
		stamp, _, _ := strings.Cut(strings.TrimPrefix(string(line), "time="), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		switch {
		case err != nil:
		case bytes.Contains(line, []byte("msg=subscribed")):
			turn = at
		case bytes.Contains(line, []byte("the jobs of the store are here")):
			here = at
		}
	}
	if turn.IsZero() || here.IsZero() {
		return turn, here, fmt.Errorf("the log of the next manager says nothing of its turn:\n%s", text)
	}
	return turn, here, nil
}
