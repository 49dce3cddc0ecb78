// Package watchdog detects a stuck loop: one whose round does not end. It ends nothing itself, and never delays the
// loop.
package watchdog

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// Loop counts the rounds of one loop. The loop calls Begin and End; the other methods may be called by anybody.
type Loop struct {
	round     atomic.Uint64 // odd: a round is under way
	goroutine atomic.Pointer[string]
	stuck     atomic.Uint64 // the round in which the loop was found stuck; 0: none
}

// Begin says that a round begins. A repeated call does nothing.
func (l *Loop) Begin() {
	if l.goroutine.Load() == nil {
		name := here()
		l.goroutine.Store(&name)
	}
	if l.round.Load()%2 == 0 {
		l.round.Add(1)
	}
}

// End says that the round has ended and the loop waits for something to do.
func (l *Loop) End() {
	if l.round.Load()%2 == 1 {
		l.round.Add(1)
	}
}

// Stuck reports whether the loop was found stuck and is still in the same round.
func (l *Loop) Stuck() bool {
	at := l.stuck.Load()
	return at != 0 && at == l.round.Load()
}

// looks is how often a round is looked at before it counts as stuck. If the whole process was stopped, there were no
// looks meanwhile.
const looks = 6

// Watch waits for a round that takes longer than longest, and returns where the loop is in it. It returns "" if ctx has
// ended. longest is called before each look; when it changes, the present round is given the whole new time.
func (l *Loop) Watch(ctx context.Context, longest func() time.Duration) (evidence string) {
	limit := longest()
	timer := time.NewTimer(limit / looks)
	defer timer.Stop()
	var last uint64
	for same := 0; ; {
		select {
		case <-ctx.Done():
			return ""
		case <-timer.C:
		}
		before := limit
		limit = longest()
		timer.Reset(limit / looks)
		now := l.round.Load()
		if now%2 == 0 || now != last || now == l.stuck.Load() || limit != before {
			last, same = now, 0
			continue
		}
		if same++; same >= looks {
			l.stuck.Store(now)
			return l.stack()
		}
	}
}

// stackBytesMax limits how much is read of the stacks of all goroutines to find one.
const stackBytesMax = 16 << 20

// stack returns the stack of the loop's goroutine, as the runtime prints it.
func (l *Loop) stack() string {
	name := l.goroutine.Load()
	if name == nil {
		return "unknown"
	}
	for size := 1 << 20; ; size *= 4 {
		all := make([]byte, size)
		n := runtime.Stack(all, true)
		if n == size && size < stackBytesMax {
			continue
		}
		for one := range bytes.SplitSeq(all[:n], []byte("\n\n")) {
			if bytes.HasPrefix(one, []byte(*name+" ")) {
				return string(one)
			}
		}
		return *name + " is not among the goroutines"
	}
}

// here returns the name of the goroutine that calls it, such as "goroutine 12".
func here() string {
	text := make([]byte, 64)
	text = text[:runtime.Stack(text, false)]
	name, _, _ := bytes.Cut(text, []byte(" ["))
	return string(name)
}
