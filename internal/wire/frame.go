package wire

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that Codec stands before
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// A megabyte of calls becomes many megabytes once it is read. So whoever receives from many
// takes a message as it came, weighs and counts what is in it, and reads it part by part:
// only one part of a message is in memory as values, and one that holds too much is refused
// before any of it is read (R34).

const (
	// thingBytes is what a message within a message, or one of a list of texts, takes
	// in memory beside its own bytes, about.
	thingBytes = 256
	// callThingsMax bounds those in one call: a call of the largest message has fewer, as each
	// takes more than eight bytes to write.
	callThingsMax = api.MessageBytesMax / 8
	// partWeightMax is how much of a message is read at once; a call that weighs more is read
	// alone.
	partWeightMax = 64 << 10
	// callsPerPartMax is how many calls of a message are read, and stepped by a master's loop, before
	// others have their turn.
	callsPerPartMax = 128
	// nestingMax bounds messages within messages; ours have a dozen at most.
	nestingMax = 64
)

// buffers are for messages. gRPC's own are of 32 KiB or of a megabyte, which a message of 33 KiB takes whole.
var buffers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20+128<<10)

// Buffers is a pool with buffers of many sizes, for messages.
func Buffers() mem.BufferPool { return buffers }

// Codec is gRPC's for protobuf, but a Frame is handed over as it came, and no message takes a buffer of several times
// its size.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Marshal takes large buffers from Buffers.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if lent, is := v.(*Lent); is {
		return lent.marshal()
	}
	message, is := v.(proto.Message)
	if !is {
		return c.CodecV2.Marshal(v)
	}
	if largeValues(message) > 0 {
		return aroundValues(message, func(value []byte) mem.Buffer { return mem.SliceBuffer(value) })
	}
	size := proto.Size(message)
	if mem.IsBelowBufferPoolingThreshold(size) {
		data, err := proto.Marshal(message)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	buffer := buffers.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], message); err != nil {
		buffers.Put(buffer)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, buffers)}, nil
}

const (
	// sharedValueMin is how large a value of a store is that is sent without a copy of it.
	sharedValueMin = 16 << 10
	// storeEntryValue is the number of apiv1.StoreEntry.value, listItems that of apiv1.StoreListResponse.items.
	storeEntryValue = 2
	listItems       = 1
)

// aroundValues writes an entry of a store, or a page of entries, around its large values, which are not copied: however many
// peers read slowly or not at all, what waits for them is what the store has anyway. Nobody changes a value.
func aroundValues(message proto.Message, share func(value []byte) mem.Buffer) (mem.BufferSlice, error) {
	if page, is := message.(*apiv1.StoreListResponse); is {
		return aroundPage(page, share)
	}
	entry, _ := message.(*apiv1.StoreEntry)
	head, err := headOfStoreEntry(entry)
	return mem.BufferSlice{mem.SliceBuffer(head), share(entry.GetValue())}, err
}

// aroundPage is aroundValues for a page: what is between two large values is one piece.
func aroundPage(page *apiv1.StoreListResponse, share func(value []byte) mem.Buffer) (around mem.BufferSlice, err error) {
	var piece []byte
	for _, entry := range page.GetItems() {
		value, head := entry.GetValue(), []byte(nil)
		if len(value) < sharedValueMin {
			head, err = proto.Marshal(entry)
			value = nil
		} else {
			head, err = headOfStoreEntry(entry)
		}
		if err != nil {
			return nil, err
		}
		piece = protowire.AppendVarint(protowire.AppendTag(piece, listItems, protowire.BytesType), uint64(len(head)+len(value)))
		piece = append(piece, head...)
		if value != nil {
			around, piece = append(around, mem.SliceBuffer(piece), share(value)), nil
		}
	}
	rest, err := proto.Marshal(&apiv1.StoreListResponse{NextPageToken: page.GetNextPageToken()})
	return append(around, mem.SliceBuffer(append(piece, rest...))), err
}

// largeValues is how many values a message has that are not copied.
func largeValues(message proto.Message) int {
	switch m := message.(type) {
	case *apiv1.StoreEntry:
		if len(m.GetValue()) >= sharedValueMin {
			return 1
		}
	case *apiv1.StoreListResponse:
		large := 0
		for _, entry := range m.GetItems() {
			large += largeValues(entry)
		}
		return large
	default: // copies all that it has
	}
	return 0
}

