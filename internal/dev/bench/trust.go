package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/dev/devcluster"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

// trustCost measures what certificates cost in comparison with none. Lives and launches are measured in turns on two
// clusters that both run, and the return of agents to another leader on one cluster after the other; trust/returns
// measures only that.
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

// members are three masters and two agents, each a process of its own.
type members struct {
	*quorum
	agents  []*devcluster.Process
	cluster *devcluster.Cluster // as much of a cluster as a load needs
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

// enrol writes a certificate into an agent's folder, if there are certificates.
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

// cpu returns the processor time, in seconds, that the members and this process have used.
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

// trustOfTasks runs the same tasks with and without certificates, in turns.
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
			which := (i + turn) % 2 // each comes first equally often
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

// measure returns the µs of processor time for each life, and the ms until a task is RUNNING.
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

const (
	// trustAgents is how many agents come back, unless a flag says otherwise.
	trustAgents = 2000
	// beatsPerSecond is how many heartbeats all agents together send, unless a flag says how often each does. More
	// would keep a machine with two cores busy, on which their return is to be measured.
	beatsPerSecond = 2000
	// filesBeside is how many descriptors a process needs besides one for each agent: some agents have two connections
	// for a moment.
	filesBeside = 1000
)

// enoughFiles returns an error if this process may not have a file for each of that many agents.
func enoughFiles(agents int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if want := uint64(agents + agents/10 + filesBeside); limit.Max < want {
		return fmt.Errorf("%d agents in one process, and their leader, need %d file descriptors each, and %d are allowed; say ulimit -n %d before, or ask for fewer -agents",
			agents, want, limit.Max, want)
	}
	return nil
}

// comebacks are the ways in which agents come back: in plain text, or with TLS, with and without resuming sessions.
var comebacks = []struct {
	name  string
	proof bool
	more  []string
}{{"in plain text", false, nil}, {"with sessions taken up", true, nil}, {"each with a handshake of its own", true, []string{"-anew"}}}

// comeback is one result: how long it took until all agents had reported to the next leader, what it cost, how many
// connections each agent made, and how many masters refused each at the first message because they did not lead.
type comeback struct{ all, masters, agents, conns, refused float64 }

func (c comeback) String() string {
	return fmt.Sprintf("back after %.2f s; for each: masters %.2f ms, agents' process %.2f ms, %.2f connections, %.2f refusals", c.all, c.masters, c.agents, c.conns, c.refused)
}

func trustOfReturns(ctx context.Context, o options) error {
	if o.heartbeat == 0 {
		o.heartbeat = max(time.Second, (time.Duration(o.agents) * time.Second / beatsPerSecond).Round(time.Second))
	}
	seen := make([][]comeback, len(comebacks))
	for turn := range o.runs {
		for i := range comebacks {
			which := (i + turn) % len(comebacks)
			name := fmt.Sprintf("run %d of %d, %d agents %s", turn+1, o.runs, o.agents, comebacks[which].name)
			log.Printf("%s: they come together, a heartbeat every %v", name, o.heartbeat)
			one, err := comeBack(ctx, o, which)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			log.Printf("%s: %v", name, one)
			seen[which] = append(seen[which], one)
		}
	}
	of := func(which int, what func(comeback) float64) float64 {
		var all []float64
		for _, one := range seen[which] {
			all = append(all, what(one))
		}
		return median(all)
	}
	for i, kind := range comebacks {
		all := of(i, func(c comeback) float64 { return c.all })
		row(fmt.Sprintf("%d agents come back after kill -9 of the leader, %s", o.agents, kind.name), fmt.Sprintf("%.2f s", all),
			fmt.Sprintf("%.2f of plain text, aim 1.5; processor time for each: masters %.2f ms, agents' process %.2f ms; %.2f connections and %.2f refusals each; load of the machine %.0f",
				all/of(0, func(c comeback) float64 { return c.all }), of(i, func(c comeback) float64 { return c.masters }),
				of(i, func(c comeback) float64 { return c.agents }), of(i, func(c comeback) float64 { return c.conns }), of(i, func(c comeback) float64 { return c.refused }), machineLoad()))
	}
	return nil
}

// comeBack founds a quorum with that many agents and kills its leader.
func comeBack(ctx context.Context, o options, which int) (one comeback, err error) {
	q, more := &quorum{flags: append([]string{"--log-level", "warn"}, beating(o.heartbeat)...)}, comebacks[which].more
	if comebacks[which].proof {
		if q.proof, err = newProof(); err != nil {
			return one, err
		}
	}
	defer func() { err = errors.Join(err, q.stop()) }()
	if err := q.found(ctx, o.binary, o.dir); err != nil {
		return one, err
	}
	if q.proof != nil {
		more = append([]string{"-key", q.nodes[0].dir}, more...)
	}
	f, err := startFlock(o.agents, q.addresses(), more...)
	if err != nil {
		return one, err
	}
	defer f.stop()
	before, err := f.whole(ctx, o.agents, api.Term{})
	if err != nil {
		return one, err
	}
	pause.For(ctx, 2*o.heartbeat) // so that all are told over how long to spread their return
	leader, err := q.leader(ctx)
	if err != nil {
		return one, err
	}
	killed := time.Now()
	leader.kill()
	h := &herding{quorum: q, agents: o.agents, flock: f}
	started := h.cpu(nil)
	back, err := f.whole(ctx, o.agents, before.Term)
	if err != nil {
		return one, err
	}
	used := h.cpu(nil).since(started, time.Second)
	each := 1e3 / float64(o.agents)
	return comeback{
		all: back.At.Sub(killed).Seconds(), masters: (used.leader + used.followers) * each, agents: used.flock * each,
		conns: float64(back.Conns-before.Conns) / float64(o.agents), refused: float64(back.Refused-before.Refused) / float64(o.agents),
	}, nil
}
