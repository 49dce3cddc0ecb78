package frameworktest

import (
	"runtime/debug"
	"sync"
)

// collectPercent: a large cluster is a hundred thousand goroutines, each of which a collection looks
// at, and makes little garbage. Collecting seldom saves a fifth of the time and takes twice the memory.
const collectPercent = 400

// collecting counts the stories that run at the same moment; the first one sets what holds for the
// process, the last one sets it back.
var collecting struct {
	mu      sync.Mutex
	stories int
	before  int
}

// collectSeldom holds until the story calls what it returns. Who has chosen a percentage, with GOGC or
// in the test, is left with it.
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
