package wire_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// frame returns a message as it comes from the network.
func frame(t interface {
	Helper()
	Fatal(...any)
}, m proto.Message) *wire.Frame {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return frameOf(t, data)
}

func frameOf(t interface {
	Helper()
	Fatal(...any)
}, data []byte) *wire.Frame {
	t.Helper()
	f := new(wire.Frame)
	if err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPartsAreTheWhole: reading a message part by part gives the same calls in the same order.
func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gen{t}
		var calls []protocol.NumberedCall
		for i := range 300 {
			calls = append(calls, protocol.NumberedCall{Number: uint64(i + 1), Call: protocol.SchedulerHeartbeat{}})
		}
		for _, call := range each(g.schedulerCalls()) {
			calls = append(calls, protocol.NumberedCall{Number: uint64(len(calls) + 1), Call: call})
		}
		whole := wire.SchedulerCallsToProto(calls)
		parts, err := frame(t, whole).SchedulerParts()
		if err != nil {
			t.Fatal(err)
		}
		got := new(apiv1.SchedulerCalls)
		for _, part := range parts {
			one := new(apiv1.SchedulerCalls)
			if err := proto.Unmarshal(part.Bytes, one); err != nil {
				t.Fatal(err)
			}
			if n := len(one.GetCalls()); n != part.Calls || n > 128 {
				t.Fatalf("a part of %d calls holds %d", part.Calls, n)
			}
			got.Calls = append(got.Calls, one.GetCalls()...)
		}
		if !proto.Equal(whole, got) {
			t.Fatalf("%d parts hold %d calls of %d, or others", len(parts), len(got.GetCalls()), len(whole.GetCalls()))
		}
	})
}

// TestFramesAreRefusedAsTheirMessages: the count before a message is decoded is the same as after.
func TestFramesAreRefusedAsTheirMessages(t *testing.T) {
	beat := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Heartbeat{Heartbeat: &apiv1.SchedulerHeartbeat{}}}
	accept := func(tasks int) *apiv1.SchedulerCall {
		return &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{
			OfferIds:   []string{"o"},
			Operations: []*apiv1.Operation{{Tasks: many(tasks, &apiv1.Task{}), Resources: many(4, &apiv1.Resource{})}},
		}}}
	}
	demand := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Demand{Demand: &apiv1.SetDemand{
		Shapes: many(2000, &apiv1.Shape{Resources: many(7, &apiv1.Resource{}), Preferred: []string{"a"}}),
	}}}
	messages := map[string]*apiv1.SchedulerCalls{
		"one call too many": {Calls: many(4097, beat)},
		"as many as may be": {Calls: many(4096, beat)},
		"too many tasks":    {Calls: append(many(16, accept(4000)), accept(1600))},
		"just enough":       {Calls: append(many(16, accept(4000)), accept(1400))},
		"shapes":            {Calls: many(4, demand)},
		"lists of all":      {Calls: slices.Concat(many(16, accept(4000)), many(100, beat), []*apiv1.SchedulerCall{accept(1100)})},
	}
	for name, m := range messages {
		_, want := wire.SchedulerCallsFromProto(m)
		_, got := frame(t, m).SchedulerParts()
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("%s: refused with %v, and when it is read with %v", name, got, want)
		}
	}
	report := &apiv1.AgentCalls{Calls: []*apiv1.AgentCall{{Call: &apiv1.AgentCall_Report{Report: &apiv1.AgentReport{
		Tasks: many(20_000, &apiv1.ReportedTask{}), Executors: many(20_000, &apiv1.ReportedExecutor{}), Stubs: many(20_000, &apiv1.TaskStub{}),
		Frameworks: many(3000, &apiv1.ReportedFramework{}), Volumes: many(3000, &apiv1.Volume{}),
	}}}}}
	_, want := wire.AgentCallsAfter(0, report)
	_, got := frame(t, report).AgentParts()
	if want == nil || got == nil || got.Error() != want.Error() {
		t.Errorf("a report was refused with %v, and when it is read with %v", got, want)
	}
}

