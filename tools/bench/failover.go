package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/tools/devcluster"
)

// failover kills the leading master again and again and measures the time until a task that was asked for afterwards
// is RUNNING through the next one, for two profiles of Raft.
func failover(ctx context.Context, o options) error {
	for _, profile := range []string{"lan", "fast"} {
		times, err := killLeaders(ctx, o, profile)
		if err != nil {
			return fmt.Errorf("profile %s: %w", profile, err)
		}
		row("kill -9 of the leader to a new task RUNNING, profile "+profile,
			fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms", ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), ms(quantile(times, 1))),
			fmt.Sprintf("%d kills; load of the machine %.0f", len(times), machineLoad()))
	}
	return nil
}

func killLeaders(ctx context.Context, o options, profile string) (times []time.Duration, err error) {
	q := &quorum{flags: []string{"--log-level", "warn", "--raft-profile", profile}}
	defer func() { err = errors.Join(err, q.stop()) }()
	if err := q.found(ctx, o.binary, o.dir); err != nil {
		return nil, err
	}
	agent := &devcluster.Process{Binary: o.binary, Log: filepath.Join(q.dir, "a1.log"), Args: []string{
		"agent", "--insecure", "--master", strings.Join(q.addresses(), ","), "--data-dir", filepath.Join(q.dir, "a1"), "--http-port", "0",
		"--task-user", devcluster.Me(), "--resources", "cpus:4;mem:4096;disk:4096", "--recovery-timeout", "2s",
	}}
	if err := agent.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.Kill()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	probe := &probe{ending: ending{finish: cancel}}
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{Name: "failover", Masters: q.addresses(), FailoverTimeout: time.Hour}, probe)
	}()
	err = probe.measure(ctx, q, o.kills)
	cancel()
	return probe.times, errors.Join(err, <-ended, probe.failure)
}

// probe runs one short task after the other.
type probe struct {
	ending
	next     int
	flying   int
	launched map[api.TaskID]time.Time
	running  atomic.Pointer[ran]
	times    []time.Duration
}

// ran is the newest task that was seen RUNNING.
type ran struct{ launched, running time.Time }

// measure kills so many leaders, each while all masters are well.
func (p *probe) measure(ctx context.Context, q *quorum, kills int) error {
	if _, err := p.after(ctx, time.Time{}); err != nil {
		return err
	}
	for range kills {
		leader, err := q.leader(ctx)
		if err != nil {
			return err
		}
		leader.kill()
		killed := time.Now()
		ran, err := p.after(ctx, killed)
		if err != nil {
			return err
		}
		p.times = append(p.times, ran.Sub(killed))
		if err := errors.Join(q.start(leader), leader.knows(ctx)); err != nil {
			return err
		}
		pause.For(ctx, time.Second) // it catches up
	}
	return nil
}

func (p *probe) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		if p.flying >= 2 {
			answers = append(answers, api.Decline(offer, 50*time.Millisecond))
			continue
		}
		if p.launched == nil {
			p.launched = map[api.TaskID]time.Time{}
		}
		id := api.TaskID(fmt.Sprint("t", p.next))
		p.next++
		p.flying++
		p.launched[id] = time.Now()
		answer := api.Launch(offer, api.Task{ID: id, Resources: taskResources, Command: &api.Command{Shell: "sleep 0.1"}})
		answer.Filter = api.NoFilter
		answers = append(answers, answer)
	}
	return answers
}

func (p *probe) Update(_ context.Context, status api.Status) error {
	launched, known := p.launched[status.Task]
	switch {
	case !known:
	case status.State == api.TaskRunning:
		p.running.Store(&ran{launched, time.Now()})
	case status.State.Terminal():
		delete(p.launched, status.Task)
		p.flying--
	}
	return nil
}

// after waits until a task runs that was launched after a time, and returns when it was RUNNING.
func (p *probe) after(ctx context.Context, moment time.Time) (time.Time, error) {
	for ; ctx.Err() == nil; pause.For(ctx, time.Millisecond) {
		if newest := p.running.Load(); newest != nil && newest.launched.After(moment) {
			return newest.running, nil
		}
	}
	return time.Time{}, ctx.Err()
}
