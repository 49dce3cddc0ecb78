package framework

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/api"
)

// The registry remembers the last write of each lane, so that a repeat is applied once
// (R17). A lane has one write under way; writes at the same time have lanes of their
// own, else one that overtakes another would make it look like the past.
type lanes struct {
	mu   sync.Mutex
	free []*lane // the one that was used last comes first; guarded by mu
	made uint32  // guarded by mu
	full chan struct{}
}

// lane is one of an instance's numbered series of writes.
type lane struct {
	number uint32
	write  uint64 // of the one under way, or the last
}

func newLanes() *lanes { return &lanes{full: make(chan struct{}, api.StoreLanesMax)} }

// enter numbers a write. While all lanes are in use, it waits.
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
	var taken *lane
	if n := len(l.free); n > 0 {
		taken = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		taken = &lane{number: l.made}
		l.made++
	}
	taken.write++
	return taken, nil
}

// leave ends a write, whatever came of it: one that was given up may still be applied,
// and then a later one of the lane has a higher number.
func (l *lanes) leave(lane *lane) {
	l.mu.Lock()
	l.free = append(l.free, lane)
	l.mu.Unlock()
	<-l.full
}