// TestPartsAreSmall (R34): one part is a small piece of a message, and its weight is what it takes once it is read. A
// call that no honest peer could send is refused before it is read.
func TestPartsAreSmall(t *testing.T) {
	tasks := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{
		Operations: []*apiv1.Operation{{Tasks: many(100, &apiv1.Task{})}},
	}}}
	parts, err := frame(t, &apiv1.SchedulerCalls{Calls: many(40, tasks)}).SchedulerParts()
	if err != nil || len(parts) != 20 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, part := range parts {
		if part.Calls != 2 || part.Weight < 2*100*200 || part.Weight > 64<<10 {
			t.Errorf("a part of %d calls weighs %d", part.Calls, part.Weight)
		}
	}
	labels := &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Suppress{Suppress: &apiv1.Suppress{Roles: make([]string, 200_000)}}}
	_, err = frame(t, &apiv1.SchedulerCalls{Calls: []*apiv1.SchedulerCall{labels}}).SchedulerParts()
	checkError(t, err, api.Limit, "wire.scheduler", "", "a call holds 200001 things, at most 131072 are allowed")
	_, err = frameOf(t, []byte{0x0a, 0x05, 0x01}).SchedulerParts()
	checkError(t, err, api.Invalid, "wire.scheduler", "", "the message can't be read; it is no message of calls, or damaged")
}

// TestBuffersFit (R34): a message takes a buffer of at most twice its size, although gRPC's own have 32 KiB or a
// megabyte. What is written can be read.
func TestBuffersFit(t *testing.T) {
	for _, bytes := range []int{10, 5 << 10, 33 << 10, 200 << 10, 600 << 10, api.MessageBytesMax} {
		m := &apiv1.StoreWrite{Key: "k", Value: make([]byte, bytes), Write: 7}
		data, err := wire.Codec().Marshal(m)
		if err != nil || len(data) != 1 {
			t.Fatalf("%d bytes: %d buffers, %v", bytes, len(data), err)
		}
		if got := cap(data[0].ReadOnlyData()); bytes > 4<<10 && got > 4*bytes || bytes >= 32<<10 && got > 2*bytes {
			t.Errorf("%d bytes took a buffer of %d", bytes, got)
		}
		read := new(apiv1.StoreWrite)
		if err := wire.Codec().Unmarshal(data, read); err != nil || !proto.Equal(m, read) {
			t.Errorf("%d bytes were read as %d, %v", bytes, len(read.GetValue()), err)
		}
		data.Free()
	}
}

// TestLargeValuesAreNotCopied: an entry of a store is encoded completely around its value, whatever fields an entry
// has.
func TestLargeValuesAreNotCopied(t *testing.T) {
	value := bytes.Repeat([]byte("v"), 200<<10)
	entry := &apiv1.StoreEntry{Value: value}
	fields := entry.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch field := fields.Get(i); field.Kind() {
		case protoreflect.StringKind:
			entry.ProtoReflect().Set(field, protoreflect.ValueOfString("k"))
		case protoreflect.Uint64Kind:
			entry.ProtoReflect().Set(field, protoreflect.ValueOfUint64(7))
		case protoreflect.BoolKind:
			entry.ProtoReflect().Set(field, protoreflect.ValueOfBool(true))
		case protoreflect.BytesKind: // the value
		default:
			t.Fatalf("a field of kind %v is new: fill it here, and write it in headOfStoreEntry", field.Kind())
		}
	}
	data, err := wire.Codec().Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	read := new(apiv1.StoreEntry)
	if err := wire.Codec().Unmarshal(data, read); err != nil || !proto.Equal(entry, read) {
		t.Errorf("read as key %q, %d bytes, version %d: %v", read.GetKey(), len(read.GetValue()), read.GetVersion(), err)
	}
	if last := data[len(data)-1].ReadOnlyData(); &last[0] != &value[0] {
		t.Error("the value was copied")
	}
}

