package intake

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// lightWeight is the weight of what is read and written without a place: a heartbeat, an answer, a launch
// of a few tasks.
const lightWeight = 8 << 10

// ReadWeight is that of every read of the leader's core: each goes through the desk.
const ReadWeight = 2 * lightWeight

// Desk has places for the reading and writing of large messages, for half of the processors: the other half
// is there for the loop and for whoever says little. Senders have their turns by the weight of what they
// have sent, so the message of one who sends much is read piece by piece between those of others.
//
// A place rests after its work, so that also the rest of a processor is left to others, when all are busy: how
// long is a multiple of how long the work took.
type Desk struct {
	rest int // times as long as the work; 0: none

	places *Budget

	mu   sync.Mutex
	owed time.Duration // rest that has not been taken yet; guarded by mu
}

const (
	// messagesRest and readsRest are how long the reading of large messages rests, and the answers
	// to people and programs that look.
	messagesRest = 1
	readsRest    = 3
	// restMin is the shortest rest that is taken; shorter ones add up.
	restMin = time.Millisecond
	// restMax is the longest: work that took so long was itself kept waiting.
	restMax = 20 * time.Millisecond
)

// NewDesk is one for messages.
func NewDesk() *Desk {
	return &Desk{rest: messagesRest, places: NewBudget(max(1, runtime.GOMAXPROCS(0)/2))}
}

// NewReads is a desk with one place for those who look.
func NewReads() *Desk { return &Desk{rest: readsRest, places: NewBudget(1)} }

// During runs work that has such a weight, in its turn; false when ctx ends first.
func (d *Desk) During(ctx context.Context, by *Sender, weight int, work func()) bool {
	if weight <= lightWeight {
		work()
		return true
	}
	if !d.places.takeByWeight(ctx, nil, by, 1, weight) {
		return false
	}
	began := time.Now()
	defer func() { d.leave(time.Since(began)) }()
	work()
	return true
}

// leave gives the place up after its rest.
func (d *Desk) leave(worked time.Duration) {
	if rest := d.restAfter(worked); rest > 0 {
		time.AfterFunc(rest, func() { d.places.Give(1) })
		return
	}
	d.places.Give(1)
}

// restAfter is the rest that is due now; what is too short is owed.
func (d *Desk) restAfter(worked time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owed += time.Duration(d.rest) * worked; d.owed < restMin {
		return 0
	}
	due := min(d.owed, restMax)
	d.owed = 0
	return due
}

// ReadParts reads a message part by part: each is read at the desk, and taken before the next one is read, so
// that only one of them is in memory. The frame is given back.
func ReadParts[C any](
	ctx context.Context, d *Desk, by *Sender, frame *wire.Frame, cut func(*wire.Frame) ([]wire.Part, error),
	read func(before int, part []byte) ([]C, error), take func(calls []C, weight int) *api.Error,
) *api.Error {
	defer frame.Free()
	parts, err := cut(frame)
	if err != nil {
		return wire.Error(err)
	}
	before := 0
	for _, part := range parts {
		var calls []C
		if !d.During(ctx, by, part.Weight, func() { calls, err = read(before, part.Bytes) }) {
			return nil // the stream is gone
		}
		before += part.Calls
		if refused := take(calls, part.Weight); refused != nil {
			return refused
		}
		if err != nil {
			return wire.Error(err)
		}
	}
	return nil
}

// SchedulerCalls reads a part of a scheduler's message.
func SchedulerCalls(_ int, part []byte) ([]protocol.NumberedCall, error) {
	m := new(apiv1.SchedulerCalls)
	if err := proto.Unmarshal(part, m); err != nil {
		return nil, wire.Unreadable("wire.scheduler")
	}
	return wire.SchedulerCallsFromProto(m)
}

// AgentCalls reads a part of an agent's message.
func AgentCalls(before int, part []byte) ([]protocol.AgentCall, error) {
	m := new(apiv1.AgentCalls)
	if err := proto.Unmarshal(part, m); err != nil {
		return nil, wire.Unreadable("wire.agent")
	}
	return wire.AgentCallsAfter(before, m)
}
