package frameworktest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// blockedAfter is how long a scheduler may be in one callback before a failed story reports it.
	blockedAfter = 10 * time.Second
	// tellAfter is how much real time a callback may take before it is reported on stderr. A callback that waits for a
	// locked mutex stops the story's clock, and then nothing else would ever report it.
	tellAfter = 5 * time.Second
)

// callbacks knows which scheduler is in which of its methods. It is shared with a goroutine outside of the story's
// bubble.
type callbacks struct {
	mu      sync.Mutex
	running map[string]*callback // by the name of the framework's host
}

// callback is one call of a scheduler's method.
type callback struct {
	method    string
	goroutine string    // its name in a stack, such as "goroutine 18 "
	began     time.Time // in virtual time
	told      bool      // it was reported on stderr
}

func newCallbacks() *callbacks { return &callbacks{running: make(map[string]*callback)} }

// begin notes that a method is called; calling end notes that it has returned.
func (c *callbacks) begin(host, method, goroutine string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[host] = &callback{method: method, goroutine: goroutine, began: time.Now()}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, host)
	}
}

// blocked describes the framework's callback if it has not returned for long.
func (c *callbacks) blocked(host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call := c.running[host]; call != nil && time.Since(call.began) >= blockedAfter {
		return fmt.Sprintf("the scheduler of %s is in its method %s since %s and does not return:\n%s",
			host, call.method, call.began.UTC().Format(clockFormat), stackOf(call.goroutine))
	}
	return ""
}

// allBlocked describes every callback that has not returned for long.
func (h *Handle) allBlocked() string {
	var out strings.Builder
	for _, f := range h.frameworks {
		if blocked := h.callbacks.blocked(f.host); blocked != "" {
			out.WriteString(blocked + "\n")
		}
	}
	return out.String()
}

// watch reports on stderr each callback that takes long in real time. It is called outside of the bubble and ends
// nothing: a test that is slow for good reasons goes on.
func (c *callbacks) watch() (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(tellAfter)
		defer tick.Stop()
		before := make(map[string]*callback)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				before = c.tell(before)
			}
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// tell reports the callbacks that already ran at the previous tick, each once, and returns those that run now.
func (c *callbacks) tell(before map[string]*callback) map[string]*callback {
	c.mu.Lock()
	now := maps.Clone(c.running)
	c.mu.Unlock()
	for _, host := range slices.Sorted(maps.Keys(now)) {
		if call := now[host]; call == before[host] && !call.told {
			call.told = true
			fmt.Fprintf(os.Stderr, "frameworktest: the scheduler of %s has been in its method %s for more than %v of real time, since %s of the story. "+
				"Does it wait for a mutex? That stops the story's clock:\n%s\n",
				host, call.method, tellAfter, call.began.UTC().Format(clockFormat), stackOf(call.goroutine))
		}
	}
	return now
}

// me returns the name of the calling goroutine, as its stack begins with it.
func me() string {
	var line [64]byte
	name, _, _ := bytes.Cut(line[:runtime.Stack(line[:], false)], []byte("["))
	return string(name)
}

// stackBytesMax bounds the stacks in which a goroutine is searched for.
const stackBytesMax = 16 << 20

// stackOf returns where the goroutine is now, down to the scheduler's method.
func stackOf(goroutine string) string {
	all := make([]byte, 1<<20)
	n := runtime.Stack(all, true)
	for n == len(all) && n < stackBytesMax {
		all = make([]byte, 4*len(all))
		n = runtime.Stack(all, true)
	}
	for stack := range strings.SplitSeq(string(all[:n]), "\n\n") {
		if strings.HasPrefix(stack, goroutine) {
			stack, _, _ = strings.Cut(stack, "\ngithub.com/tenderhq/tender/framework/frameworktest.(*recorder)")
			return stack
		}
	}
	return goroutine + "has ended"
}