// headOfStoreEntry is what is written of an entry before its value.
func headOfStoreEntry(entry *apiv1.StoreEntry) ([]byte, error) {
	data, err := proto.Marshal(&apiv1.StoreEntry{
		Key: entry.GetKey(), Version: entry.GetVersion(), Deleted: entry.GetDeleted(), Complete: entry.GetComplete(),
	})
	if err != nil {
		return nil, err
	}
	data = protowire.AppendTag(data, storeEntryValue, protowire.BytesType)
	return protowire.AppendVarint(data, uint64(len(entry.GetValue()))), nil
}

// Lent is a message that tells when it is needed no more: it was written to the connection, or never will be. A Send does not
// tell that: it returns as soon as the message waits for a peer, who may read it late or never.
type Lent struct {
	Message proto.Message
	Back    func() // called once, by any goroutine; must not wait
}

// lentMin is the size of messages that are lent. Smaller ones come back at once: what a stream may hold of these is
// bounded by gRPC, which does not tell when it needs them no more.
const lentMin = 2 << 10

func (l *Lent) marshal() (mem.BufferSlice, error) {
	if large := largeValues(l.Message); large > 0 {
		return l.aroundValues(large)
	}
	size := proto.Size(l.Message)
	buffer := buffers.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], l.Message); err != nil || size < lentMin {
		l.Back()
		return mem.BufferSlice{mem.NewBuffer(buffer, buffers)}, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, lender{l.Back, buffers})}, nil
}

// aroundValues shares so many large values, and tells when the last of them is needed no more.
func (l *Lent) aroundValues(large int) (mem.BufferSlice, error) {
	var needed atomic.Int64
	needed.Store(int64(large))
	back := func() {
		if needed.Add(-1) == 0 {
			l.Back()
		}
	}
	around, err := aroundValues(l.Message, func(value []byte) mem.Buffer {
		return mem.NewBuffer(&value, lender{back, mem.NopBufferPool{}})
	})
	if err != nil {
		l.Back()
		return nil, err
	}
	return around, nil
}

// lender takes back what it has not given: the owner of a message is told that it is needed no more.
type lender struct {
	back func()
	mem.BufferPool
}

// Put gives the buffer back as well.
func (l lender) Put(buffer *[]byte) {
	l.BufferPool.Put(buffer)
	l.back()
}

// Unmarshal keeps the bytes for a Frame, and reads all else.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if frame, is := v.(*Frame); is {
		frame.buffer = data.MaterializeToBuffer(buffers)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Frame is a message of calls before it is read. Its owner frees it.
type Frame struct{ buffer mem.Buffer }

// Free gives the frame's bytes back; its parts must not be used any more.
func (f *Frame) Free() {
	if f.buffer != nil {
		f.buffer.Free()
		f.buffer = nil
	}
}

// Len is how many bytes it has.
func (f *Frame) Len() int { return f.buffer.Len() }

// Read reads the whole of it as a message of protobuf.
func (f *Frame) Read(into any) error {
	return encoding.GetCodecV2("proto").Unmarshal(mem.BufferSlice{f.buffer}, into)
}

// Part is some calls of a frame, one after the other: by itself it is a message of the same kind.
type Part struct {
	Bytes  []byte
	Calls  int
	Weight int // what it takes in memory once it is read, about
}

// SchedulerParts cuts a frame of apiv1.SchedulerCalls, or refuses it.
func (f *Frame) SchedulerParts() ([]Part, error) {
	return schedulerLayout().cut("wire.scheduler", f.buffer.ReadOnlyData())
}

// AgentParts cuts a frame of apiv1.AgentCalls, or refuses it.
func (f *Frame) AgentParts() ([]Part, error) {
	return agentLayout().cut("wire.agent", f.buffer.ReadOnlyData())
}

// ExecutorParts cuts a frame of apiv1.ExecutorCalls, or refuses it.
func (f *Frame) ExecutorParts() ([]Part, error) {
	return executorLayout().cut("wire.executor", f.buffer.ReadOnlyData())
}

// tally is what a call holds.
type tally struct {
	things int // messages within it, and texts of its lists
	items  int // what counts beside the call itself; see schedulerCallItems
}

