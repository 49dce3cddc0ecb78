package raftlog

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// checksTimeout is how long the end of Raft waits for its answers to open checks. A leader
// whom no majority answers steps down much earlier, and answers them all.
const checksTimeout = 3 * time.Second

// checks are the questions to Raft whether this master still leads. The library answers each
// of them as long as it runs, but forgets those that it finds in its queue at its end: who
// waits for one of them would wait for as long as the process lives. So the end of Raft comes
// after the last answer.
type checks struct {
	mu     sync.Mutex
	closed bool           // guarded by mu
	under  sync.WaitGroup // grows under mu only, and never once closed
}

// open lets questions in: a life of Raft begins.
func (c *checks) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}

// close lets no more in, and waits for the answers.
func (c *checks) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.under.Wait()
}

// ask waits until a majority has answered, or for the end of ctx.
func (c *checks) ask(ctx context.Context, r *raft.Raft) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return raft.ErrRaftShutdown
	}
	c.under.Add(1)
	c.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		defer c.under.Done()
		done <- r.VerifyLeader().Error()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
