package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

// flock is many agents that consist only of sessions, all in this process. They speak the agent's protocol over a
// connection each, and look for leaders by the agent's own rules. Their tasks are entries in a map that run for as long
// as their commands sleep.
type flock struct {
	mu    sync.Mutex
	terms map[api.Term]int // by term: members whose session in that term has reported; guarded by mu
	swaps int              // how many sessions have begun; guarded by mu
	tries atomic.Int64     // how many streams were asked for
	conns atomic.Int64     // how many connections were made, with their handshakes
	// refused counts the connections that a master has refused at the first message because it did not lead.
	refused atomic.Int64
	beats   atomic.Int64 // how many heartbeats were sent
	// shaking is held during a handshake: agents on machines of their own do not keep each other from their tasks.
	shaking chan struct{}
}

// shakingMax is how many members of a flock do a handshake at once.
const shakingMax = 64

// roll is the state of the flock, which it writes as one line each time.
type roll struct {
	At       time.Time `json:"at"`
	Term     api.Term  `json:"term"` // the newest term in which a member has reported
	Reported int       `json:"reported"`
	Sessions int       `json:"sessions"` // how many have begun
	Tries    int64     `json:"tries"`    // how many streams were asked for
	Conns    int64     `json:"conns"`    // how many connections were made
	Refused  int64     `json:"refused"`  // how many connections a master refused because it did not lead
	Beats    int64     `json:"beats"`    // how many heartbeats were sent
}

// rollEvery is the precision of the times at which agents return.
const rollEvery = 10 * time.Millisecond

// flockBegins is how many agents begin in a second, because a cluster grows and does not appear at once.
const flockBegins = 500

// flockPercent is by how much the heap of a flock grows until it is collected: no agent has that of ten thousand.
const flockPercent = 400

// flockMain is the main function of a flock's process. It ends with its standard input, which the process that started
// it holds open.
func flockMain(ctx context.Context, o options) error {
	debug.SetGCPercent(flockPercent)
	ctx, cancel := untilInputEnds(ctx)
	defer cancel()
	f := &flock{terms: make(map[api.Term]int), shaking: make(chan struct{}, shakingMax)}
	authority, err := o.authority()
	if err != nil {
		return err
	}
	var members sync.WaitGroup
	defer members.Wait()
	for i := range o.agents {
		m := newMember(f, i)
		if authority != nil {
			if err := m.proven(authority); err != nil {
				cancel()
				return err
			}
		}
		members.Go(func() {
			if pause.For(ctx, time.Duration(i)*time.Second/flockBegins) {
				m.run(ctx, strings.Split(o.masters, ","))
			}
		})
	}
	out := json.NewEncoder(os.Stdout)
	last := roll{}
	for pause.For(ctx, rollEvery) {
		now := f.roll()
		if now.Term == last.Term && now.Reported == last.Reported && now.At.Sub(last.At) < time.Second {
			continue
		}
		last = now
		if err := out.Encode(now); err != nil {
			cancel()
			return err
		}
	}
	return nil
}

// authority returns the authority that signs the certificates of a flock; nil: it has none.
func (o options) authority() (*trust.Authority, error) {
	if o.key == "" {
		return nil, nil
	}
	key, err := trust.ReadKey(o.key)
	if err != nil {
		return nil, err
	}
	return key.Authority()
}

func (f *flock) roll() roll {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := roll{At: time.Now(), Sessions: f.swaps, Tries: f.tries.Load(), Conns: f.conns.Load(), Refused: f.refused.Load(), Beats: f.beats.Load()}
	for term, reported := range f.terms { // order: irrelevant because the newest is taken
		if r.Term.Before(term) {
			r.Term, r.Reported = term, reported
		}
	}
	return r
}

func (f *flock) reported(term api.Term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.terms[term]++
	f.swaps++
}

func (f *flock) left(term api.Term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.terms[term]--
}

// flockWatch reads the lines of a flock and keeps those that may be needed.
type flockWatch struct {
	mu    sync.Mutex
	rolls []roll // guarded by mu
	ended error  // guarded by mu
}

func (w *flockWatch) read(lines *json.Decoder) {
	for {
		var r roll
		err := lines.Decode(&r)
		w.mu.Lock()
		if err == nil {
			w.rolls = append(w.rolls, r)
		} else {
			w.ended = errors.Join(errors.New("the flock has ended"), err)
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// flockPatience is how long it may take until all agents of a flock have reported.
const flockPatience = 5 * time.Minute

// flockSaysEvery is how often a wait for a flock reports its progress.
const flockSaysEvery = 10 * time.Second

// awaitAll waits until all agents have reported to a leader of a term after the given one.
func (w *flockWatch) awaitAll(ctx context.Context, agents int, after api.Term) (roll, error) {
	ctx, cancel := context.WithTimeout(ctx, flockPatience)
	defer cancel()
	said := time.Now()
	for {
		w.mu.Lock()
		last, ended := roll{}, w.ended
		if len(w.rolls) > 0 {
			last = w.rolls[len(w.rolls)-1]
		}
		w.mu.Unlock()
		if time.Since(said) >= flockSaysEvery {
			said = time.Now()
			log.Printf("%d of %d agents have reported in term %v", last.Reported, agents, last.Term)
		}
		switch {
		case ended != nil:
			return last, ended
		case after.Before(last.Term) && last.Reported >= agents:
			return last, nil
		case !pause.For(ctx, rollEvery):
			return last, fmt.Errorf("%d of %d agents have reported in term %v: %w", last.Reported, agents, last.Term, ctx.Err())
		}
	}
}

// firstWith returns when that many agents had reported in a term after the given one.
func (w *flockWatch) firstWith(reported int, after api.Term) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rolls {
		if after.Before(r.Term) && r.Reported >= reported {
			return r.At
		}
	}
	return time.Time{}
}

// flockProcess is a flock in a process of its own, so that it shares no goroutine scheduler with a framework, and the
// state that it reports.
type flockProcess struct {
	flockWatch
	child *exec.Cmd
	stdin io.Closer
}

func startFlock(agents int, masters []string, more ...string) (p *flockProcess, err error) {
	p = new(flockProcess)
	p.child, p.stdin, err = again(nil, append([]string{"-only", "flock", "-agents", fmt.Sprint(agents), "-masters", strings.Join(masters, ",")}, more...)...)
	if err != nil {
		return nil, err
	}
	lines, err := p.child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.child.Start(); err != nil {
		return nil, err
	}
	go p.read(json.NewDecoder(lines))
	return p, nil
}

func (p *flockProcess) stop() {
	_ = p.stdin.Close()
	_ = p.child.Process.Kill() // it has nothing to clean up
	_ = p.child.Wait()         // killed
}
