package intake

import (
	"context"
	"sync"
)

// Budget is an amount that many senders share. A sender that finds too little left waits. Waiting senders take turns by
// how much each has taken.
type Budget struct {
	mu      sync.Mutex
	left    int
	waiters fair[*waiter] // guarded by mu
}

type waiter struct {
	amount int
	ready  chan struct{} // closed when it has got its amount
	gone   bool          // it no longer waits; guarded by Budget.mu
}

// NewBudget makes a budget of the amount.
func NewBudget(amount int) *Budget { return &Budget{left: amount} }

// Take waits for the amount, which is also its weight for the sender's turns. It returns false when ctx ends or over is
// closed first.
func (b *Budget) Take(ctx context.Context, over <-chan struct{}, by *Sender, amount int) bool {
	return b.takeByWeight(ctx, over, by, amount, amount)
}

// Try takes the amount if it is left and nobody waits.
func (b *Budget) Try(amount int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, waits := b.first(); waits || b.left < amount {
		return false
	}
	b.left -= amount
	return true
}

// takeByWeight is Take for an amount whose weight differs from it.
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

// leave stops waiting. If the amount was given at the same moment, it gives it back.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		b.left += w.amount
	default:
		w.gone = true
	}
	b.serve() // those behind it may need less
}

// Give gives an amount back.
func (b *Budget) Give(amount int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += amount
	b.serve()
}

// serve gives waiters their amounts in turn, as long as enough is left. Callers hold mu.
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

// first returns the waiter whose turn it is, without those that no longer wait. Callers hold mu.
func (b *Budget) first() (*waiter, bool) {
	for {
		w, waits := b.waiters.first()
		if !waits || !w.gone {
			return w, waits
		}
		b.waiters.pop()
	}
}
