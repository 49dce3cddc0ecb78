package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/tools/devcluster"
)

// single is a scheduler that runs one task after the other on an idle cluster and measures the time of each step.
type single struct {
	dir    string
	total  int
	client *framework.Client
	ending

	next      int
	submitted time.Time
	process   []time.Duration // from submit to the clock of the task's process
	running   []time.Duration // from submit to RUNNING at the scheduler
}

func latency(ctx context.Context, cluster *devcluster.Cluster, o options) error {
	dir, err := filepath.Abs(cluster.Dir)
	if err != nil {
		return err
	}
	rate, _, err := plainSpawn(o.singles, 1)
	if err != nil {
		return err
	}
	spawn := time.Duration(float64(time.Second) / rate)
	s := &single{dir: dir, total: o.singles}
	if err := s.run(ctx, cluster); err != nil {
		return err
	}
	show := func(name string, times []time.Duration) {
		times = times[len(times)/10:] // the first tenth warms up
		row("one task on an idle cluster: submitted to "+name,
			fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", ms(quantile(times, 0.5)), ms(quantile(times, 0.99))),
			fmt.Sprintf("%d tasks, one after the other; %.1f and %.1f plain spawns of %.2f ms", len(times),
				float64(quantile(times, 0.5))/float64(spawn), float64(quantile(times, 0.99))/float64(spawn), ms(spawn)))
	}
	show("its process reading the clock (sh and date included)", s.process)
	show("RUNNING seen by the framework", s.running)
	atMost("RUNNING seen, p50 in plain spawns", float64(quantile(s.running, 0.5))/float64(spawn), 4)
	atMost("RUNNING seen, p99 in plain spawns", float64(quantile(s.running, 0.99))/float64(spawn), 10)
	return nil
}

// run runs all tasks.
func (s *single) run(ctx context.Context, cluster *devcluster.Cluster) error {
	ctx, s.finish = context.WithCancel(ctx)
	defer s.finish()
	config := framework.Config{
		Name: "latency", Masters: strings.Split(cluster.MasterAddresses(), ","), TeardownAtEnd: true, Suppressed: true,
	}
	if err := framework.Run(ctx, config, s); err != nil {
		return err
	}
	return s.failure
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *single) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	if err := client.Revive(); err != nil {
		return err
	}
	return s.submit()
}

// submit tells the demand for one task; the time is measured from here on.
func (s *single) submit() error {
	s.submitted = time.Now()
	return s.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: taskResources, Count: 1}}})
}

func (s *single) file(n int) string { return filepath.Join(s.dir, strconv.Itoa(n)) }

func (s *single) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.next > len(s.process) {
		return nil // it is on its way
	}
	task := api.Task{
		ID:        api.TaskID("t" + strconv.Itoa(s.next)),
		Resources: taskResources,
		Command:   &api.Command{Shell: "date +%s%N > " + s.file(s.next)},
	}
	s.next++
	answer := api.Launch(offers[0], task)
	answer.Filter = api.NoFilter
	answers := []api.Answer{answer}
	for _, offer := range offers[1:] {
		answers = append(answers, api.Answer{Offers: []api.OfferID{offer.ID}, Filter: api.NoFilter})
	}
	if err := s.client.Demand(api.Demand{}); err != nil {
		s.fail(err)
	}
	return answers
}

func (s *single) Update(_ context.Context, status api.Status) error {
	switch {
	case status.State == api.TaskRunning && len(s.running) < s.next:
		s.running = append(s.running, time.Since(s.submitted))
	case status.State == api.TaskFinished:
		s.fail(s.finished())
	case status.State.Terminal():
		s.fail(fmt.Errorf("%s is %s: %s", status.Task, status.State, status.Message))
	}
	return nil
}

func (s *single) finished() error {
	text, err := os.ReadFile(s.file(len(s.process)))
	if err != nil {
		return err
	}
	nanos, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return err
	}
	s.process = append(s.process, time.Unix(0, nanos).Sub(s.submitted))
	if len(s.process) == s.total {
		s.finish()
		return nil
	}
	return s.submit()
}