// cut counts and weighs every call before it returns the first part.
func (l *layout) cut(op string, data []byte) ([]Part, error) {
	var parts []Part
	calls, items, begin, part := 0, 0, 0, Part{}
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return nil, Unreadable(op)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[at+n:])
		if size < 0 {
			return nil, Unreadable(op)
		}
		end, weight := at+n+size, n+size
		call := l.field(number)
		if call != nil && call.nested != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[at+n:])
			var in tally
			if !call.nested.count(value, &in, nestingMax) {
				return nil, Unreadable(op)
			}
			if in.things > callThingsMax {
				return nil, api.E(op, api.Limit, "", fmt.Errorf("a call holds %d things, at most %d are allowed", in.things, callThingsMax))
			}
			calls, items, weight = calls+1, items+1+in.items, weight+(1+in.things)*thingBytes
		}
		if part.Calls > 0 && (part.Calls == callsPerPartMax || part.Weight+weight > partWeightMax) {
			part.Bytes = data[begin:at]
			parts, part, begin = append(parts, part), Part{}, at
		}
		part.Weight += weight
		if call != nil {
			part.Calls++
		}
		at = end
	}
	if err := checkCounts(op, calls, items); err != nil {
		return nil, err
	}
	if part.Bytes = data[begin:]; len(part.Bytes) > 0 {
		parts = append(parts, part)
	}
	return parts, nil
}

// count adds what is in a message; false when it is none.
func (l *layout) count(data []byte, in *tally, nesting int) bool {
	if nesting == 0 {
		return false
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		data = data[n:]
		f := l.field(number)
		if kind != protowire.BytesType || f == nil {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return false
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return false
		}
		data = data[n:]
		in.things++
		if f.item {
			in.items++
		}
		if f.nested != nil && !f.nested.count(value, in, nesting-1) {
			return false
		}
	}
	return true
}

// Unreadable is what is said of a message that is none.
func Unreadable(op string) error {
	return api.E(op, api.Invalid, "", errors.New("the message can't be read; it is no message of calls, or damaged"))
}

// layout is what is needed to count what is in an encoded message: which of its fields hold
// messages or lists of texts. All others cost their bytes.
type layout struct {
	fields []*fieldLayout // by number; nil: costs its bytes
}

type fieldLayout struct {
	nested *layout // of the message; nil: a text of a list
	item   bool    // each one counts as an item of its call
}

// itemFields are the lists whose members count; see schedulerCallItems and agentCallItems.
var itemFields = map[protoreflect.FullName]bool{
	"tender.v1.Unsettled.tasks":                   true,
	"tender.v1.Reconcile.tasks":                   true,
	"tender.v1.ReconcileOperations.operation_ids": true,
	"tender.v1.Acknowledge.items":                 true,
	"tender.v1.Accept.offer_ids":                  true,
	"tender.v1.Accept.operations":                 true,
	"tender.v1.Operation.resources":               true,
	"tender.v1.Operation.tasks":                   true,
	"tender.v1.Decline.offer_ids":                 true,
	"tender.v1.SetDemand.shapes":                  true,
	"tender.v1.Shape.resources":                   true,
	"tender.v1.Shape.preferred":                   true,
	"tender.v1.AnswerInverse.inverse_offer_ids":   true,
	"tender.v1.AgentReport.tasks":                 true,
	"tender.v1.AgentReport.executors":             true,
	"tender.v1.AgentReport.frameworks":            true,
	"tender.v1.AgentReport.stubs":                 true,
	"tender.v1.AgentReport.volumes":               true,
}

// Made when first needed: programs that receive no frames do without.
var (
	schedulerLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.SchedulerCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
	agentLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.AgentCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
	executorLayout = sync.OnceValue(func() *layout {
		return newLayout((*apiv1.ExecutorCalls)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*layout{})
	})
)

// newLayout reads a message's description; known are those that were read before, or are being read.
func newLayout(message protoreflect.MessageDescriptor, known map[protoreflect.FullName]*layout) *layout {
	if l := known[message.FullName()]; l != nil {
		return l
	}
	l := new(layout)
	known[message.FullName()] = l
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		one := &fieldLayout{item: itemFields[field.FullName()]}
		switch {
		case field.Message() != nil:
			one.nested = newLayout(field.Message(), known)
		case !field.IsList() || field.IsPacked():
			continue
		}
		for len(l.fields) <= int(field.Number()) {
			l.fields = append(l.fields, nil)
		}
		l.fields[field.Number()] = one
	}
	return l
}

// field is nil for what costs its bytes alone, also for what nobody knows.
func (l *layout) field(number protowire.Number) *fieldLayout {
	if int(number) >= len(l.fields) {
		return nil
	}
	return l.fields[number]
}
