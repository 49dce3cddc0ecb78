package process

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// seal marks all file descriptors that this program has inherited itself as to be closed on exec, so that executors and
// their tasks do not inherit them. Go marks those that it opens. An old kernel can't do this at once, and then they are
// inherited.
var seal = sync.OnceFunc(func() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})
