package master

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
)

// living is an allocator that does something on its own, as one in another process
// does: it runs while this master leads.
type living interface {
	allocator.Allocator
	// Run returns when ctx ends. It calls ready when Allocate has something to do, and
	// say when something is worth a line in the log: trouble, or that it is over.
	Run(ctx context.Context, ready func(), say func(trouble bool, message, why string))
	// Answered waits until what Explain was asked can be answered, or ctx ends.
	Answered(ctx context.Context)
}

// enliven runs a policy that lives, until the returned function has returned.
func (l *leader) enliven(ctx context.Context) (stop func()) {
	if l.living == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	ready := func() {
		select {
		case l.nudges <- struct{}{}:
		default: // the loop is going to look anyway
		}
	}
	say := func(trouble bool, message, why string) {
		level := zerolog.InfoLevel
		if trouble {
			level = zerolog.WarnLevel
		}
		l.log.WithLevel(level).Str("why", why).Msg(message)
	}
	go func() {
		defer close(done)
		l.living.Run(ctx, ready, say)
	}()
	return func() { cancel(); <-done }
}

// answerMax is how long an explanation waits for an allocator in another process.
const answerMax = 2 * time.Second

// settled waits until a policy that lives has answered what it was asked, and reports
// whether asking again is worth while.
func (m *Master) settled(ctx context.Context) bool {
	l := m.leading.Load()
	if l == nil || l.living == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	l.living.Answered(ctx)
	return true
}
