package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// trustAgents is how many agents come back, unless the command says how many.
	trustAgents = 2000
	// beatsPerSecond is how many heartbeats all agents together send unless the command says how often each does: more
	// would keep a machine of two cores busy that is to show how they come back.
	beatsPerSecond = 2000
	// filesBeside is what a process needs beside a descriptor for each agent: some agents have two connections for a moment.
	filesBeside = 1000
)

// enoughFiles says so if a process may not have a file for each of so many agents.
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

// comebacks are how agents come back: in plain text, or with TLS whose sessions they take up, or not.
var comebacks = []struct {
	name  string
	proof bool
	more  []string
}{{"in plain text", false, nil}, {"with sessions taken up", true, nil}, {"each with a handshake of its own", true, []string{"-anew"}}}

// comeback is one: how long until all agents have reported to the next leader, what it cost, how many connections each agent
// made, and by how many masters each was refused at the first word because they did not lead.
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

// comeBack founds a quorum with so many agents and kills its leader.
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
	pause.For(ctx, 2*o.heartbeat) // all hear over how long they are to spread their return
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
