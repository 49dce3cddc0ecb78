package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// herdSteady is how long the cluster is watched before the leader is killed, and herdLong how long if it is not.
	herdSteady = 10 * time.Second
	herdLong   = 10 * time.Minute
	// herdAfter is how much longer launches may take that were made while the agents came back.
	herdAfter = time.Second
	// herdAgents is how many agents come back, unless a flag says otherwise.
	herdAgents = 10_000
)

// herd kills the leader of many agents, each of which has a task, while a framework keeps launching more. It reports
// how the agents come back, what that costs, and how it affects the launches.
func herd(ctx context.Context, o options) error {
	bare, err := bareReturns(ctx, cmp.Or(o.agents, herdAgents))
	if err != nil {
		return err
	}
	return withHerd(ctx, o, 1, func(ctx context.Context, h *herding) error {
		h.bare = bare
		return h.rounds(ctx, o.runs)
	})
}

// steadyHerd watches many agents for ten minutes in which nothing breaks: none of them should lose its session.
func steadyHerd(ctx context.Context, o options) error {
	return withHerd(ctx, o, 1, func(ctx context.Context, h *herding) error {
		s, err := h.steady(ctx, herdLong)
		if err != nil {
			return err
		}
		h.row(fmt.Sprintf("nothing broken for %v: launch to RUNNING", herdLong), spread(s.latency), fmt.Sprintf("sessions that began meanwhile: %d; load of the machine %.0f", s.sessions, machineLoad()))
		h.row("a beat, if nothing else took time", fmt.Sprintf("%.0f µs of the leader's processor time, %.0f of the agents' process", 1e6*s.leader/s.beats, 1e6*s.flock/s.beats),
			fmt.Sprintf("%.0f beats a second; %s", s.beats, s.spent))
		h.row("memory of the leader", fmt.Sprintf("%.0f MB", s.memory), "resident, at the end")
		atMost(fmt.Sprintf("sessions that %d agents lose in %v", h.agents, herdLong), float64(s.sessions), 0)
		atMost("the same: ms from launch to RUNNING, p99", ms(quantile(s.latency, 0.99)), 20)
		return nil
	})
}

// withHerd measures something in a cluster of many agents, each of which has that many tasks that stay, while a framework
// keeps launching more.
func withHerd(ctx context.Context, o options, each int, measure func(context.Context, *herding) error) (err error) {
	if o.agents == 0 {
		o.agents = herdAgents
	}
	if err := enoughFiles(o.agents); err != nil {
		return err
	}
	q, err := startQuorum(ctx, o, append([]string{"--log-level", "info"}, beating(o.heartbeat)...)...)
	defer func() { err = errors.Join(err, q.stop()) }()
	if err != nil {
		return err
	}
	h := &herding{quorum: q, agents: o.agents}
	if h.flock, err = startFlock(o.agents, q.addresses(), q.flockArguments()...); err != nil {
		return err
	}
	defer h.flock.stop()
	began := time.Now()
	first, err := h.flock.awaitAll(ctx, h.agents, api.Term{})
	if err != nil {
		return err
	}
	h.row("all registered for the first time", fmt.Sprintf("%.1f s", first.At.Sub(began).Seconds()), "")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.work = &herdWork{each: each, standing: o.agents * each, ending: ending{finish: cancel}}
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{
			Name: "herd", Masters: q.addresses(), FailoverTimeout: time.Hour, Token: framework.NoToken, Dialer: q.proof.dialer(),
		}, h.work)
	}()
	if err = h.work.settled(ctx); err == nil {
		err = measure(ctx, h)
	}
	cancel()
	return errors.Join(h.work.failure, err, <-ended)
}

// filesBeside is how many descriptors a process needs besides one for each agent: some agents have two connections for
// a moment.
const filesBeside = 1000

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

// flockArguments are the arguments by which the agents of a flock have certificates, if there are any.
func (q *quorum) flockArguments() []string {
	if q.proof == nil {
		return nil
	}
	return []string{"-key", q.nodes[0].dir}
}

