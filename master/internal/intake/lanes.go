package intake

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/api"
)

const (
	// inletMax and inletBytesMax bound what waits of one stream. Full: its reader waits, and
	// with it, through gRPC's flow control, whoever sends.
	inletMax      = 16
	inletBytesMax = api.MessageBytesMax
	// requestsMax bounds the same way the actions of all operators, and the writes of all
	// stores: more wait.
	requestsMax = 256
	// laneBytesMax bounds what waits in a lane, by what it takes in memory, about.
	laneBytesMax = 16 << 20
	// frontRunMax is how much of the front lane is taken while agents wait: one of
	// theirs follows, so that no crowd of schedulers keeps an agent out.
	frontRunMax = 64
)

// Lanes are the ways into the loop. Schedulers and operators are few and somebody waits
// for them; agents are many, and after a failover all of them have much to tell. So the
// front lane goes first. Each stream uses one lane, so what it says stays in order.
type Lanes[A any] struct {
	Front  *Lane[A] // schedulers' and operators'
	Agents *Lane[A]
	Wake   chan struct{} // holds one when something may wait
	run    int           // taken from the front in a row; the loop's goroutine only

	Gate      Gate      // for agents that come back
	Operators *Inlet[A] // of all of them together
	Stores    *Inlet[A] // of all that write to stores
}

// NewLanes are empty ones.
func NewLanes[A any]() *Lanes[A] {
	n := &Lanes[A]{Wake: make(chan struct{}, 1), Gate: NewGate()}
	n.Front, n.Agents = newLane[A](n.Rouse), newLane[A](n.Rouse)
	n.Operators, n.Stores = n.Front.inlet(NewSender(), requestsMax), n.Front.inlet(NewSender(), requestsMax)
	return n
}

// Rouse lets the loop look.
func (n *Lanes[A]) Rouse() {
	select {
	case n.Wake <- struct{}{}:
	default:
	}
}

// Next is what the loop takes now; false when nothing waits.
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

// Waiting counts what waits.
func (n *Lanes[A]) Waiting() int { return n.Front.waiting() + n.Agents.waiting() }

// Lane takes from its inlets in turns, each sender's by the weight of what it has said: whoever says much, or
// opens many streams, delays others by no more than one arrival.
type Lane[A any] struct {
	rouse func()
	room  *Budget // bytes

	mu    sync.Mutex
	turns fair[*Inlet[A]] // that hold something; guarded by mu
	count int             // of arrivals; guarded by mu
}

func newLane[A any](rouse func()) *Lane[A] {
	return &Lane[A]{rouse: rouse, room: NewBudget(laneBytesMax)}
}

// Inlet is one stream's way into its lane.
type Inlet[A any] struct {
	lane *Lane[A]
	by   *Sender
	room *Budget // places

	arrivals []arrival[A] // guarded by lane.mu
}

// arrival is what waits, and what it has taken of its lane's bytes and of its inlet's places.
type arrival[A any] struct {
	what           A
	weight, places int
}

// Inlet is one for a stream of the sender.
func (n *Lane[A]) Inlet(by *Sender) *Inlet[A] { return n.inlet(by, inletMax) }

// inlet has so many places; large messages take several.
func (n *Lane[A]) inlet(by *Sender, places int) *Inlet[A] {
	return &Inlet[A]{lane: n, by: by, room: NewBudget(places)}
}

const (
	// placeBytes is the size of a message that takes one place of its inlet.
	placeBytes = inletBytesMax / inletMax
	// arrivalBytes is what an arrival takes beside its message.
	arrivalBytes = 512
)

// Put waits for room for what takes so many bytes in memory, then queues it; false when ctx ends or over is closed
// first.
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

// PutLast queues what says that the stream is closed. It needs no room: it comes once, and somebody must hear it.
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

// take is the next arrival of the inlet whose turn it is.
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
