package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/trust"
)

// trustCost measures what certificates cost, beside the same without: of lives and launches in turns on two clusters that are
// both there, and of agents that come back to another leader on one cluster after the other; trust/returns is only that.
func trustCost(ctx context.Context, o options) error {
	if o.agents == 0 {
		o.agents = trustAgents
	}
	if err := enoughFiles(o.agents); err != nil {
		return err
	}
	headline(o)
	if o.only == "trust" {
		if err := trustOfTasks(ctx, o); err != nil {
			return err
		}
	}
	return trustOfReturns(ctx, o)
}

// members are three masters and two agents, all processes of their own.
type members struct {
	*quorum
	agents  []*devcluster.Process
	cluster *devcluster.Cluster // as far as a load needs one
}

func startMembers(ctx context.Context, o options, p *proof) (m *members, err error) {
	parent, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	m = &members{quorum: &quorum{flags: []string{"--log-level", "warn"}, proof: p}}
	if err := m.found(ctx, o.binary, parent); err != nil {
		return m, err
	}
	m.cluster = &devcluster.Cluster{Dir: m.dir}
	for _, n := range m.nodes {
		m.cluster.Masters = append(m.cluster.Masters, devcluster.Node{ID: n.id, GRPC: n.grpc})
	}
	for _, name := range []string{"a1", "a2"} {
		folder := filepath.Join(m.dir, name)
		how, err := p.enrol(folder, name)
		if err != nil {
			return m, err
		}
		agent := &devcluster.Process{Binary: o.binary, Log: folder + ".log", Args: []string{
			"agent", how, "--master", m.cluster.MasterAddresses(), "--data-dir", folder, "--bind", "127.0.0.1", "--http-port", "0",
			"--hostname", name, "--resources", "cpus:64;mem:65536", "--isolation", "none", "--task-user", devcluster.Me(), "--log-level", "warn",
		}}
		m.agents = append(m.agents, agent)
		if err := agent.Start(); err != nil {
			return m, err
		}
	}
	return m, nil
}

// enrol gives an agent's folder a certificate, if there are any.
func (p *proof) enrol(folder, name string) (flag string, err error) {
	if p == nil {
		return "--insecure", nil
	}
	authority, err := p.key.Authority()
	if err != nil {
		return "", err
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Agent, Name: name}, time.Now())
	if err != nil {
		return "", err
	}
	return "--insecure=false", errors.Join(os.MkdirAll(folder, 0o700), trust.WritePass(filepath.Join(folder, membership.PassFile), pass))
}

func (m *members) end() error {
	var err error
	for _, agent := range m.agents {
		err = errors.Join(err, agent.Stop())
	}
	return errors.Join(err, m.quorum.stop())
}

// cpu is the processor time, in seconds, that the members and this process have used.
func (m *members) cpu() float64 {
	sum := ownCPU(os.Getpid())
	for _, n := range m.nodes {
		sum += cpuOf(n.process.Process.Pid)
	}
	for _, agent := range m.agents {
		sum += cpuOf(agent.PID())
	}
	return sum
}

// trustOfTasks runs the same tasks with certificates and without, in turns.
func trustOfTasks(ctx context.Context, o options) (err error) {
	p, err := newProof()
	if err != nil {
		return err
	}
	kinds := []*proof{nil, p}
	var both [2]*members
	for i, kind := range kinds {
		m, failed := startMembers(ctx, o, kind)
		if m != nil {
			defer func() { err = errors.Join(err, m.end()) }()
		}
		if both[i] = m; failed != nil {
			return failed
		}
	}
	self, err := executor.Self("noop")
	if err != nil {
		return err
	}
	var cpus, p50s [2][]float64
	var ratios, later []float64
	for turn := range o.runs + 1 {
		var cpu, p50 [2]float64
		for i := range both {
			which := (i + turn) % 2 // each is first as often
			if cpu[which], p50[which], err = both[which].measure(ctx, o, self, kinds[which].dialer()); err != nil {
				return err
			}
		}
		if turn == 0 {
			continue
		}
		for i := range both {
			cpus[i], p50s[i] = append(cpus[i], cpu[i]), append(p50s[i], p50[i])
		}
		ratios, later = append(ratios, cpu[1]/cpu[0]), append(later, p50[1]-p50[0])
	}
	row("processor time for a life of an empty task, with certificates", fmt.Sprintf("%.0f µs", median(cpus[1])),
		fmt.Sprintf("without: %.0f µs; ratio %.2f (%.2f to %.2f), aim 1.15; load of the machine %.0f", median(cpus[0]), median(ratios), slices.Min(ratios), slices.Max(ratios), machineLoad()))
	row("one task, submitted to RUNNING seen by the framework, with certificates", fmt.Sprintf("p50 %.2f ms", median(p50s[1])),
		fmt.Sprintf("without: %.2f ms; later by %.2f ms (%.2f to %.2f), aim 1 ms", median(p50s[0]), median(later), slices.Min(later), slices.Max(later)))
	return nil
}

// measure is the µs of processor time for a life, and the ms to a task's RUNNING.
func (m *members) measure(ctx context.Context, o options, self *api.Executor, dial trust.Dial) (cpu, p50 float64, err error) {
	l := &load{task: func(int) api.Task { return api.Task{Executor: self} }, total: o.tasks, window: 2000, dial: dial}
	before := m.cpu()
	if err := runLoad(ctx, m.cluster, l); err != nil {
		return 0, 0, err
	}
	cpu = (m.cpu() - before) * 1e6 / float64(o.tasks)
	s := &single{dir: m.dir, total: o.singles}
	if err := s.run(ctx, m.cluster, dial); err != nil {
		return 0, 0, err
	}
	return cpu, ms(quantile(s.running[len(s.running)/10:], 0.5)), nil
}
