package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// stage is the cluster of processes on which a plan of rounds is played.
type stage struct {
	*cluster
	ctx    context.Context // the context of the run
	r      *report
	struck *node     // the target of the present fault
	began  time.Time // when the present fault began
}

type act = chaos.Act[*stage]

const (
	least = 500 * time.Millisecond // of most faults
	most  = 8 * time.Second
	quick = 900 * time.Millisecond // until a killed process is started again, at most
)

// acts are all faults. A stop is short enough for some sessions to outlive it. A sleep is not: the sleeper was replaced
// long before it wakes up. The trio is a leader with one agent and one scheduler: when they wake up together they know
// only each other. full/ means the disk of the first master, or of the first agent, which a task fills. masters means
// all of them at once, and executors those of an agent on which something runs.
var acts = []act{
	{Do: chaos.KillLeader, Most: quick, Begin: on(leading, kill)},
	{Do: "stop/leader", Least: least, Most: most, Begin: on(leading, stop)},
	{Do: chaos.CutLeader, Least: least, Most: most, Begin: on(leading, cut)},
	{Do: chaos.KillFollower, Most: quick, Begin: on(following, kill)},
	{Do: "stop/follower", Least: least, Most: most, Begin: on(following, stop)},
	{Do: chaos.CutFollower, Least: least, Most: most, Begin: on(following, cut)},
	{Do: chaos.KillAgent, Most: quick, Begin: on(anAgent, kill)},
	{Do: "stop/agent", Least: least, Most: most, Begin: on(anAgent, stop)},
	{Do: chaos.CutAgent, Least: least, Most: most, Begin: on(anAgent, cut)},
	{Do: chaos.KillScheduler, Most: quick, Begin: on(aScheduler, kill)},
	{Do: "stop/scheduler", Least: least, Most: most, Begin: on(aScheduler, stop)},
	{Do: chaos.CutScheduler, Least: least, Most: most, Begin: on(aScheduler, cut)},
	{Do: "sleep/leader", Least: 30 * time.Second, Most: 30 * time.Second, Begin: on(leading, sleep)},
	{Do: "sleep/trio", Least: 8 * time.Second, Most: 16 * time.Second, Begin: on(leading, sleep)},
	{Do: "kill/masters", Most: quick, Begin: on(firstMaster, crashMasters)},
	{Do: "kill/executors", Most: quick, Begin: on(busy, killExecutors)},
	{Do: chaos.GoneAgent, Least: least, Most: most, Begin: on(busy, markGone)},
	{Do: chaos.Restore, Most: quick, Begin: on(firstMaster, restore)},
	{Do: "remove/follower", Most: quick, Begin: on(movable, removeUnderLoss)},
	{Do: "back/follower", Most: quick, Begin: on(movable, setFollowerBack)},
	{Do: "answer/leader", Most: quick, Begin: on(anAgent, killBehindAnswers)},
	{Do: "full/leader", Least: 2 * time.Second, Most: 6 * time.Second, Begin: on(seated(true), fillUp)},
	{Do: "full/follower", Least: 2 * time.Second, Most: 6 * time.Second, Begin: on(seated(false), fillUp)},
	{Do: chaos.RebootAgent, Most: quick, Begin: on(busy, reboot)},
	{Do: chaos.FullAgent, Least: 2 * time.Second, Most: 6 * time.Second, Begin: on(firstAgent, fillByTask)},
	// What is done to certificates is no fault, and nobody may notice it: see trust.go.
	{Do: "trust/rotation", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
	{Do: "trust/principal", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
	{Do: "trust/token", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
	{Do: "trust/stranger", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
	{Do: "trust/back", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
	{Do: "trust/renewals", Least: least, Most: 2500 * time.Millisecond, Begin: on(leading, try)},
}

// acts returns the acts that are wanted, and that a cluster with these options can do.
func (o options) acts() []act {
	only := strings.Split(o.only, ",")
	return slices.DeleteFunc(slices.Clone(acts), func(a act) bool {
		how := a.Do.How()
		return !o.mounts && (how == "full" || how == "reboot") || o.life == 0 && how == "trust" ||
			!slices.ContainsFunc(only, func(begin string) bool { return strings.HasPrefix(string(a.Do), begin) })
	})
}

// whom finds the target of a fault when it begins.
type whom = func(*stage, chaos.Fault) (*node, error)

// on makes a Begin that does something to the target.
func on(whom whom, do func(*stage, *node, chaos.Fault) (end func() error, err error)) chaos.Begin[*stage] {
	return func(s *stage, f chaos.Fault) (func() error, error) {
		n, err := whom(s, f)
		if err != nil {
			return nil, err
		}
		s.struck, s.began = n, time.Now()
		return do(s, n, f)
	}
}

func leading(s *stage, _ chaos.Fault) (*node, error)     { return s.awaitLeader(s.ctx) }
func firstMaster(s *stage, _ chaos.Fault) (*node, error) { return s.masters[0], nil }
func firstAgent(s *stage, _ chaos.Fault) (*node, error)  { return s.agents[0], nil }
func busy(s *stage, _ chaos.Fault) (*node, error)        { return s.busyAgent(s.ctx) }
func aScheduler(s *stage, _ chaos.Fault) (*node, error)  { return s.activeScheduler(), nil }
func anAgent(s *stage, f chaos.Fault) (*node, error)     { return s.agents[f.Of(len(s.agents))], nil }

func following(s *stage, f chaos.Fault) (*node, error) {
	leader, err := s.awaitLeader(s.ctx)
	others := slices.DeleteFunc(slices.Clone(s.masters), func(n *node) bool { return n == leader })
	return others[f.Of(len(others))], err
}

// seated returns the first master, after making it the leader or a follower.
func seated(leads bool) whom {
	return func(s *stage, _ chaos.Fault) (*node, error) { return s.masters[0], s.seat(s.ctx, s.masters[0], leads) }
}

func (c *cluster) activeScheduler() *node {
	for _, s := range c.schedulers {
		if s.name == c.ledger.active {
			return s
		}
	}
	return c.schedulers[0]
}

// Pass lets time pass.
func (s *stage) Pass(d time.Duration) error {
	pause(s.ctx, d)
	return s.ctx.Err()
}

// Tell does nothing, because one line about the whole round is written at its end.
func (*stage) Tell(string, chaos.Fault) {}

// Calm waits until everything is well again.
func (s *stage) Calm(f chaos.Fault) error {
	if s.options.executors > 0 {
		return s.executorsBack(f)
	}
	over := time.Now()
	err := s.await(s.ctx, "healing", s.options.heal, func(ctx context.Context) string { return s.illness(ctx, over) })
	healed := time.Since(over)
	if err == nil {
		s.r.verify(s.ctx, s.cluster, fmt.Sprintf("after round %d, %s %s", len(s.r.healed)+1, f.Do, s.struck.name))
	}
	s.r.add(f, s.began, healed, s.ledger)
	fmt.Printf("round %d: %s %s for %v, well after %v%s\n", len(s.r.healed), f.Do, s.struck.name, over.Sub(s.began).Round(time.Millisecond),
		healed.Round(time.Millisecond), s.r.last)
	return err
}

// kill kills a process. A killed leader is started again only after a task has started through the next leader.
func kill(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	n.kill(syscall.SIGKILL)
	return func() error {
		if f.Do == chaos.KillLeader {
			if err := s.awaitTask(s.ctx, s.began); err != nil {
				return err
			}
		}
		return n.start()
	}, nil
}

func stop(_ *stage, n *node, _ chaos.Fault) (end func() error, err error) {
	n.signal(syscall.SIGSTOP)
	return func() error { n.signal(syscall.SIGCONT); return nil }, nil
}

func cut(s *stage, n *node, _ chaos.Fault) (end func() error, err error) {
	s.network.setCut(n.line(), true)
	return func() error { s.network.setCut(n.line(), false); return nil }, nil
}

// awaitTask waits until a task runs that was launched after a time.
func (c *cluster) awaitTask(ctx context.Context, began time.Time) error {
	return c.await(ctx, "a task through the next leader", c.options.heal, func(context.Context) string {
		if _, ok := c.ledger.firstAfter(began, running); ok {
			return ""
		}
		return "no new task runs"
	})
}

func running(t *task) time.Time { return t.running }

// sleep stops a leader for so long that it is replaced, and then wakes it up. The leader must find out by itself, and
// the next one must go on to lead.
func sleep(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	sleepers := []*node{n}
	if f.Do.Whom() == "trio" {
		sleepers = append(sleepers, s.agents[f.Of(len(s.agents))], s.activeScheduler())
	}
	all := func(signal syscall.Signal) {
		for _, sleeper := range sleepers {
			sleeper.signal(signal)
		}
	}
	all(syscall.SIGSTOP)
	return func() error {
		defer all(syscall.SIGCONT)
		if err := s.awaitTask(s.ctx, s.began); err != nil {
			return err
		}
		next, term := s.term(s.ctx)
		all(syscall.SIGCONT)
		if err := s.await(s.ctx, "the sleeper's stepping down", s.options.heal, func(ctx context.Context) string {
			leader := s.leader(ctx)
			if leader == nil || leader == n {
				return "nobody leads but " + n.name
			}
			return ""
		}); err != nil {
			return err
		}
		pause(s.ctx, time.Second)
		// Under load the next leader may lose its office anyway; only the sleeper must not get it.
		if leader, after := s.term(s.ctx); leader == n.name {
			s.r.broken = append(s.r.broken, fmt.Sprintf("%s woke up after %v: before, %s led in term %s; after, %s in term %s",
				n.name, f.For, next, term, leader, after))
		}
		return nil
	}, nil
}
