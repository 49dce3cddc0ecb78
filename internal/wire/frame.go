package wire

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that Codec stands before
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// A megabyte of calls takes many megabytes of memory once it is read. So a receiver with many peers takes a message as
// it came, weighs and counts its content, and reads it part by part. Only one part of a message is in memory as values,
// and a message that contains too much is refused before any of it is read (R34).

const (
	// thingBytes is about what a nested message, or one text in a list, takes in memory besides its own bytes.
	thingBytes = 256
	// callThingsMax bounds the things in one call. A call of the largest message has fewer, because each takes more
	// than eight encoded bytes.
	callThingsMax = api.MessageBytesMax / 8
	// partWeightMax is how much of a message is read at once. A call that weighs more is read alone.
	partWeightMax = 64 << 10
	// callsPerPartMax is how many calls of a message are read, and stepped by a master's loop, before others have their
	// turn.
	callsPerPartMax = 128
	// nestingMax bounds messages within messages; ours have a dozen at most.
	nestingMax = 64
)

// buffers is a pool for messages. gRPC's own buffers have 32 KiB or a megabyte, so that a message of 33 KiB takes a
// megabyte.
var buffers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20+128<<10)

// Buffers returns a pool with buffers of many sizes, for messages.
func Buffers() mem.BufferPool { return buffers }

// Codec returns gRPC's codec for protobuf with two changes: a Frame is passed on as it came, and no message takes a
// buffer of several times its size. (gRPC's own also clears all of such a buffer each time, a megabyte for a message of 33
// KiB.)
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// WithCodec has a client use Codec.
func WithCodec() grpc.DialOption { return grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec())) }

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
	// sharedValueMin is the size from which on a store's value, and what many watchers are told, is sent without copying
	// it.
	sharedValueMin = 16 << 10
	// storeEntryValue is the field number of apiv1.StoreEntry.value, listItems that of apiv1.StoreListResponse.items.
	storeEntryValue = 2
	listItems       = 1
)

// aroundValues encodes an entry of a store, a page of entries, or what watchers are told, around its large values, which
// are not copied. So however many peers read slowly or not at all, the values that wait for them are those that the store
// or the log holds anyway. Nobody changes a value.
func aroundValues(message proto.Message, share func(value []byte) mem.Buffer) (mem.BufferSlice, error) {
	switch m := message.(type) {
	case *apiv1.StoreListResponse:
		return aroundPage(m, share)
	case *apiv1.WatchResponse:
		return aroundEncoded(m, share)
	}
	entry, _ := message.(*apiv1.StoreEntry)
	head, err := headOfStoreEntry(entry)
	return mem.BufferSlice{mem.SliceBuffer(head), share(entry.GetValue())}, err
}

// aroundPage is aroundValues for a page. Everything between two large values is one piece.
func aroundPage(page *apiv1.StoreListResponse, share func(value []byte) mem.Buffer) (around mem.BufferSlice, err error) {
	var piece []byte
	for _, entry := range page.GetItems() {
		value := entry.GetValue()
		var head []byte
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

// aroundEncoded encodes a response of which a part is encoded already, for all who watch the same: they share its bytes,
// and nobody changes them.
func aroundEncoded(news *apiv1.WatchResponse, share func([]byte) mem.Buffer) (mem.BufferSlice, error) {
	rest, err := proto.Marshal(&apiv1.WatchResponse{
		Items: news.GetItems(), Cursor: news.GetCursor(), Complete: news.GetComplete(), Missed: news.GetMissed(), Packed: news.GetPacked(),
	})
	shared := mem.BufferSlice{share(news.ProtoReflect().GetUnknown())}
	if len(rest) > 0 {
		shared = append(mem.BufferSlice{mem.SliceBuffer(rest)}, shared...)
	}
	return shared, err
}

// largeValues returns how many values of a message are not copied.
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
	case *apiv1.WatchResponse:
		if len(m.ProtoReflect().GetUnknown()) >= sharedValueMin {
			return 1
		}
	default: // copies all that it has
	}
	return 0
}

// headOfStoreEntry encodes the part of an entry that comes before its value.
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