// beating returns the flags for masters whose agents send heartbeats this often; 0: the default.
func beating(every time.Duration) []string {
	if every == 0 {
		return nil
	}
	return []string{"--heartbeat", every.String(), "--session-timeout", (5 * every).String()}
}

// herding is one run.
type herding struct {
	quorum *quorum
	agents int
	flock  *flockProcess
	work   *herdWork
	bare   time.Duration // how long returns take that consist only of what can't be left out
}

func (h *herding) row(what, figure, beside string) {
	row(fmt.Sprintf("%d agents: %s", h.agents, what), figure, beside)
}

func (h *herding) rounds(ctx context.Context, n int) error {
	var rounds []herdRound
	for range n {
		steady, err := h.steady(ctx, herdSteady)
		if err != nil {
			return err
		}
		r, err := h.round(ctx)
		if err != nil {
			return err
		}
		r.steady = steady
		log.Print(r)
		rounds = append(rounds, r)
	}
	h.report(rounds)
	return nil
}

// spent is the processor time that each part used, as a share of one core.
type spent struct{ leader, followers, flock, framework float64 }

func (h *herding) cpu(leader *node) (s spent) {
	for _, n := range h.quorum.nodes {
		switch {
		case n.process == nil:
		case n == leader:
			s.leader = ownCPU(n.process.Process.Pid)
		default:
			s.followers += ownCPU(n.process.Process.Pid)
		}
	}
	s.flock, s.framework = ownCPU(h.flock.child.Process.Pid), ownCPU(os.Getpid())
	return s
}

func (s spent) since(before spent, took time.Duration) spent {
	d := took.Seconds()
	return spent{(s.leader - before.leader) / d, (s.followers - before.followers) / d, (s.flock - before.flock) / d, (s.framework - before.framework) / d}
}

func (s spent) String() string {
	return fmt.Sprintf("cores: leader %.2f, followers %.2f, agents' process %.2f, framework %.2f", s.leader, s.followers, s.flock, s.framework)
}

// herdSteadily is what was measured while nothing was broken.
type herdSteadily struct {
	spent
	latency  []time.Duration
	sessions int     // how many began meanwhile: there should be none
	beats    float64 // how many heartbeats there were in a second
	memory   float64
}

func (h *herding) steady(ctx context.Context, span time.Duration) (s herdSteadily, err error) {
	leader, err := h.quorum.leader(ctx)
	if err != nil {
		return s, err
	}
	from, before := time.Now(), h.cpu(leader)
	first, err := h.flock.awaitAll(ctx, h.agents, api.Term{})
	if err != nil {
		return s, err
	}
	pause.For(ctx, span)
	last, err := h.flock.awaitAll(ctx, h.agents, api.Term{})
	if err != nil {
		return s, err
	}
	took := time.Since(from)
	return herdSteadily{
		spent: h.cpu(leader).since(before, took), latency: h.work.latencies(from, from.Add(took-herdAfter)),
		sessions: last.Sessions - first.Sessions, beats: float64(last.Beats-first.Beats) / took.Seconds(), memory: residentMB(leader.process.Process.Pid),
	}, nil
}

// herdRound is what was measured after one kill.
type herdRound struct {
	steady       herdSteadily
	first, half  time.Duration // until the first, and half of the agents, had reported to the next leader
	almost, all  time.Duration
	session, ran time.Duration // until the framework had a session, and until a new task ran
	latency      []time.Duration
	dropped      int
	began        roll  // what the agents did meanwhile: one session and one connection for each is right
	spent        spent // until all had reported
	memory       float64
}

func (r herdRound) String() string {
	return fmt.Sprintf("back after %.2f s (first %.2f, half %.2f, 99 %% %.2f), session %.2f s, task %.2f s, launch to RUNNING %s; dropped %d, sessions %d, tries %d; %v; before: %s, sessions %d, %v, %.0f MB",
		r.all.Seconds(), r.first.Seconds(), r.half.Seconds(), r.almost.Seconds(), r.session.Seconds(), r.ran.Seconds(), spread(r.latency), r.dropped, r.began.Sessions, r.began.Tries, r.spent,
		spread(r.steady.latency), r.steady.sessions, r.steady.spent, r.steady.memory)
}

