package wire

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestEventsAreMessages: an event is encoded as the message that it stands for, and read back whole.
func TestEventsAreMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 300, -1)
		number := rapid.Uint64()
		e := Event{
			Cursor: Cursor{Term: api.Term{Epoch: number.Draw(t, "epoch"), Number: number.Draw(t, "term")}, Number: number.Draw(t, "number")},
			At:     time.Unix(rapid.Int64Range(-1e10, 1e10).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
			Kind:   text.Draw(t, "kind"), Name: text.Draw(t, "name"), What: text.Draw(t, "what"), Why: text.Draw(t, "why"), By: text.Draw(t, "by"),
			About: rapid.SliceOfN(text, 0, 4).Draw(t, "about"), Notable: rapid.Bool().Draw(t, "notable"),
		}
		about := slices.DeleteFunc(slices.Clone(e.About), func(thing string) bool { return thing == "" }) // says nothing
		message := &apiv1.Event{
			Cursor: e.Cursor.Proto(), At: timestamppb.New(e.At), Kind: e.Kind, Name: e.Name, What: e.What, Why: e.Why, By: e.By,
			About: about, Notable: e.Notable,
		}
		if rapid.Bool().Draw(t, "set") {
			message.Set = &apiv1.Event_Grant{Grant: &apiv1.PrincipalGrant{Verb: "view"}}
			e.Set, _ = proto.Marshal(&apiv1.Event{Set: message.GetSet()})
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		encoded := e.Append([]byte("before"))
		if !bytes.Equal(encoded, append([]byte("before"), want...)) {
			t.Fatalf("%v is encoded as %x, and its message as %x", e, encoded, want)
		}
		var back Event
		if err := back.Read(want); err != nil {
			t.Fatal(err)
		}
		if e.About = about; back.Cursor != e.Cursor || !back.At.Equal(e.At) || back.Kind != e.Kind || back.Name != e.Name || back.What != e.What ||
			back.Why != e.Why || back.By != e.By || !slices.Equal(back.About, e.About) || back.Notable != e.Notable {
			t.Fatalf("%v is read as %v", e, back)
		}
	})
}

// TestEventsAreText: what is no text does not make an event unreadable.
func TestEventsAreText(t *testing.T) {
	e := Event{Kind: "task", Name: "f/t", Why: "it said \xff\xfe and ended"}
	message := &apiv1.Event{}
	if err := proto.Unmarshal(e.Append(nil), message); err != nil || message.GetWhy() != "it said \uFFFD and ended" {
		t.Errorf("it is read as %q, %v", message.GetWhy(), err)
	}
}

// TestUnpack: packed events come back one by one, and what is cut off behind them is not one.
func TestUnpack(t *testing.T) {
	packed := PackEvent(PackEvent(PackEvent(nil, []byte("one")), nil), []byte("three"))
	for cut, want := range map[int][]string{0: {"one", "", "three"}, 1: {"one", ""}} {
		var got []string
		for encoded := range Unpack(packed[:len(packed)-cut]) {
			got = append(got, string(encoded))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %d bytes cut off they are %q", cut, got)
		}
	}
}

// FuzzReadEvent: whatever a peer or a disk says, an event that can be read can be written and read again.
func FuzzReadEvent(f *testing.F) {
	whole := Event{
		Cursor: Cursor{Term: api.Term{Epoch: 1, Number: 2}, Number: 3}, At: time.Unix(4, 5), Kind: "task", Name: "f/t", What: "failed",
		Why: "exit code 7", By: "agent a", About: []string{"agent/a", "framework/f"}, Notable: true,
	}
	f.Add(whole.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		var e, again Event
		if e.Read(text) != nil {
			return
		}
		once := e.Append(nil)
		if err := again.Read(once); err != nil || again.Cursor != e.Cursor || !bytes.Equal(again.Append(nil), once) {
			t.Errorf("%v is read again as %v, %v", e, again, err)
		}
	})
}
