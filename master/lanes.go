package master

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

// lanes are the ways into the loop. Schedulers and operators are few and somebody waits
// for them; agents are many, and after a failover all of them have much to tell. So the
// front lane goes first. Each stream uses one lane, so what it says stays in order.
type lanes struct {
	front  *lane // schedulers' and operators'
	agents *lane
	wake   chan struct{} // holds one when something may wait
	run    int           // taken from the front in a row; the loop's goroutine only

	operators *inlet // of all of them together
	stores    *inlet // of all that write to stores
}

func newLanes() *lanes {
	n := &lanes{wake: make(chan struct{}, 1)}
	n.front, n.agents = newLane(n.rouse), newLane(n.rouse)
	n.operators, n.stores = n.front.inlet(newSender(), requestsMax), n.front.inlet(newSender(), requestsMax)
	return n
}

// rouse lets the loop look.
func (n *lanes) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// next is what the loop takes now; false when nothing waits.
func (n *lanes) next() (arrival, bool) {
	if n.run < frontRunMax {
		if arrived, ok := n.front.take(); ok {
			n.run++
			return arrived, true
		}
	}
	n.run = 0
	if arrived, ok := n.agents.take(); ok {
		return arrived, true
	}
	arrived, ok := n.front.take()
	if ok {
		n.run++
	}
	return arrived, ok
}

// waiting counts what waits.
func (n *lanes) waiting() int { return n.front.waiting() + n.agents.waiting() }

// lane takes from its inlets in turns, each sender's by the weight of what it has said: whoever says much, or
// opens many streams, delays others by no more than one arrival.
type lane struct {
	rouse func()
	room  *budget // bytes

	mu    sync.Mutex
	turns fair[*inlet] // that hold something; guarded by mu
	count int          // of arrivals; guarded by mu
}

func newLane(rouse func()) *lane { return &lane{rouse: rouse, room: newBudget(laneBytesMax)} }

// inlet is one stream's way into its lane.
type inlet struct {
	lane *lane
	by   *sender
	room *budget // places

	arrivals []arrival // guarded by lane.mu
}

// inlet has so many places; large messages take several.
func (n *lane) inlet(by *sender, places int) *inlet {
	return &inlet{lane: n, by: by, room: newBudget(places)}
}

const (
	// placeBytes is the size of a message that takes one place of its inlet.
	placeBytes = inletBytesMax / inletMax
	// arrivalBytes is what an arrival takes beside its message.
	arrivalBytes = 512
)

// put waits for room, then queues; false when ctx or the leadership is over first. What
// says that a stream is closed needs no room: it comes once, and somebody must hear it.
func (i *inlet) put(ctx context.Context, over <-chan struct{}, arrived arrival) bool {
	if !arrived.last {
		arrived.places = min(1+arrived.bytes/placeBytes, inletMax)
		arrived.weight = min(arrived.bytes+arrivalBytes, laneBytesMax)
		if !i.room.take(ctx, over, i.by, arrived.places) {
			return false
		}
		if !i.lane.room.take(ctx, over, i.by, arrived.weight) {
			i.room.give(arrived.places)
			return false
		}
	}
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
	return true
}

// take is the next arrival of the inlet whose turn it is.
func (n *lane) take() (arrival, bool) {
	n.mu.Lock()
	i, waits := n.turns.pop()
	if !waits {
		n.mu.Unlock()
		return arrival{}, false
	}
	arrived := i.arrivals[0]
	i.arrivals[0] = arrival{}
	i.arrivals = i.arrivals[1:]
	if len(i.arrivals) > 0 {
		n.turns.push(i.by, i.arrivals[0].weight, i)
	} else {
		i.arrivals = nil
	}
	n.count--
	n.mu.Unlock()
	if !arrived.last {
		n.room.give(arrived.weight)
		i.room.give(arrived.places)
	}
	return arrived, true
}

func (n *lane) waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count
}

// budget is an amount that many share. Who finds too little of it waits, and they have their turns by what
// each sender has taken.
type budget struct {
	mu      sync.Mutex
	left    int
	waiters fair[*waiter] // guarded by mu
}

type waiter struct {
	amount int
	ready  chan struct{} // closed when it has its amount
	gone   bool          // it waits no more; guarded by budget.mu
}

func newBudget(amount int) *budget { return &budget{left: amount} }

// take waits for the amount, which is also its weight for the sender's turns; false when ctx ends or over is closed
// first.
func (b *budget) take(ctx context.Context, over <-chan struct{}, by *sender, amount int) bool {
	return b.takeByWeight(ctx, over, by, amount, amount)
}

// takeByWeight is the same for an amount that weighs more or less.
func (b *budget) takeByWeight(ctx context.Context, over <-chan struct{}, by *sender, amount, weight int) bool {
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
func (b *budget) leave(w *waiter) {
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

// give returns an amount.
func (b *budget) give(amount int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += amount
	b.serve()
}

// serve lets in whose turn it is, as long as there is enough. Callers hold mu.
func (b *budget) serve() {
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
func (b *budget) first() (*waiter, bool) {
	for {
		w, waits := b.waiters.first()
		if !waits || !w.gone {
			return w, waits
		}
		b.waiters.pop()
	}
}
