package framework

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/api"
)

// lanes numbers the writes to the store, so that the registry applies a repeated write only once (R17). For that the
// registry remembers the last write of each lane. A lane has one write under way at a time. Concurrent writes use
// different lanes, because a write that overtook another one of its lane would make that one look like an old repeat.
type lanes struct {
	mu   sync.Mutex
	free []*lane // the one that was used last comes first; guarded by mu
	made uint32  // guarded by mu
	full chan struct{}
}

// lane is one of an instance's numbered series of writes.
type lane struct {
	number uint32
	write  uint64 // number of the write that is under way, or of the last one
}

func newLanes() *lanes { return &lanes{full: make(chan struct{}, api.StoreLanesMax)} }

// enter takes a lane and numbers a write on it. While all lanes are in use, it waits.
func (l *lanes) enter(ctx context.Context, ended <-chan struct{}) (*lane, error) {
	select {
	case l.full <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-ended:
		return nil, errEnded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var entered *lane
	if n := len(l.free); n > 0 {
		entered = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		entered = &lane{number: l.made}
		l.made++
	}
	entered.write++
	return entered, nil
}

// leave gives the lane back after a write, however it ended. A write that was given up may still be applied; the next
// write on the lane has a higher number.
func (l *lanes) leave(lane *lane) {
	l.mu.Lock()
	l.free = append(l.free, lane)
	l.mu.Unlock()
	<-l.full
}
