package wire

import (
	"errors"
	"iter"
	"strings"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tenderhq/tender/api"
)

// Event is an apiv1.Event as a value. Leaders encode tens of thousands of them a second, and every master passes each on,
// finds its keys and keeps it. So they travel as bytes, and are read without copying a text.
type Event struct {
	Cursor                    Cursor
	At                        time.Time
	Kind, Name, What, Why, By string
	About                     []string
	Notable, Heard            bool
	Set                       []byte // the field of Event.set, encoded; only written, for whoever wants it reads the message
}

// The fields of apiv1.Event, its Cursor, that one's Term, and Timestamp.
const (
	eventCursor protowire.Number = 1 + iota
	eventAt
	eventKind
	eventName
	eventWhat
	eventWhy
	eventBy
	eventAbout
	eventNotable
	eventHeard = 14

	first  protowire.Number = 1
	second protowire.Number = 2
)

// Append appends the event as proto.Marshal would write it.
func (e *Event) Append(to []byte) []byte {
	to = appendPart(to, eventCursor, func(to []byte) []byte {
		if term := e.Cursor.Term; term != (api.Term{}) {
			to = appendPart(to, first, func(to []byte) []byte {
				return appendNumber(appendNumber(to, first, term.Epoch), second, term.Number)
			})
		}
		return appendNumber(to, second, e.Cursor.Number)
	})
	if !e.At.IsZero() {
		to = appendPart(to, eventAt, func(to []byte) []byte {
			return appendNumber(appendNumber(to, first, uint64(e.At.Unix())), second, uint64(e.At.Nanosecond()))
		})
	}
	to = appendText(to, eventKind, e.Kind)
	to = appendText(to, eventName, e.Name)
	to = appendText(to, eventWhat, e.What)
	to = appendText(to, eventWhy, e.Why)
	to = appendText(to, eventBy, e.By)
	for _, thing := range e.About {
		to = appendText(to, eventAbout, thing)
	}
	if e.Notable {
		to = appendNumber(to, eventNotable, 1)
	}
	to = append(to, e.Set...)
	if e.Heard {
		to = appendNumber(to, eventHeard, 1)
	}
	return to
}

// appendPart appends a message of less than 128 bytes.
func appendPart(to []byte, field protowire.Number, write func([]byte) []byte) []byte {
	to = append(protowire.AppendTag(to, field, protowire.BytesType), 0)
	at := len(to)
	to = write(to)
	to[at-1] = byte(len(to) - at)
	return to
}

func appendNumber(to []byte, field protowire.Number, value uint64) []byte {
	if value == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}

func appendText(to []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), strings.ToValidUTF8(text, "\uFFFD"))
}

var errNoEvent = errors.New("these bytes are no event")

// Read reads an encoded event. The texts of e are parts of the bytes, which must not change as long as one of them is
// used; About is used again by the next Read.
func (e *Event) Read(encoded []byte) error {
	*e = Event{About: e.About[:0]}
	of, bad := fields{rest: encoded}, false
	for of.next() {
		text := unsafe.String(unsafe.SliceData(of.bytes), len(of.bytes))
		switch of.field {
		case eventCursor:
			bad = !e.Cursor.read(of.bytes) || bad
		case eventAt:
			seconds, nanoseconds, ok := readNumbers(of.bytes)
			e.At, bad = time.Unix(int64(seconds), int64(nanoseconds)).UTC(), !ok || bad
		case eventKind:
			e.Kind = text
		case eventName:
			e.Name = text
		case eventWhat:
			e.What = text
		case eventWhy:
			e.Why = text
		case eventBy:
			e.By = text
		case eventAbout:
			e.About = append(e.About, text)
		case eventNotable:
			e.Notable = of.number != 0
		case eventHeard:
			e.Heard = of.number != 0
		}
	}
	if of.bad || bad {
		return errNoEvent
	}
	return nil
}

func (c *Cursor) read(encoded []byte) (ok bool) {
	ok = true
	of := fields{rest: encoded}
	for of.next() {
		switch of.field {
		case first:
			c.Term.Epoch, c.Term.Number, ok = readNumbers(of.bytes)
		case second:
			c.Number = of.number
		}
	}
	return ok && !of.bad
}

// readNumbers reads the first two fields of a message, which are numbers.
func readNumbers(encoded []byte) (one, two uint64, ok bool) {
	of := fields{rest: encoded}
	for of.next() {
		switch of.field {
		case first:
			one = of.number
		case second:
			two = of.number
		}
	}
	return one, two, !of.bad
}

// fields goes through the fields of a message.
type fields struct {
	rest   []byte
	field  protowire.Number
	number uint64 // the field is this number,
	bytes  []byte // or these bytes
	bad    bool   // no whole field follows
}

// next goes to the next field. It returns false behind the last one.
func (f *fields) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	if f.nextShort() {
		return true
	}
	field, kind, size := protowire.ConsumeTag(f.rest)
	f.field, f.number, f.bytes = field, 0, nil
	if size > 0 {
		f.rest = f.rest[size:]
		switch kind {
		case protowire.VarintType:
			f.number, size = protowire.ConsumeVarint(f.rest)
		case protowire.BytesType:
			f.bytes, size = protowire.ConsumeBytes(f.rest)
		default:
			size = protowire.ConsumeFieldValue(field, kind, f.rest)
		}
	}
	if f.bad = size < 0; f.bad {
		return false
	}
	f.rest = f.rest[size:]
	return true
}

// nextShort goes to the next field if it has less than 128 bytes and a number below 16, as nearly all have: this takes a
// third of the time.
func (f *fields) nextShort() bool {
	const tagMin, continued = 1 << 3, 0x80
	if len(f.rest) < 2 || f.rest[0] < tagMin || f.rest[0] >= continued || protowire.Type(f.rest[0]&7) != protowire.BytesType || f.rest[1] >= continued {
		return false
	}
	end := 2 + int(f.rest[1])
	if end > len(f.rest) {
		return false
	}
	f.field, f.number, f.bytes, f.rest = protowire.Number(f.rest[0]>>3), 0, f.rest[2:end], f.rest[end:]
	return true
}

// PackEvent appends an encoded event to others, behind its length.
func PackEvent(to, encoded []byte) []byte { return protowire.AppendBytes(to, encoded) }

// Unpack returns the encoded events that were packed together; they are parts of the bytes. It ends where no whole event
// follows.
func Unpack(packed []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(packed) > 0 {
			encoded, n := protowire.ConsumeBytes(packed)
			if n < 0 || !yield(encoded[:len(encoded):len(encoded)]) {
				return
			}
			packed = packed[n:]
		}
	}
}
