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

// Loop counts the rounds of one loop. The loop calls Begin and End; anybody may call the
// others.
type Loop struct {
	round     atomic.Uint64 // odd: one is under way
	goroutine atomic.Pointer[string]
	stuck     atomic.Uint64 // the round in which it was found stuck; 0: none
}

// Begin says that the loop has something to do. One that has said so already may say so again.
func (l *Loop) Begin() {
	if l.goroutine.Load() == nil {
		name := here()
		l.goroutine.Store(&name)
	}
	if l.round.Load()%2 == 0 {
		l.round.Add(1)
	}
}

// End says that the loop waits for what comes next.
func (l *Loop) End() {
	if l.round.Load()%2 == 1 {
		l.round.Add(1)
	}
}

// Stuck reports whether the loop was found stuck and has not come round since.
func (l *Loop) Stuck() bool {
	at := l.stuck.Load()
	return at != 0 && at == l.round.Load()
}

// looks is how often a round is looked at before it counts as stuck. A process that was
// stopped as a whole has not looked meanwhile.
const looks = 6

// Watch waits for a round that takes longer than a round may, and returns where the loop is in it. "": ctx
// has ended. longest is asked before each look; when it changes, the round under way is given all of the new time.
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

// stackBytesMax bounds what is read of all goroutines to find one.
const stackBytesMax = 16 << 20

// stack is the loop's own, as the runtime prints it.
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

// here names the goroutine that calls it, such as "goroutine 12".
func here() string {
	text := make([]byte, 64)
	text = text[:runtime.Stack(text, false)]
	name, _, _ := bytes.Cut(text, []byte(" ["))
	return string(name)
}
