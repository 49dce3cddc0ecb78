package intake

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/api"
)

const (
	// inletMax and inletBytesMax bound what waits from one stream. When it is full, the stream's reader waits, and so
	// does the sender, through gRPC's flow control.
	inletMax      = 16
	inletBytesMax = api.MessageBytesMax
	// requestsMax bounds in the same way the actions of all operators together, and the writes to all stores together.
	// Further ones wait.
	requestsMax = 256
	// laneBytesMax bounds what waits in a lane, by its approximate size in memory.
	laneBytesMax = 16 << 20
	// frontRunMax is how many arrivals of the front lane are taken in a row while agents wait. Then one of an agent
	// follows, so that many schedulers can't keep an agent out.
	frontRunMax = 64
)

// Lanes are the queues into the loop. There are few schedulers and operators, and somebody waits for them; there are
// many agents, and after a failover all of them have much to report. So the front lane goes first. Each stream uses one
// lane, so its calls stay in order.
type Lanes[A any] struct {
	Front  *Lane[A] // for schedulers and operators
	Agents *Lane[A]
	Wake   chan struct{} // holds one value when something may be waiting
	run    int           // how many were taken from the front in a row; the loop's goroutine only

	Gate      Gate      // bounds the agents that come back at once
	Operators *Inlet[A] // one inlet for all of them together
	Stores    *Inlet[A] // one inlet for all writes to stores
}

// NewLanes makes empty lanes.
func NewLanes[A any]() *Lanes[A] {
	n := &Lanes[A]{Wake: make(chan struct{}, 1), Gate: make(Gate, returningMax)}
	n.Front, n.Agents = newLane[A](n.Rouse), newLane[A](n.Rouse)
	n.Operators, n.Stores = n.Front.inlet(NewSender(), requestsMax), n.Front.inlet(NewSender(), requestsMax)
	return n
}

// Rouse wakes the loop, so that it looks at the lanes.
func (n *Lanes[A]) Rouse() {
	select {
	case n.Wake <- struct{}{}:
	default:
	}
}

// Next takes what the loop should handle next; false when nothing waits.
func (n *Lanes[A]) Next() (A, bool) {
	if n.run < frontRunMax {
		if arrived, ok := n.Front.take(); ok {
			n.run++
			return arrived, true
		}
	}
	n.run = 0
	if arrived, ok := n.Agents.take(); ok {
		return arrived, true
	}
	arrived, ok := n.Front.take()
	if ok {
		n.run++
	}
	return arrived, ok
}

// Waiting returns how many arrivals wait.
func (n *Lanes[A]) Waiting() int { return n.Front.waiting() + n.Agents.waiting() }

// Lane takes from its inlets in turns, by the weight of what each sender has sent. So a sender that sends much, or
// opens many streams, delays others by one arrival at most.
type Lane[A any] struct {
	rouse func()
	room  *Budget // for bytes

	mu    sync.Mutex
	turns fair[*Inlet[A]] // the inlets that hold something; guarded by mu
	count int             // how many arrivals wait; guarded by mu
}

func newLane[A any](rouse func()) *Lane[A] {
	return &Lane[A]{rouse: rouse, room: NewBudget(laneBytesMax)}
}

// Inlet is the place of one stream in its lane.
type Inlet[A any] struct {
	lane *Lane[A]
	by   *Sender
	room *Budget // for places

	arrivals []arrival[A] // guarded by lane.mu
}

// arrival is what waits, with what it takes from its lane's bytes and its inlet's places.
type arrival[A any] struct {
	what           A
	weight, places int
}

// Inlet makes an inlet for a stream of the sender.
func (n *Lane[A]) Inlet(by *Sender) *Inlet[A] { return n.inlet(by, inletMax) }

// inlet makes one with the given number of places. Large messages take several.
func (n *Lane[A]) inlet(by *Sender, places int) *Inlet[A] {
	return &Inlet[A]{lane: n, by: by, room: NewBudget(places)}
}

const (
	// placeBytes is the size of a message that takes one place of its inlet.
	placeBytes = inletBytesMax / inletMax
	// arrivalBytes is what an arrival takes in memory beside its message.
	arrivalBytes = 512
)

// Put waits until there is room for an arrival of that many bytes, then queues it. It returns false when ctx ends or
// over is closed first.
func (i *Inlet[A]) Put(ctx context.Context, over <-chan struct{}, what A, bytes int) bool {
	places, weight := min(1+bytes/placeBytes, inletMax), min(bytes+arrivalBytes, laneBytesMax)
	if !i.room.Take(ctx, over, i.by, places) {
		return false
	}
	if !i.lane.room.Take(ctx, over, i.by, weight) {
		i.room.Give(places)
		return false
	}
	i.queue(arrival[A]{what, weight, places})
	return true
}

// PutLast queues the arrival that says that the stream is closed. It needs no room, because it comes once and must be
// handled.
func (i *Inlet[A]) PutLast(what A) { i.queue(arrival[A]{what: what}) }

func (i *Inlet[A]) queue(arrived arrival[A]) {
	n := i.lane
	n.mu.Lock()
	i.arrivals = append(i.arrivals, arrived)
	if len(i.arrivals) == 1 {
		n.turns.push(i.by, arrived.weight, i)
	}
	n.count++
	first := n.count == 1
	n.mu.Unlock()
	if first {
		n.rouse()
	}
}

// take returns the next arrival of the inlet whose turn it is; false when nothing waits.
func (n *Lane[A]) take() (what A, waits bool) {
	n.mu.Lock()
	i, waits := n.turns.pop()
	if !waits {
		n.mu.Unlock()
		return what, false
	}
	arrived := i.arrivals[0]
	i.arrivals[0] = arrival[A]{}
	i.arrivals = i.arrivals[1:]
	if len(i.arrivals) > 0 {
		n.turns.push(i.by, i.arrivals[0].weight, i)
	} else {
		i.arrivals = nil
	}
	n.count--
	n.mu.Unlock()
	if arrived.places > 0 {
		n.room.Give(arrived.weight)
		i.room.Give(arrived.places)
	}
	return arrived.what, true
}

func (n *Lane[A]) waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count
}
