package logtail

import (
	"context"
	"sync"
	"time"
)

// silence ends a request whose agent sends nothing for too long. The time begins with begin, and does not run while the
// reader is busy.
type silence struct {
	most  time.Duration
	timer *time.Timer

	mu     sync.Mutex
	begun  bool
	paused bool
	over   bool
}

// watchSilence makes a silence, which begins once the task has ended.
func (s *Source) watchSilence(cancel context.CancelCauseFunc) *silence {
	most := s.Silence
	if most == 0 {
		most = 10 * time.Second
	}
	quiet := &silence{most: most, timer: time.AfterFunc(most, func() { cancel(errSilent) })}
	quiet.timer.Stop()
	return quiet
}

func (s *silence) begin() { s.change(func() { s.begun = true }) }

func (s *silence) pause() { s.change(func() { s.paused = true }) }

func (s *silence) resume() { s.change(func() { s.paused = false }) }

func (s *silence) stop() { s.change(func() { s.over = true }) }

// change restarts or stops the timer.
func (s *silence) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	if s.begun && !s.paused && !s.over {
		s.timer.Reset(s.most)
	} else {
		s.timer.Stop()
	}
}
