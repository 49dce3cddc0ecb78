package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Prompt is the masters' half for callers that can wait: it waits for the other process wherever [Allocator] goes on
// without it, so that it proposes and explains at once, like an allocator in the same process. Replays use it, and
// tests of your own server:
//
//	allocatortest.Suite(t, func() allocator.Allocator {
//		half, err := remote.New(allocator.Config{Argument: "127.0.0.1:7070"})
//		...
//		p, err := remote.NewPrompt(ctx, half, nil)
//		...
//		return p
//	})
//
// While the other process is away it proposes nothing, and Err says why. A master must never wait like this. Its
// methods must be called by one goroutine.
type Prompt struct {
	*Allocator
	news chan struct{} // something has changed since the state was last looked at
	end  context.CancelFunc
	done chan struct{}
}

var errClosed = errors.New("the session was closed from here")

// NewPrompt runs the half until Close is called or ctx ends. It returns when the other process has been reached; if the
// first attempt fails, it returns an error. say is called with what Run reports, from another goroutine; it may be nil.
func NewPrompt(ctx context.Context, half *Allocator, say func(trouble bool, message, why string)) (*Prompt, error) {
	ctx, end := context.WithCancel(ctx)
	p := &Prompt{Allocator: half, news: make(chan struct{}, 1), end: end, done: make(chan struct{})}
	if say == nil {
		say = func(bool, string, string) {}
	}
	go func() {
		defer close(p.done)
		half.Run(ctx, p.ready, say)
		half.noteEnd(errClosed)
	}()
	p.await(func() bool { return half.session != nil || half.away != unreached })
	if err := p.Err(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the session.
func (p *Prompt) Close() {
	p.end()
	<-p.done
}

// Err returns why the other process is away; nil while it is there.
func (p *Prompt) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		return nil
	}
	return fmt.Errorf("the allocator at %s is away: %w", p.config.Argument, errors.New(p.away))
}

func (p *Prompt) ready() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// await waits until holds returns true, or Run has ended. It calls holds under the lock.
func (p *Prompt) await(holds func() bool) {
	for {
		p.mu.Lock()
		held := holds()
		p.mu.Unlock()
		if held {
			return
		}
		select {
		case <-p.news:
		case <-p.done:
			return
		}
	}
}

// Allocate returns everything that the other process proposes until it has seen all inputs.
func (p *Prompt) Allocate(now time.Time) allocator.Allocation {
	all := p.Allocator.Allocate(now)
	for p.running() {
		p.await(func() bool { return p.session == nil || p.session.arrived != nil })
		more := p.Allocator.Allocate(now)
		all.Offers = append(all.Offers, more.Offers...)
		all.Inverse = append(all.Inverse, more.Inverse...)
		all.Spared = append(all.Spared, more.Spared...)
	}
	return all
}

func (p *Prompt) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session != nil && p.session.running
}

// Explain asks the other process anew, whatever it has answered before.
func (p *Prompt) Explain(id api.FrameworkID, agent api.AgentID, now time.Time) allocator.Explanation {
	p.mu.Lock()
	clear(p.answers.reasons)
	p.mu.Unlock()
	p.Allocator.Explain(id, agent, now)
	p.await(func() bool { return p.session == nil || len(p.answers.pending) == 0 })
	return p.Allocator.Explain(id, agent, now)
}

// Shares returns the present shares.
func (p *Prompt) Shares() allocator.Shares {
	for range 2 { // the first answer may be an old one
		p.Allocator.Shares()
		p.await(func() bool { return p.session == nil || !p.answers.counting })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers.shares
}
