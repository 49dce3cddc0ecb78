// Package codec reads and writes what clients of Apache Mesos's v1 HTTP API put on the wire: messages as JSON or
// protobuf, and streams of them as RecordIO. It is lenient in what it reads and exact in what it writes, because old
// clients are neither changed nor asked. It knows the messages by their descriptors only, and holds nothing.
package codec

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Encoding is how a message is written.
type Encoding int

// JSON is what a client gets that asks for nothing, as in Mesos.
const (
	JSON Encoding = iota
	Protobuf
)

// RecordIO is the media type of streams whose records are in the encoding that the header Message-Content-Type names.
const RecordIO = "application/recordio"

// ContentType returns the exact media type: old clients compare it as a string, so it has no parameters.
func (e Encoding) ContentType() string {
	if e == Protobuf {
		return "application/x-protobuf"
	}
	return "application/json"
}

// Marshal writes a message. It fails when a required field is missing: a client would drop such a message whole.
func (e Encoding) Marshal(m proto.Message) ([]byte, error) {
	if e == Protobuf {
		return proto.Marshal(m)
	}
	if err := proto.CheckInitialized(m); err != nil {
		return nil, err
	}
	return appendMessage(nil, m.ProtoReflect()), nil
}

// Unmarshal reads a message into an empty one. Unknown fields are skipped. It fails when a required field is missing, or a
// text is not UTF-8, which the protobuf of Mesos allows: an ID would come back as another one.
func (e Encoding) Unmarshal(data []byte, m proto.Message) error {
	if e == Protobuf {
		if err := proto.Unmarshal(data, m); err != nil {
			return err
		}
		return checkTexts(m.ProtoReflect())
	}
	return unmarshalJSON(data, m)
}

// checkTexts returns an error that names the first text in a message that is not UTF-8.
func checkTexts(m protoreflect.Message) (err error) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		check := func(of protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case err != nil:
			case of.Message() != nil:
				err = checkTexts(v.Message())
			case of.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
				err = fmt.Errorf("%s is not UTF-8: %q", field.FullName(), v.String())
			}
			return err == nil
		}
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
				return check(field.MapKey(), key.Value()) && check(field.MapValue(), v)
			})
		case field.IsList():
			for i := 0; i < value.List().Len() && check(field, value.List().Get(i)); i++ { // it checks
			}
		default:
			check(field, value)
		}
		return err == nil
	})
	return err
}

// RequestEncoding tells how a request's body is written; ok is false for a media type that is not spoken here, or none.
func RequestEncoding(header http.Header) (e Encoding, ok bool) {
	return encodingOf(header.Get("Content-Type"))
}

// MessageEncoding tells how the records of a request's RecordIO body are written.
func MessageEncoding(header http.Header) (e Encoding, ok bool) {
	return encodingOf(header.Get("Message-Content-Type"))
}

func encodingOf(value string) (Encoding, bool) {
	media, _, _ := mime.ParseMediaType(value)
	if media == JSON.ContentType() {
		return JSON, true
	}
	return Protobuf, media == Protobuf.ContentType()
}

// AnswerEncoding tells how a client wants its answer; ok is false if it wants what is not spoken here. All lines of
// Accept count, and some clients send none.
func AnswerEncoding(header http.Header) (e Encoding, ok bool) {
	return accepted(header.Values("Accept"))
}

// AnswerMessageEncoding tells how a client wants the records of an answer in RecordIO.
func AnswerMessageEncoding(header http.Header) (e Encoding, ok bool) {
	return accepted(header.Values("Message-Accept"))
}

// Accepts says whether a client names this media type, or all.
func Accepts(header http.Header, media string) bool {
	return accepts(header.Values("Accept"), media)
}

func accepted(values []string) (Encoding, bool) {
	for _, e := range []Encoding{JSON, Protobuf} { // JSON first, as Mesos does
		if len(values) == 0 || accepts(values, e.ContentType()) {
			return e, true
		}
	}
	return JSON, false
}

func accepts(values []string, media string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case media, "*/*", "application/*", "":
				return true
			}
		}
	}
	return false
}
