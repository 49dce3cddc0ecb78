package framework

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// presence is what the framework is to its masters now: how they know it, in which session, and how the leader is reached.
// The loop changes it when a session begins or ends; callers of the Client look, and wait for a session here.
type presence struct {
	instance api.Nonce     // tells this process from others of the framework
	ended    chan struct{} // closed when Run ends

	mu        sync.Mutex
	framework api.Framework   // its maps and lists are never edited; guarded by mu
	updates   uint64          // how many updates of it have come into effect; guarded by mu
	session   uint64          // guarded by mu
	takeovers uint64          // how often another instance may have been active since Run began; guarded by mu
	standsBy  bool            // another instance is active; guarded by mu
	link      *link           // to the leader; nil between sessions; guarded by mu
	changed   chan struct{}   // closed and replaced when a session begins or ends; guarded by mu
	sound     map[string]bool // constraints that a leader has found valid; guarded by mu
}

// look returns how the masters know the framework, how many updates of it have come into effect, and how often another
// instance may have been active.
func (s *presence) look() (framework api.Framework, updates, takeovers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.framework, s.updates, s.takeovers
}

// subscribed is called by the loop when a session begins, and dropped when it ends.
func (s *presence) subscribed(began core.SessionBegan, link *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framework.ID, s.session, s.takeovers, s.link, s.standsBy = began.Framework, began.Session, began.Takeovers, link, false
	close(s.changed)
	s.changed = make(chan struct{})
}

// standBy notes that another instance is active.
func (s *presence) standBy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standsBy = true
}

func (s *presence) dropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.link = nil
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// holds is called by the loop with what the framework now says of itself.
func (s *presence) holds(framework api.Framework, updates uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framework, s.updates = framework, updates
}

// place is how to reach the leader, and the session that a call belongs to.
type place struct {
	store     apiv1.StoreServiceClient
	writes    *writes
	operator  apiv1.OperatorServiceClient
	session   *apiv1.StoreSession
	takeovers uint64 // as Client.Takeovers counts them
}

// place waits for a session. The channel that it returns is closed when that session ends.
func (s *presence) place(ctx context.Context) (place, <-chan struct{}, error) {
	for {
		s.mu.Lock()
		link, changed, takeovers := s.link, s.changed, s.takeovers
		session := &apiv1.StoreSession{FrameworkId: string(s.framework.ID), Session: s.session, Instance: string(s.instance)}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return place{}, nil, context.Cause(ctx)
		case <-s.ended:
			return place{}, nil, errEnded
		default:
		}
		if link != nil {
			return place{link.writes.store, link.writes, apiv1.NewOperatorServiceClient(link.Conn()), session, takeovers}, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-s.ended:
		}
	}
}

// unaryPauseMin and unaryPauseMax bound the pause before a call is repeated in the same session.
const (
	unaryPauseMin = 50 * time.Millisecond
	unaryPauseMax = time.Second
)

// atLeader repeats a call, in one session after the other, until it has an outcome.
func (s *presence) atLeader(ctx context.Context, op, subject string, call func(ctx context.Context, p place) error) error {
	var last error
	for tries := 0; ; tries++ {
		p, changed, err := s.place(ctx)
		if err != nil {
			if last != nil {
				err = fmt.Errorf("%w; the last answer: %w", err, last)
			}
			return api.E(op, api.Unavailable, subject, err)
		}
		switch err = call(ctx, p); {
		case err == nil:
			return nil
		case errors.Is(err, errTakenOver):
			return api.E(op, api.Fenced, subject, err)
		}
		answer := wire.Error(err)
		pause := min(unaryPauseMin<<min(tries, 10), unaryPauseMax)
		switch after := api.RetryAfter(answer); {
		case after > 0: // only time helps, not another session
			pause, changed = protocol.RetryWait(after, rand.Uint64()), nil
		case !api.Transient(answer) && answer.Kind != api.Fenced: // fenced may be only the session that is over
			return answer
		}
		last = answer
		s.pause(ctx, pause, changed)
	}
}

// pause waits for d, or until there is a reason to go on earlier.
func (s *presence) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-changed:
	case <-pause.C:
	case <-ctx.Done():
	case <-s.ended:
	}
}

var errTakenOver = errors.New("another instance may have been active meanwhile")
