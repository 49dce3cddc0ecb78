package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/pause"
)

// failover kills the leading master again and again and measures the time until a task that
// was asked for afterwards is RUNNING through the next one, for two profiles of Raft.
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
	trio, err := newTrio(o, profile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trio.stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	probe := &probe{ending: ending{finish: cancel}}
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{Name: "failover", Masters: trio.addresses(), FailoverTimeout: time.Hour}, probe)
	}()
	for range o.kills {
		leader, err := trio.healthy(ctx)
		if err != nil {
			break
		}
		if err := trio.kill(leader); err != nil {
			return times, err
		}
		killed := time.Now()
		ran, err := probe.after(ctx, killed)
		if err != nil {
			break
		}
		times = append(times, ran.Sub(killed))
		if err := trio.start(leader); err != nil {
			return times, err
		}
	}
	cancel()
	return times, errors.Join(<-ended, probe.failure)
}

// probe runs one short task after the other.
type probe struct {
	ending
	next     int
	flying   int
	launched map[api.TaskID]time.Time
	running  atomic.Pointer[ran]
}

// ran is the newest task that was seen RUNNING.
type ran struct{ launched, running time.Time }

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

// trio is three durable masters and an agent, each a process of its own.
type trio struct {
	dir     string
	masters []*devcluster.Process
	grpc    []string
	conns   []apiv1.OperatorServiceClient
	agent   *devcluster.Process
}

func newTrio(o options, profile string) (*trio, error) {
	dir, err := os.MkdirTemp(o.dir, "failover-")
	if err != nil {
		return nil, err
	}
	ports, err := devcluster.FreePorts(6)
	if err != nil {
		return nil, err
	}
	t := &trio{dir: dir}
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("m%d=127.0.0.1:%d", i+1, ports[2*i]))
	}
	for i := range 3 {
		address := fmt.Sprint("127.0.0.1:", ports[2*i+1])
		t.grpc = append(t.grpc, address)
		t.masters = append(t.masters, &devcluster.Process{Binary: o.binary, Log: filepath.Join(dir, fmt.Sprintf("m%d.log", i+1)), Args: []string{
			"master", "--insecure", "--id", fmt.Sprint("m", i+1), "--data-dir", filepath.Join(dir, fmt.Sprint("m", i+1)), "--peers", strings.Join(peers, ","),
			"--grpc-port", fmt.Sprint(ports[2*i+1]), "--raft-port", fmt.Sprint(ports[2*i]), "--http-port", "0", "--raft-profile", profile,
		}})
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		t.conns = append(t.conns, apiv1.NewOperatorServiceClient(conn))
	}
	t.agent = &devcluster.Process{Binary: o.binary, Log: filepath.Join(dir, "a1.log"), Args: []string{
		"agent", "--insecure", "--master", strings.Join(t.grpc, ","), "--data-dir", filepath.Join(dir, "a1"), "--http-port", "0",
		"--task-user", devcluster.Me(),
		"--resources", "cpus:4;mem:4096;disk:4096", "--recovery-timeout", "2s",
	}}
	for _, process := range append(t.masters, t.agent) {
		if err := process.Start(); err != nil {
			return nil, errors.Join(err, t.stop())
		}
	}
	return t, nil
}

func (t *trio) addresses() []string { return t.grpc }

// healthy waits until all masters are well and the agent has reported, then names who
// leads.
func (t *trio) healthy(ctx context.Context) (leader int, err error) {
	for ; ctx.Err() == nil; pause.For(ctx, 20*time.Millisecond) {
		for i := range t.conns {
			if t.isHealthy(ctx, i) {
				pause.For(ctx, time.Second) // followers have caught up
				return i, nil
			}
		}
	}
	return 0, ctx.Err()
}

func (t *trio) isHealthy(ctx context.Context, leader int) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	agents, err := t.conns[leader].ListAgents(ctx, &apiv1.ListRequest{})
	if err != nil || len(agents.GetItems()) != 1 || agents.GetItems()[0].GetState() != "RUNNING" {
		return false
	}
	masters, err := t.conns[leader].ListMasters(ctx, &apiv1.ListRequest{})
	if err != nil || len(masters.GetItems()) != len(t.conns) {
		return false
	}
	for i, master := range masters.GetItems() {
		if master.GetState() == "unreachable" {
			return false
		}
		if _, err := t.conns[i].GetCluster(ctx, &apiv1.GetClusterRequest{}); err != nil {
			return false
		}
	}
	return true
}

func (t *trio) kill(i int) error  { return t.masters[i].Kill() }
func (t *trio) start(i int) error { return t.masters[i].Start() }

func (t *trio) stop() error {
	var err error
	for _, process := range append(t.masters, t.agent) {
		err = errors.Join(err, process.Kill())
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}
