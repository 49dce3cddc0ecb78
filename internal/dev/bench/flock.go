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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

// flock are agents that are nothing but sessions, all in this process: they speak the
// agent's protocol over a connection each, look for leaders by the agent's own rules,
// and their tasks are entries in a map that run for as long as their data says.
type flock struct {
	mu    sync.Mutex
	terms map[api.Term]int // members whose session has reported, by its term; guarded by mu
	swaps int              // sessions that began, ever; guarded by mu
	tries atomic.Int64     // streams that were asked for, ever
	conns atomic.Int64     // connections that were made, with their handshake, ever
	// refused are the connections that a master has refused at the first word, because it did not lead, ever.
	refused atomic.Int64
}

// roll is what the flock says of itself, a line each time.
type roll struct {
	At       time.Time `json:"at"`
	Term     api.Term  `json:"term"` // the newest in which anybody has reported
	Reported int       `json:"reported"`
	Sessions int       `json:"sessions"` // that began, ever
	Tries    int64     `json:"tries"`    // streams that were asked for, ever
	Conns    int64     `json:"conns"`    // connections that were made, ever
	Refused  int64     `json:"refused"`  // connections that a master refused as it did not lead, ever
}

// rollEvery is how exact the times of returns are.
const rollEvery = 10 * time.Millisecond

// flockBegins is how many agents begin in a second: a cluster grows, it does not burst.
const flockBegins = 500

// flockMain is the process of a flock: it ends with its standard input, which its
// starter holds.
func flockMain(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // the end of it, however it comes
		cancel()
	}()
	f := &flock{terms: make(map[api.Term]int)}
	authority, err := o.authority()
	if err != nil {
		return err
	}
	var members sync.WaitGroup
	defer members.Wait()
	for i := range o.agents {
		m := newMember(f, i)
		if authority != nil {
			if err := m.proven(authority, o.anew); err != nil {
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

// authority signs the certificates of a flock; nil: it has none.
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
	r := roll{At: time.Now(), Sessions: f.swaps, Tries: f.tries.Load(), Conns: f.conns.Load(), Refused: f.refused.Load()}
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

// flockWatch reads a flock's lines and keeps those of which somebody may ask.
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

// flockPatience is how long a flock may take to come together.
const flockPatience = 5 * time.Minute

// flockSaysEvery is how often a wait for a flock says how far it is.
const flockSaysEvery = 10 * time.Second

// whole waits until all agents have reported to a leader of a term after the given one.
func (w *flockWatch) whole(ctx context.Context, agents int, after api.Term) (roll, error) {
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

// firstWith is when so many had reported in a term after the given one.
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

// flockProcess is a flock in a process of its own, so that it shares no goroutine scheduler with a framework, and what
// it says of itself.
type flockProcess struct {
	flockWatch
	child *exec.Cmd
	stdin io.Closer
}

func startFlock(agents int, masters []string, more ...string) (*flockProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &flockProcess{child: exec.Command(self, append([]string{"-only", "flock", "-agents", fmt.Sprint(agents), "-masters", strings.Join(masters, ",")}, more...)...)}
	p.child.Stderr = os.Stderr
	p.child.SysProcAttr = ofOurs()
	if p.stdin, err = p.child.StdinPipe(); err != nil {
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
