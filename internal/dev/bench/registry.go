package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	registryAgents     = 50_000
	registryFrameworks = 1_000
	// registryClients is how many clients register at the same time.
	registryClients = 64
	registryKills   = 5
)

// bigRegistry measures masters with the registry of a large cluster. Every agent and framework was admitted by its own
// registration, over the network and through the quorum.
func bigRegistry(ctx context.Context, o options) (err error) {
	q, err := startQuorum(ctx, o.binary, o.dir)
	if q != nil {
		defer func() { err = errors.Join(err, q.stop()) }()
	}
	if err != nil {
		return err
	}
	leader, err := q.leader(ctx)
	if err != nil {
		return err
	}
	if err := fillRegistry(ctx, leader); err != nil {
		return err
	}
	for _, measure := range []func(context.Context, *quorum) error{snapshotRow, failoverRow, restartRow} {
		if err := measure(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

const registryWhat = "a registry of 50,000 agents and 1,000 frameworks: "

func fillRegistry(ctx context.Context, leader *node) error {
	began := time.Now()
	if err := inParallel(registryAgents, func(i int) error { return register(ctx, leader.client, i) }); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	agents := time.Since(began)
	if err := inParallel(registryFrameworks, func(i int) error { return subscribe(ctx, leader.client, i) }); err != nil {
		return fmt.Errorf("frameworks: %w", err)
	}
	row(registryWhat+"admitted, each by a session of its own", fmt.Sprintf("%.0f agents/s", registryAgents/agents.Seconds()),
		fmt.Sprintf("%.0f MB resident in the leader", residentMB(leader.process.Process.Pid)))
	return nil
}

// inParallel calls do for all numbers below n, several at the same time, and returns the first error.
func inParallel(n int, do func(i int) error) error {
	work := make(chan int)
	failed := make(chan error, registryClients)
	var workers sync.WaitGroup
	for range registryClients {
		workers.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					failed <- err
					break
				}
			}
			for range work { // another worker has failed
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
	close(failed)
	return <-failed
}

// register makes an agent's first contact and then ends its stream.
func register(ctx context.Context, conn *grpc.ClientConn, i int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apiv1.NewAgentServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	resources, err := api.ParseResources("cpus:64;mem:262144;disk:1000000;ports:[31000-32000]")
	if err != nil {
		return err
	}
	host := fmt.Sprintf("node-%05d.rack-%03d.example.com", i, i/40)
	call := &apiv1.AgentCall{Call: &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{
		Version: "bench", Nonce: fmt.Sprintf("nonce-%026d", i), BootId: fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
		Agent: &apiv1.Agent{
			Hostname: host, Resources: wire.ResourcesToProto(resources), Region: "eu", Zone: fmt.Sprint("zone-", i%3),
			Attributes: map[string]string{"rack": fmt.Sprint("rack-", i/40), "os": "linux", "generation": "7"},
			Address:    host + ":5051", Version: "bench",
		},
	}}}
	if err := stream.Send(&apiv1.AgentCalls{Calls: []*apiv1.AgentCall{call}}); err != nil {
		return err
	}
	events, err := stream.Recv()
	if err == nil && (len(events.GetEvents()) == 0 || events.GetEvents()[0].GetRegistered() == nil) {
		err = fmt.Errorf("%s was answered %v", host, events)
	}
	return err
}

// subscribe makes a framework's first contact and then ends its stream.
func subscribe(ctx context.Context, conn *grpc.ClientConn, i int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apiv1.NewSchedulerServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	call := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Subscribe{Subscribe: &apiv1.Subscribe{
		Version: "bench", Instance: fmt.Sprintf("instance-%026d", i),
		Framework: &apiv1.Framework{
			Name: fmt.Sprint("framework-of-team-", i), Roles: []string{fmt.Sprint("team/", i)}, FailoverTimeout: durationpb.New(24 * time.Hour),
		},
		Suppressed: []string{fmt.Sprint("team/", i)},
	}}}
	if err := stream.Send(&apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{call}}); err != nil {
		return err
	}
	events, err := stream.Recv()
	if err == nil && (len(events.GetEvents()) == 0 || events.GetEvents()[0].GetSubscribed() == nil) {
		err = fmt.Errorf("framework %d was answered %v", i, events)
	}
	return err
}

// snapshotRow saves a snapshot as an operator does.
func snapshotRow(ctx context.Context, q *quorum) error {
	leader, err := q.leader(ctx)
	if err != nil {
		return err
	}
	var times []time.Duration
	size := 0
	for range 3 {
		began := time.Now()
		stream, err := apiv1.NewRaftServiceClient(leader.client).SaveSnapshot(ctx, &apiv1.SaveSnapshotRequest{})
		if err != nil {
			return err
		}
		size = 0
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			size += len(chunk.GetData())
		}
		times = append(times, time.Since(began))
	}
	disk, err := folderBytes(leader.dir)
	row(registryWhat+"a snapshot, written and sent", fmt.Sprintf("%.0f ms", ms(quantile(times, 0.5))),
		fmt.Sprintf("%.1f MB; the leader's folder with log and snapshots: %.1f MB", mb(size), mb(disk)))
	return err
}

func mb[N int | int64](n N) float64 { return float64(n) / 1e6 }

func folderBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// failoverRow kills the leader again and again and measures how long it takes until another master answers.
func failoverRow(ctx context.Context, q *quorum) error {
	var times, rejoins []time.Duration
	for range registryKills {
		leader, err := q.leader(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		leader.kill()
		if _, err := q.leader(ctx); err != nil {
			return err
		}
		times = append(times, time.Since(began))
		began = time.Now()
		if err := q.start(leader); err != nil {
			return err
		}
		if err := leader.follows(ctx); err != nil {
			return err
		}
		rejoins = append(rejoins, time.Since(began))
	}
	row(registryWhat+"kill -9 of the leader to the next one's first answer",
		fmt.Sprintf("p50 %.0f ms, max %.0f ms", ms(quantile(times, 0.5)), ms(slices.Max(times))), fmt.Sprintf("%d kills", registryKills))
	row(registryWhat+"start of the killed one until it answers with all of it", fmt.Sprintf("p50 %.0f ms, max %.0f ms",
		ms(quantile(rejoins, 0.5)), ms(slices.Max(rejoins))), "")
	return nil
}

// follows waits until a follower has the whole registry, as its answers to stale reads show.
func (n *node) follows(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, electionMax)
	defer cancel()
	last := fmt.Sprint("framework-", registryFrameworks)
	for {
		n.client.ResetConnectBackoff()
		list, err := apiv1.NewOperatorServiceClient(n.client).ListFrameworks(ctx, &apiv1.ListRequest{Limit: 1, Prefix: last, Stale: true})
		if err == nil && len(list.GetItems()) == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not come back", n.id), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// restartRow ends all masters and starts them again.
func restartRow(ctx context.Context, q *quorum) error {
	var times []time.Duration
	for range 3 {
		for _, n := range q.nodes {
			n.kill()
		}
		began := time.Now()
		for _, n := range q.nodes {
			if err := q.start(n); err != nil {
				return err
			}
		}
		if _, err := q.leader(ctx); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	var disks []string
	for _, n := range q.nodes {
		size, err := folderBytes(n.dir)
		if err != nil {
			return err
		}
		disks = append(disks, fmt.Sprintf("%.0f MB", mb(size)))
	}
	row(registryWhat+"start of all three masters to the leader's first answer", fmt.Sprintf("p50 %.1f s, max %.1f s",
		quantile(times, 0.5).Seconds(), slices.Max(times).Seconds()), "on disk "+strings.Join(disks, ", "))
	return nil
}
