package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
)

// JSON encodes a message for people and programs: the field names of the .proto files, every field present (so a list
// without items is []), indented by two spaces, and always the same bytes for the same message. A 64-bit number is a
// number, as jq and most languages expect. It is a string only beyond 2^53, where they would round it.
func JSON(m proto.Message) ([]byte, error) {
	// protojson writes every 64-bit number as a string, and varies its spaces on purpose.
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err == nil {
		text, err = numbersOfMessage(text, m.ProtoReflect().Descriptor())
	}
	var indented bytes.Buffer
	if err == nil {
		err = json.Indent(&indented, text, "", "  ")
	}
	if err != nil {
		return nil, fmt.Errorf("wire.json: %w", err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// FromJSON decodes a message as JSON encodes it, or with fewer fields. A 64-bit number may be a number or a string. The
// error names what is wrong.
func FromJSON(text []byte, m proto.Message) error {
	if err := protojson.Unmarshal(text, m); err != nil {
		return api.E("wire.json", api.Invalid, "", err)
	}
	return nil
}

// exactMax is the limit up to which a float64 holds every whole number exactly.
const exactMax = 1 << 53

// numbersOfMessage rewrites an object without spaces, with its 64-bit numbers as numbers.
func numbersOfMessage(text []byte, message protoreflect.MessageDescriptor) ([]byte, error) {
	if message.ParentFile().Package() == "google.protobuf" { // Timestamp and Struct, which have a form of their own
		var tight bytes.Buffer
		err := json.Compact(&tight, text)
		return tight.Bytes(), err
	}
	return rewrite(text, func(name string, value []byte) ([]byte, error) {
		field := message.Fields().ByName(protoreflect.Name(name))
		switch {
		case field.IsMap():
			return rewrite(value, func(_ string, value []byte) ([]byte, error) { return numbersOfField(value, field.MapValue()) })
		case field.IsList():
			return rewrite(value, func(_ string, value []byte) ([]byte, error) { return numbersOfField(value, field) })
		}
		return numbersOfField(value, field)
	})
}

// numbersOfField rewrites one value.
func numbersOfField(text []byte, field protoreflect.FieldDescriptor) ([]byte, error) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if string(text) == "null" { // not set
			return text, nil
		}
		return numbersOfMessage(text, field.Message())
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		digits, err := strconv.Unquote(string(text))
		if err != nil {
			return text, nil //nolint:nilerr // null: it is not set
		}
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && -exactMax <= n && n <= exactMax {
			return []byte(digits), nil
		}
	}
	return text, nil
}

// rewrite rewrites an object or a list without spaces, in its order, with each element as value returns it.
func rewrite(text []byte, value func(name string, text []byte) ([]byte, error)) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	open, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	out, name := []byte(fmt.Sprint(open)), ""
	for comma := ""; decoder.More(); comma = "," {
		out = append(out, comma...)
		if open == json.Delim('{') {
			before := decoder.InputOffset()
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			name = key.(string) // every key is a string
			out = append(append(out, bytes.TrimLeft(text[before:decoder.InputOffset()], ", \t\n")...), ':')
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, err
		}
		written, err := value(name, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, written...)
	}
	end, err := decoder.Token()
	return append(out, fmt.Sprint(end)...), err
}
