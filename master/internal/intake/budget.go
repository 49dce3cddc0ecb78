package intake

import (
	"context"
	"sync"
)

// Budget is an amount that many share. Who finds too little of it waits, and they have their turns by what
// each sender has taken.
type Budget struct {
	mu      sync.Mutex
	left    int
	waiters fair[*waiter] // guarded by mu
}

type waiter struct {
	amount int
	ready  chan struct{} // closed when it has its amount
	gone   bool          // it waits no more; guarded by Budget.mu
}

// NewBudget has so much.
func NewBudget(amount int) *Budget { return &Budget{left: amount} }

// Take waits for the amount, which is also its weight for the Sender's turns; false when ctx ends or over is closed
// first.
func (b *Budget) Take(ctx context.Context, over <-chan struct{}, by *Sender, amount int) bool {
	return b.takeByWeight(ctx, over, by, amount, amount)
}

// Try takes the amount if it is there and nobody waits.
func (b *Budget) Try(amount int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, waits := b.first(); waits || b.left < amount {
		return false
	}
	b.left -= amount
	return true
}

// takeByWeight is the same for an amount that weighs more or less.
func (b *Budget) takeByWeight(ctx context.Context, over <-chan struct{}, by *Sender, amount, weight int) bool {
	b.mu.Lock()
	if _, waits := b.first(); !waits && b.left >= amount {
		b.left -= amount
		b.mu.Unlock()
		return true
	}
	w := &waiter{amount: amount, ready: make(chan struct{})}
	b.waiters.push(by, weight, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-over:
	case <-ctx.Done():
	}
	b.leave(w)
	return false
}

// leave gives up waiting, or gives back what has come at the same moment.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		b.left += w.amount
	default:
		w.gone = true
	}
	b.serve() // those behind may need less
}

// Give returns an amount.
func (b *Budget) Give(amount int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += amount
	b.serve()
}

// serve lets in whose turn it is, as long as there is enough. Callers hold mu.
func (b *Budget) serve() {
	for {
		w, waits := b.first()
		if !waits || b.left < w.amount {
			return
		}
		b.waiters.pop()
		b.left -= w.amount
		close(w.ready)
	}
}

// first is whose turn it is, of those who still wait. Callers hold mu.
func (b *Budget) first() (*waiter, bool) {
	for {
		w, waits := b.waiters.first()
		if !waits || !w.gone {
			return w, waits
		}
		b.waiters.pop()
	}
}
