package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Prompt is the masters' half for those who have time: it waits for the other process
// wherever [Allocator] goes on without it, so that it proposes and explains at once, as
// an allocator of this process does. Replays use it, and tests of a server of your own:
//
//	allocatortest.Suite(t, func() allocator.Allocator {
//		half, err := remote.New(allocator.Config{Argument: "127.0.0.1:7070"})
//		...
//		p, err := remote.NewPrompt(ctx, half, nil)
//		...
//		return p
//	})
//
// While the other process is away it proposes nothing, and Err says why. A master must
// never wait like this. For one goroutine.
type Prompt struct {
	*Allocator
	news chan struct{} // something has changed since it was last looked at
	end  context.CancelFunc
	done chan struct{}
}

var errClosed = errors.New("the session was closed from here")

// NewPrompt runs the half until Close, or until ctx ends, and returns when the other
// process is there; an error when the first try fails. Say hears what Run says, from
// another goroutine; nil if nobody cares.
func NewPrompt(ctx context.Context, half *Allocator, say func(trouble bool, message, why string)) (*Prompt, error) {
	ctx, end := context.WithCancel(ctx)
	p := &Prompt{Allocator: half, news: make(chan struct{}, 1), end: end, done: make(chan struct{})}
	if say == nil {
		say = func(bool, string, string) {}
	}
	go func() {
		defer close(p.done)
		half.Run(ctx, p.ready, say)
		half.leave(errClosed)
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

// Err says why the other process is away; nil while it is there.
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

// await waits until it holds, or Run has ended. holds is asked under the lock.
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

// Allocate returns all that the other process proposes until it has seen everything.
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

// Explain asks anew, whatever was said before.
func (p *Prompt) Explain(id api.FrameworkID, agent api.AgentID, now time.Time) allocator.Explanation {
	p.mu.Lock()
	clear(p.answers.reasons)
	p.mu.Unlock()
	p.Allocator.Explain(id, agent, now)
	p.await(func() bool { return p.session == nil || len(p.answers.pending) == 0 })
	return p.Allocator.Explain(id, agent, now)
}

// Shares are as they stand now.
func (p *Prompt) Shares() allocator.Shares {
	for range 2 { // the first answer may be from before
		p.Allocator.Shares()
		p.await(func() bool { return p.session == nil || !p.answers.counting })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers.shares
}
