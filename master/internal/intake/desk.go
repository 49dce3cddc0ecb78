package intake

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// lightWeight is the largest weight that is read or written without a place at the desk: a heartbeat, an answer, a
// launch of a few tasks.
const lightWeight = 8 << 10

// ReadWeight is the weight of every read of the leader's core. It is large enough that each read goes through the desk.
const ReadWeight = 2 * lightWeight

// Desk has places for reading and writing large messages. There are places for half of the processors; the other half
// is for the loop and for senders of small messages. Senders take turns by the weight of what they have sent, so that a
// large message is read piece by piece between the messages of others.
//
// A place rests after its work, so that some time of its processor is left to others even when all places are busy. The
// rest lasts a multiple of the time that the work took.
type Desk struct {
	rest int // how many times as long as the work; 0: no rest

	places *Budget

	mu   sync.Mutex
	owed time.Duration // rest that has not been taken yet; guarded by mu
}

const (
	// messagesRest is the rest after reading large messages, readsRest the rest after answers to people and programs
	// that read.
	messagesRest = 1
	readsRest    = 3
	// restMin is the shortest rest that is taken; shorter ones add up.
	restMin = time.Millisecond
	// restMax is the longest rest. Work that took longer was itself kept waiting.
	restMax = 20 * time.Millisecond
)

// NewDesk makes a desk for messages.
func NewDesk() *Desk {
	return &Desk{rest: messagesRest, places: NewBudget(max(1, runtime.GOMAXPROCS(0)/2))}
}

// NewReads makes a desk with one place, for reads of the leader's core.
func NewReads() *Desk { return &Desk{rest: readsRest, places: NewBudget(1)} }

// During runs work of the given weight when it is the sender's turn; it returns false when ctx ends first.
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

// leave gives the place back after its rest.
func (d *Desk) leave(worked time.Duration) {
	if rest := d.restAfter(worked); rest > 0 {
		time.AfterFunc(rest, func() { d.places.Give(1) })
		return
	}
	d.places.Give(1)
}

// restAfter returns the rest that is due now. A rest that is too short is added to the next one.
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

// Calls says how the messages of a kind of peer are read.
type Calls[C any] struct {
	cut   func(*wire.Frame) ([]wire.Part, error)
	read  func(before int, part []byte) ([]C, error) // before is how many calls the parts before have
	price func([]C) int                              // what they cost beside the memory that they take
}

// SchedulerCalls and AgentCalls read what schedulers and agents say.
var (
	SchedulerCalls = Calls[protocol.NumberedCall]{(*wire.Frame).SchedulerParts, schedulerCalls, schedulerPrice}
	AgentCalls     = Calls[protocol.AgentCall]{(*wire.Frame).AgentParts, agentCalls, agentPrice}
)

// ReadAll reads the messages of a stream until it ends, part by part. Each part is read at the desk, paid by its sender
// and taken before the next one is read, so that only one of them is in memory. It returns why the stream has to end;
// nil if it has ended.
func (how Calls[C]) ReadAll(stream grpc.ServerStream, d *Desk, by *Sender, take func(calls []C, weight int) *api.Error) *api.Error {
	for by.Pay(stream.Context(), CallsExpense, 0) { // its debts, while nothing of the next message is in memory
		frame := new(wire.Frame)
		if stream.RecvMsg(frame) != nil {
			return nil //nolint:nilerr // the stream has ended or is ending
		}
		if err := how.readParts(stream.Context(), d, by, frame, take); err != nil {
			by.Charge(CallsExpense, EndedPrice)
			return err
		}
	}
	return nil
}

// readParts reads one message, and frees its frame.
func (how Calls[C]) readParts(ctx context.Context, d *Desk, by *Sender, frame *wire.Frame, take func(calls []C, weight int) *api.Error) *api.Error {
	defer frame.Free()
	parts, err := how.cut(frame)
	if err != nil {
		return wire.Error(err)
	}
	before := 0
	for _, part := range parts {
		var calls []C
		if !d.During(ctx, by, part.Weight, func() { calls, err = how.read(before, part.Bytes) }) {
			return nil // the stream has ended
		}
		before += part.Calls
		if !by.Pay(ctx, CallsExpense, float64(part.Weight+how.price(calls))) {
			return nil
		}
		if refused := take(calls, part.Weight); refused != nil {
			return refused
		}
		if err != nil {
			return wire.Error(err)
		}
	}
	return nil
}

func schedulerCalls(_ int, part []byte) ([]protocol.NumberedCall, error) {
	m := new(apiv1.SchedulerCalls)
	if err := proto.Unmarshal(part, m); err != nil {
		return nil, wire.Unreadable("wire.scheduler")
	}
	return wire.SchedulerCallsFromProto(m)
}

func agentCalls(before int, part []byte) ([]protocol.AgentCall, error) {
	m := new(apiv1.AgentCalls)
	if err := proto.Unmarshal(part, m); err != nil {
		return nil, wire.Unreadable("wire.agent")
	}
	return wire.AgentCallsAfter(before, m)
}
