package frameworktest

import (
	"runtime/debug"
	"sync"
)

// collectPercent is high because a large cluster has a hundred thousand goroutines, each of which a garbage collection
// looks at, and makes little garbage. To collect seldom saves a fifth of the time and takes twice the memory.
const collectPercent = 400

// collecting counts the stories that run at the same time. The first one sets the percentage for the process, the last
// one sets it back.
var collecting struct {
	mu      sync.Mutex
	stories int
	before  int
}

// collectSeldom makes garbage collections rare until end is called. It changes nothing if a percentage was set by GOGC
// or in the test.
func collectSeldom() (end func()) {
	const chosenByNobody = 100
	c := &collecting
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stories == 0 {
		if c.before = debug.SetGCPercent(collectPercent); c.before != chosenByNobody {
			debug.SetGCPercent(c.before)
		}
	}
	c.stories++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stories--; c.stories == 0 {
			debug.SetGCPercent(c.before)
		}
	}
}
