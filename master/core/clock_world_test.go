package core_test

import (
	"time"

	"github.com/tenderhq/tender/internal/testing/clock"
)

// setClock sets the wall clock; the monotonic time continues.
func (w *world) setClock(by time.Duration) {
	passed := w.now.Sub(clock.At(w.now.Round(0), 0))
	w.now = clock.At(w.now.Round(0).Add(by), passed)
}
