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
	Notable                   bool
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
	return eachField(encoded, func(field protowire.Number, number uint64, bytes []byte) error {
		text := unsafe.String(unsafe.SliceData(bytes), len(bytes))
		switch field {
		case eventCursor:
			return e.Cursor.read(bytes)
		case eventAt:
			var at [3]uint64
			err := readNumbers(bytes, &at)
			e.At = time.Unix(int64(at[first]), int64(at[second])).UTC()
			return err
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
			e.Notable = number != 0
		}
		return nil
	})
}

func (c *Cursor) read(encoded []byte) error {
	return eachField(encoded, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case first:
			var term [3]uint64
			err := readNumbers(bytes, &term)
			c.Term = api.Term{Epoch: term[first], Number: term[second]}
			return err
		case second:
			c.Number = number
		}
		return nil
	})
}

// readNumbers reads the first two fields of a message, which are numbers.
func readNumbers(encoded []byte, into *[3]uint64) error {
	return eachField(encoded, func(field protowire.Number, number uint64, _ []byte) error {
		if field <= second {
			into[field] = number
		}
		return nil
	})
}

// eachField calls read with each field of a message: with its number or with its bytes.
func eachField(encoded []byte, read func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(encoded) > 0 {
		field, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return errNoEvent
		}
		encoded = encoded[n:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(encoded)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(encoded)
		default:
			n = protowire.ConsumeFieldValue(field, kind, encoded)
		}
		if n < 0 {
			return errNoEvent
		}
		encoded = encoded[n:]
		if err := read(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
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