func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms (%d)", ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), ms(quantile(times, 1)), len(times))
}

// round kills the leader, waits until all agents are back, and starts the killed master again.
func (h *herding) round(ctx context.Context) (r herdRound, err error) {
	leader, err := h.quorum.leader(ctx)
	if err != nil {
		return r, err
	}
	before, err := h.flock.awaitAll(ctx, h.agents, api.Term{})
	if err != nil {
		return r, err
	}
	dropped := h.work.droppedSoFar()
	killed := time.Now()
	leader.kill()
	started := h.cpu(nil)
	back, err := h.flock.awaitAll(ctx, h.agents, before.Term)
	if err != nil {
		return r, err
	}
	r.all, r.spent = back.At.Sub(killed), h.cpu(nil).since(started, time.Since(killed))
	next, err := h.quorum.leader(ctx)
	if err != nil {
		return r, err
	}
	r.memory = residentMB(next.process.Process.Pid)
	if r.session, r.ran, err = h.work.recovered(ctx, killed); err != nil {
		return r, err
	}
	pause.For(ctx, herdAfter)
	r.first = h.flock.firstWith(1, before.Term).Sub(killed)
	r.half = h.flock.firstWith(h.agents/2, before.Term).Sub(killed)
	r.almost = h.flock.firstWith(h.agents*99/100, before.Term).Sub(killed)
	r.latency = h.work.latencies(killed, back.At)
	r.dropped = h.work.droppedSoFar() - dropped
	r.began = roll{
		Sessions: back.Sessions - before.Sessions, Tries: back.Tries - before.Tries, Conns: back.Conns - before.Conns, Refused: back.Refused - before.Refused,
	}
	if err := h.quorum.start(leader); err != nil {
		return r, err
	}
	return r, leader.knows(ctx)
}

// report writes rows about the median round.
func (h *herding) report(rounds []herdRound) {
	var all, half, session, ran, latency, calm []time.Duration
	var memory []float64
	for _, r := range rounds {
		all, half = append(all, r.all), append(half, r.half)
		session, ran = append(session, r.session), append(ran, r.ran)
		latency, calm = append(latency, r.latency...), append(calm, r.steady.latency...)
		memory = append(memory, r.memory)
	}
	times := func(d []time.Duration) string {
		return fmt.Sprintf("p50 %.2f s, max %.2f s", quantile(d, 0.5).Seconds(), quantile(d, 1).Seconds())
	}
	last := rounds[len(rounds)-1]
	h.row("nothing broken: launch to RUNNING", spread(calm), last.steady.spent.String())
	h.row("kill -9 of the leader until all have reported to the next", times(all), fmt.Sprintf("%d kills; load of the machine %.0f", len(rounds), machineLoad()))
	h.row("until half of them have", times(half), last.spent.String())
	h.row("until the framework has a session", times(session), "")
	h.row("until a new task is RUNNING", times(ran), "")
	h.row("launch to RUNNING while they come back", spread(latency), "")
	each, took := float64(h.agents), 1e3*last.all.Seconds()
	h.row("an agent that comes back", fmt.Sprintf("%.2f ms of processor time in the masters, %.2f in the agents' process",
		(last.spent.leader+last.spent.followers)*took/each, last.spent.flock*took/each),
		fmt.Sprintf("%.2f streams asked for, %.2f connections, %.2f refused; in the last round",
			float64(last.began.Tries)/each, float64(last.began.Conns)/each, float64(last.began.Refused)/each))
	h.row("memory of the leader", fmt.Sprintf("%.0f MB", median(memory)), "resident, when all are back")
	atMost(fmt.Sprintf("s until all of %d agents are back, p50", h.agents), quantile(all, 0.5).Seconds(), 4)
	limited(h.bare.Seconds())
	atMost("the same: s from launch to RUNNING meanwhile, p99", quantile(latency, 0.99).Seconds(), 0.3)
}