// TestPagesAreSentAroundTheirValues: a page of a store is decoded as it was, and its large values are not copied. Its
// owner is told once when the last of them is no longer needed.
func TestPagesAreSentAroundTheirValues(t *testing.T) {
	if fields := new(apiv1.StoreListResponse).ProtoReflect().Descriptor().Fields().Len(); fields != 2 {
		t.Fatalf("a page has %d fields: fill them here, and write them in aroundPage", fields)
	}
	for _, sizes := range [][]int{{200 << 10}, {10, 200 << 10, 0, 20, 100 << 10, 5}, {100 << 10, 100 << 10}, {1, 2, 3}, {}} {
		page, back := &apiv1.StoreListResponse{NextPageToken: "next"}, 0
		var large [][]byte
		for i, size := range sizes {
			value := bytes.Repeat([]byte{byte(1 + i)}, size)
			page.Items = append(page.Items, &apiv1.StoreEntry{Key: fmt.Sprint("k", i), Value: value, Version: uint64(i)})
			if size >= 100<<10 {
				large = append(large, value)
			}
		}
		data, err := wire.Codec().Marshal(&wire.Lent{Message: page, Back: func() { back++ }})
		if err != nil {
			t.Fatal(err)
		}
		read := new(apiv1.StoreListResponse)
		if err := wire.Codec().Unmarshal(data, read); err != nil || !proto.Equal(page, read) {
			t.Errorf("a page of %v bytes is read as %d items: %v", sizes, len(read.GetItems()), err)
		}
		for _, piece := range data {
			if piece := piece.ReadOnlyData(); len(large) > 0 && len(piece) > 0 && &piece[0] == &large[0][0] {
				large = large[1:]
			}
		}
		if len(large) > 0 {
			t.Errorf("%d values of a page of %v bytes were copied", len(large), sizes)
		}
		if shared := len(data) > 1; shared && back != 0 {
			t.Errorf("a page of %v bytes was given back before it was written", sizes)
		}
		if data.Free(); back != 1 {
			t.Errorf("a page of %v bytes was given back %d times", sizes, back)
		}
	}
}

// TestWatchersShareWhatIsEncoded: what many watchers are told is encoded once and not copied for each of them, and each
// reads it with what is told to it alone.
func TestWatchersShareWhatIsEncoded(t *testing.T) {
	alone := &apiv1.WatchResponse{Items: []*apiv1.Change{{Removed: "task/another"}}, Cursor: &apiv1.Cursor{Number: 7}, Complete: true, Missed: "some", Packed: []byte("packed")}
	if fields := alone.ProtoReflect().Descriptor().Fields().Len(); fields != 5 {
		t.Fatalf("a response has %d fields: fill them here, and write them in aroundEncoded", fields)
	}
	for _, bytes := range []int{10, 200 << 10} {
		told := &apiv1.WatchResponse{Items: []*apiv1.Change{{Removed: "task/" + strings.Repeat("t", bytes)}}}
		encoded, err := proto.Marshal(told)
		if err != nil {
			t.Fatal(err)
		}
		news := proto.CloneOf(alone)
		news.ProtoReflect().SetUnknown(encoded)
		back := 0
		for _, sent := range []any{news, &wire.Lent{Message: news, Back: func() { back++ }}} { // masters lend it
			data, err := wire.Codec().Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			if shared := &data[len(data)-1].ReadOnlyData()[0] == &encoded[0]; shared != (bytes > 10) {
				t.Errorf("%d bytes are shared as %T: %v", bytes, sent, shared)
			}
			read := new(apiv1.WatchResponse)
			if err := wire.Codec().Unmarshal(data, read); err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(alone)
			if want.Items = append(want.Items, told.Items...); !proto.Equal(read, want) {
				t.Errorf("%d bytes are read as %d items, %v, %q", bytes, len(read.Items), read.Cursor, read.Missed)
			}
			data.Free()
		}
		if back != 1 {
			t.Errorf("%d bytes were given back %d times", bytes, back)
		}
	}
}

// TestWhatIsLentComesBack: a lent entry is encoded in the same way as any other. Its owner is told once when it is no
// longer needed. A large value is not copied.
func TestWhatIsLentComesBack(t *testing.T) {
	for _, bytes := range []int{0, 10, 1 << 20} {
		back := 0
		entry := &apiv1.StoreEntry{Key: "k", Value: make([]byte, bytes), Version: 7}
		data, err := wire.Codec().Marshal(&wire.Lent{Message: entry, Back: func() { back++ }})
		if err != nil {
			t.Fatal(err)
		}
		large := bytes > 1<<10
		if large && (back != 0 || &data[len(data)-1].ReadOnlyData()[0] != &entry.Value[0]) {
			t.Errorf("a value of %d bytes is copied, or was given back %d times before it was written", bytes, back)
		}
		got := new(apiv1.StoreEntry)
		if err := proto.Unmarshal(data.Materialize(), got); err != nil || !proto.Equal(got, entry) {
			t.Errorf("an entry of %d bytes is read as %v, %v", bytes, got.GetKey(), err)
		}
		if data.Free(); back != 1 {
			t.Errorf("an entry of %d bytes was given back %d times", bytes, back)
		}
	}
}
