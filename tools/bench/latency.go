package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/tools/devcluster"
)

// single is a scheduler that runs one task after the other on an idle cluster and measures the time of each step.
type single struct {
	total  int
	client *framework.Client
	ending

	next      int
	ended     int
	submitted time.Time
	running   []time.Duration // from submit to RUNNING at the scheduler
}

func latency(ctx context.Context, cluster *devcluster.Cluster, o options) (err error) {
	rate, _, err := plainSpawn(o.singles, 1)
	if err != nil {
		return err
	}
	spawn := time.Duration(float64(time.Second) / rate)
	b, err := startBare(o.dir)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	limits, err := b.singles(ctx, o.singles)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	s := &single{total: o.singles}
	if err := s.run(ctx, cluster); err != nil {
		return err
	}
	times, limits := s.running[len(s.running)/10:], limits[len(limits)/10:] // the first tenth warms up
	p50, p99 := quantile(times, 0.5), quantile(times, 0.99)
	row("one task on an idle cluster: submitted to RUNNING seen by the framework", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", ms(p50), ms(p99)),
		fmt.Sprintf("%d tasks, one after the other; %.1f and %.1f plain spawns of %.2f ms", len(times), float64(p50)/float64(spawn), float64(p99)/float64(spawn), ms(spawn)))
	atMost("RUNNING seen, p50 in plain spawns", float64(p50)/float64(spawn), 4)
	limited(float64(quantile(limits, 0.5)) / float64(spawn))
	atMost("RUNNING seen, p99 in plain spawns", float64(p99)/float64(spawn), 10)
	limited(float64(quantile(limits, 0.99)) / float64(spawn))
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

func (s *single) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.next > s.ended {
		return nil // it is on its way
	}
	task := api.Task{
		ID:        api.TaskID("t" + strconv.Itoa(s.next)),
		Resources: taskResources,
		Command:   &api.Command{Argv: []string{"/bin/true"}},
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
	if s.ended++; s.ended == s.total {
		s.finish()
		return nil
	}
	return s.submit()
}
