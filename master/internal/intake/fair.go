package intake

import (
	"container/heap"
	"context"
	"sync"

	"github.com/tenderhq/tender/internal/allowance"
)

// Sender is who is served by weight: all streams of one connection together, so that nobody gains
// turns by opening more of them.
type Sender struct {
	reading    chan struct{}                 // holds one for each of its requests that is being read
	values     *Budget                       // of bytes of its values that are on their way to the log
	sending    chan struct{}                 // holds one for each of its watches that has values to send
	unread     *Budget                       // of bytes of answers that it has not read
	end        func()                        // closes the connection
	shut       sync.Once                     // calls end, as its peer does not read
	peers      *Peers                        // that it is one of
	address    *account                      // where it comes from; nil: it is not from outside, and may use as much as it likes
	principal  *account                      // whose it is; nil: nobody's, or not known yet; guarded by address.mu
	gone       bool                          // the connection is closed; guarded by address.mu
	called     func()                        // ends the connection's silence; nil: it has none
	once       sync.Once                     // calls called
	allowances [expenses]allowance.Allowance // guarded by address.mu
}

// NewSender is one that is not from outside.
func NewSender() *Sender {
	return &Sender{
		reading: make(chan struct{}, requestsReadMax), values: NewBudget(valuesBytesMax), sending: make(chan struct{}, valuesSentMax),
		unread: NewBudget(unreadConnectionMax),
	}
}

// valuesSentMax is how many watches of one connection have values in memory that its peer has not read yet. The others
// look at the store when it is their turn, and have nothing of it until then.
const valuesSentMax = 2

// SendValues waits for the turn of a watch; false when ctx ends or over is closed first. Call sent when gRPC has let go of all
// that was sent.
func (s *Sender) SendValues(ctx context.Context, over <-chan struct{}) (sent func(), ok bool) {
	select {
	case s.sending <- struct{}{}:
		return func() { <-s.sending }, true
	case <-over:
	case <-ctx.Done():
	}
	return nil, false
}

// fair is a queue in which each sender has its share of the turns by the weight of what it was given, however
// much of it waits: who has had little goes before who has had much. It is start-time fair queueing (Goyal,
// Vin and Cheng 1996): each item is tagged with when its sender has had all that it put before, and the least tag goes
// first.
type fair[T any] struct {
	items  tagged[T]
	now    uint64             // advances with what is taken
	had    map[*Sender]uint64 // the tag at which it has had all that it put; no entry: it has
	known  int                // how many of these it is worth looking through
	number uint64             // of items, so that those with equal tags stay in order
}

// lightest is what an item counts at least.
const lightest = 512

// knownMin is how many senders are remembered before those are looked for that need not be.
const knownMin = 64

// push puts an item of such a weight.
func (f *fair[T]) push(by *Sender, weight int, item T) {
	if f.had == nil {
		f.had = make(map[*Sender]uint64)
	}
	tag, cost := max(f.now, f.had[by]), uint64(max(weight, lightest))
	f.had[by] = tag + cost
	f.number++
	heap.Push(&f.items, taggedItem[T]{tag, f.number, cost, item})
	if len(f.had) > max(f.known, knownMin) {
		f.forget()
	}
}

// forget drops those who have had all that they put.
func (f *fair[T]) forget() {
	for by, tag := range f.had {
		if tag <= f.now {
			delete(f.had, by)
		}
	}
	f.known = 2 * len(f.had)
}

// pop takes the next item; false when there is none.
func (f *fair[T]) pop() (item T, waits bool) {
	if len(f.items) == 0 {
		return item, false
	}
	next, _ := heap.Pop(&f.items).(taggedItem[T])
	f.now = max(next.tag, f.now+next.cost/uint64(len(f.items)+1))
	if len(f.items) == 0 { // all begin anew
		f.now = 0
		clear(f.had)
	}
	return next.item, true
}

// first is what pop would take; false when there is none.
func (f *fair[T]) first() (item T, waits bool) {
	if len(f.items) == 0 {
		return item, false
	}
	return f.items[0].item, true
}

type taggedItem[T any] struct {
	tag, number, cost uint64
	item              T
}

// tagged is a heap.
type tagged[T any] []taggedItem[T]

func (t tagged[T]) Len() int      { return len(t) }
func (t tagged[T]) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t tagged[T]) Less(i, j int) bool {
	return t[i].tag < t[j].tag || t[i].tag == t[j].tag && t[i].number < t[j].number
}

// Push is heap's; see push.
func (t *tagged[T]) Push(x any) {
	item, _ := x.(taggedItem[T])
	*t = append(*t, item)
}

// Pop is heap's; see pop.
func (t *tagged[T]) Pop() any {
	last := len(*t) - 1
	item := (*t)[last]
	(*t)[last] = taggedItem[T]{}
	*t = (*t)[:last]
	return item
}
