package process

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// seal keeps descriptors that this program has itself inherited, from whoever started
// it, from executors and their tasks. Go seals its own. An old kernel can't; then they
// pass on, as they do everywhere.
var seal = sync.OnceFunc(func() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})
