package intake

import (
	"container/heap"
	"context"
	"sync"

	"github.com/tenderhq/tender/internal/allowance"
)

// Sender is the peer of one connection, with everything that bounds it. All streams of a connection are one sender, so
// that nobody gets more turns by opening more streams.
type Sender struct {
	reading    chan struct{}                 // holds one entry for each of its requests that is being read
	values     *Budget                       // for bytes of its values that are on their way to the log
	sending    chan struct{}                 // holds one entry for each of its watches that has values to send
	unread     *Budget                       // for bytes of answers that it has not read
	end        func()                        // closes the connection
	shut       sync.Once                     // calls end, when its peer does not read
	peers      *Peers                        // the accounts of all peers
	address    *account                      // its address's account; nil: it is not from outside, and has no limits
	principal  *account                      // its principal's account; nil: none or not known; guarded by address.mu
	gone       bool                          // the connection is closed; guarded by address.mu
	called     func()                        // ends the silence of the connection; nil: it was not counted as silent
	once       sync.Once                     // calls called
	allowances [expenses]allowance.Allowance // guarded by address.mu
}

// NewSender makes a sender that is not from outside.
func NewSender() *Sender {
	return &Sender{
		reading: make(chan struct{}, requestsReadMax), values: NewBudget(valuesBytesMax), sending: make(chan struct{}, valuesSentMax),
		unread: NewBudget(unreadConnectionMax),
	}
}

// valuesSentMax is how many watches of one connection may have values in memory that the peer has not read yet. The
// others read the store when it is their turn, and hold nothing until then.
const valuesSentMax = 2

// SendValues waits for the turn of a watch; it returns false when ctx ends or over is closed first. Call sent when gRPC
// has let go of everything that was sent.
func (s *Sender) SendValues(ctx context.Context, over <-chan struct{}) (sent func(), ok bool) {
	select {
	case s.sending <- struct{}{}:
		return func() { <-s.sending }, true
	case <-over:
	case <-ctx.Done():
	}
	return nil, false
}

// fair is a queue in which senders take turns by weight, however much of theirs waits: a sender that has been given
// little goes before one that has been given much. It is start-time fair queueing (Goyal, Vin and Cheng 1996). The tag
// of an item is the virtual time at which everything has been taken that its sender put before. The item with the
// lowest tag goes first.
type fair[T any] struct {
	items  tagged[T]
	now    uint64             // the virtual time, which advances with what is taken
	had    map[*Sender]uint64 // the tag at which all that a sender has put is taken; no entry: it is taken
	known  int                // at how many of these to look for those to forget
	number uint64             // counts items, so that items with equal tags stay in order
}

// lightest is the least weight with which an item counts.
const lightest = 512

// knownMin is how many senders are remembered before the queue looks for those that can be forgotten.
const knownMin = 64

// push puts an item of the given weight into the queue.
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

// forget removes the senders from which everything has been taken.
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
	if len(f.items) == 0 { // the virtual time begins again
		f.now = 0
		clear(f.had)
	}
	return next.item, true
}

// first returns the item that pop would take; false when there is none.
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

// tagged is a heap of items, ordered by tag and number.
type tagged[T any] []taggedItem[T]

func (t tagged[T]) Len() int      { return len(t) }
func (t tagged[T]) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t tagged[T]) Less(i, j int) bool {
	return t[i].tag < t[j].tag || t[i].tag == t[j].tag && t[i].number < t[j].number
}

// Push implements heap.Interface; use fair.push.
func (t *tagged[T]) Push(x any) {
	item, _ := x.(taggedItem[T])
	*t = append(*t, item)
}

// Pop implements heap.Interface; use fair.pop.
func (t *tagged[T]) Pop() any {
	last := len(*t) - 1
	item := (*t)[last]
	(*t)[last] = taggedItem[T]{}
	*t = (*t)[:last]
	return item
}