// Lent is a message that tells when it is no longer needed: it was written to the connection, or never will be. A Send
// does not tell that: it returns as soon as the message waits for the peer, which may read it late or never.
type Lent struct {
	Message proto.Message
	Back    func() // called once, by any goroutine; it must not wait
}

// lentMin is the smallest size of a message that is lent. For a smaller one Back is called at once: how many of these a
// stream may hold is limited by gRPC, which does not tell when it no longer needs them.
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

// aroundValues shares the large values, and calls Back when the last of them is no longer needed.
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

// lender is a pool for one message. It calls back when the buffer of the message is returned.
type lender struct {
	back func()
	mem.BufferPool
}

// Put returns the buffer to the pool, and then calls back.
func (l lender) Put(buffer *[]byte) {
	l.BufferPool.Put(buffer)
	l.back()
}

// Unmarshal keeps the bytes for a Frame, and decodes everything else.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(buffers)
	if frame, is := v.(*Frame); is {
		frame.buffer = whole
		return nil
	}
	defer whole.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// Frame is an undecoded message of calls. Its owner has to free it.
type Frame struct{ buffer mem.Buffer }

// Free releases the frame's bytes. Its parts must not be used after that.
func (f *Frame) Free() {
	if f.buffer != nil {
		f.buffer.Free()
		f.buffer = nil
	}
}

// Len returns the number of bytes.
func (f *Frame) Len() int { return f.buffer.Len() }

// Fields returns how many fields the message has, of which each element of a list is one. It stops at what is damaged.
func (f *Frame) Fields() int {
	fields := 0
	for data := f.buffer.ReadOnlyData(); len(data) > 0; fields++ {
		_, _, n := protowire.ConsumeField(data)
		if n < 0 {
			break
		}
		data = data[n:]
	}
	return fields
}

// Read decodes the whole frame as a protobuf message.
func (f *Frame) Read(into any) error {
	return encoding.GetCodecV2("proto").Unmarshal(mem.BufferSlice{f.buffer}, into)
}

// Part is a sequence of calls of a frame. By itself it is a message of the same type.
type Part struct {
	Bytes  []byte
	Calls  int
	Weight int // about what it takes in memory once it is read
}

// SchedulerParts splits a frame of apiv1.SchedulerCalls into parts, or refuses it.
func (f *Frame) SchedulerParts() ([]Part, error) {
	return schedulerLayout().cut("wire.scheduler", f.buffer.ReadOnlyData())
}

// AgentParts splits a frame of apiv1.AgentCalls into parts, or refuses it.
func (f *Frame) AgentParts() ([]Part, error) {
	return agentLayout().cut("wire.agent", f.buffer.ReadOnlyData())
}

// ExecutorParts splits a frame of apiv1.ExecutorCalls into parts, or refuses it.
func (f *Frame) ExecutorParts() ([]Part, error) {
	return executorLayout().cut("wire.executor", f.buffer.ReadOnlyData())
}

// tally counts what a call contains.
type tally struct {
	things int // nested messages, and texts in lists
	items  int // items that count besides the call itself; see schedulerCallItems
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

// count adds what is in an encoded message. It returns false if the bytes are not a message.
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

// Unreadable is the error for bytes that are not a message.
func Unreadable(op string) error {
	return api.E(op, api.Invalid, "", errors.New("the message can't be read; it is no message of calls, or damaged"))
}

// layout says, for counting the content of an encoded message, which of its fields hold messages or lists of texts. All
// other fields cost only their bytes.
type layout struct {
	fields []*fieldLayout // by field number; nil: the field costs only its bytes
}

type fieldLayout struct {
	nested *layout // the layout of the message; nil: a text in a list
	item   bool    // each one counts as an item of its call
}

// itemFields are the lists whose elements count; see schedulerCallItems and agentCallItems.
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

// The layouts are made when they are first needed, because many programs receive no frames.
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

// newLayout makes the layout of a message type. known holds those that were made before, or are being made.
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

// field returns nil for a field that costs only its bytes, and for an unknown one.
func (l *layout) field(number protowire.Number) *fieldLayout {
	if int(number) >= len(l.fields) {
		return nil
	}
	return l.fields[number]
}
