package wire

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

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
