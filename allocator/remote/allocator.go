package remote

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/internal/codec"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// Name is the name under which it is registered; the address follows after a colon.
const Name = "remote"

func init() {
	allocator.Register(Name+":ADDR", func(config allocator.Config) (allocator.Allocator, error) {
		return New(config)
	})
}

// Allocator is the masters' half of a remote allocator. One goroutine calls its methods, and another one Run.
type Allocator struct {
	inputs.Calls // what it is told; each goes to addInput
	config       allocator.Config
	dial         func(ctx context.Context, address string) (net.Conn, error)

	mu      sync.Mutex
	mirror  *inputs.Mirror // what a new session has to be told
	session *session       // nil while the other process is away
	codec   codec.Codec
	now     time.Time // the latest time that was seen
	away    string    // why there is no session
	since   time.Time // since when the other process is away
	tidied  time.Time // when ended filters were last dropped
	answers answers
	news    chan struct{} // closed and replaced when something was answered or the session ended
}

// unreached is the reason why there is no session before Run has tried to connect.
const unreached = "it was not reached yet"

// New makes the masters' half for the address in config.Argument. It does not connect; Run does.
func New(config allocator.Config) (*Allocator, error) {
	if _, port, err := net.SplitHostPort(config.Argument); err != nil || port == "" {
		return nil, fmt.Errorf("allocator %s:%s: write the address as remote:HOST:PORT", Name, config.Argument)
	}
	now := time.Now()
	a := &Allocator{
		config: config, dial: transport.DialTCP, mirror: inputs.NewMirror(), codec: codec.Codec{Epoch: now.Add(-time.Hour)}, now: now, since: now,
		away: unreached, answers: newAnswers(), news: make(chan struct{}),
	}
	a.Calls = a.addInput
	return a, nil
}

// DialBy sets how connections are opened; call it before Run. A master's connections prove who is at each end. Default:
// TCP without certificates.
func (a *Allocator) DialBy(dial func(ctx context.Context, address string) (net.Conn, error)) {
	a.dial = dial
}

// addInput adds an input to the mirror and, if there is a session, to the session.
func (a *Allocator) addInput(input inputs.Input) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mirror.Note(input)
	if a.session != nil {
		a.session.note(input)
	}
}

// Allocate returns the proposals that have arrived since the last call. If something has changed, it asks the other
// process for more.
func (a *Allocator) Allocate(now time.Time) allocator.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advanceTo(now)
	if a.session == nil {
		return allocator.Allocation{}
	}
	allocation := a.session.take()
	a.mirror.Propose(allocation.Offers)
	a.session.ask(now)
	return allocation
}

// filtersKept is how long a filter that has ended may stay in the mirror, and be counted.
const filtersKept = 10 * time.Second

func (a *Allocator) advanceTo(now time.Time) {
	a.now = now
	if now.Sub(a.tidied) > filtersKept {
		a.tidied = now
		a.mirror.Forget(now)
	}
}

// Wake returns when Allocate next has proposals to return, or something to ask.
func (a *Allocator) Wake() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch s := a.session; {
	case s == nil:
		return time.Time{}
	case s.arrived != nil || s.fresh > 0 && !s.running:
		return a.now
	case s.running:
		return time.Time{}
	default:
		return s.wake
	}
}

// Filters returns how many filters the frameworks of a principal have, so that the masters can bound them (R34).
func (a *Allocator) Filters(principal string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mirror.Filters(principal)
}

// Behind reports whether the other process was told something that it has not answered yet.
func (a *Allocator) Behind() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.session
	return s == nil || s.running || s.fresh > 0
}
