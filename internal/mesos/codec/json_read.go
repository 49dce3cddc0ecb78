package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// depthMax bounds how deep messages are nested. The deepest legal ones need a dozen levels.
const depthMax = 64

// unmarshalJSON reads what old clients were seen to write: null for what is absent, a single value where a list
// belongs, unknown keys, whole numbers as 3.6e+06 or "3600000", enums by name or number. An unknown name of an enum
// leaves its field unset, as an unknown number in protobuf does in proto2.
func unmarshalJSON(data []byte, m proto.Message) error {
	d := jsonReader{json.NewDecoder(bytes.NewReader(data))}
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return endIsUnexpected(err)
	}
	if token != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, got %s", describe(token))
	}
	if err := d.message(m.ProtoReflect(), 0); err != nil {
		return endIsUnexpected(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows behind the JSON object")
	}
	return proto.CheckInitialized(m)
}

// endIsUnexpected turns the io.EOF that the decoder returns within a value into an error that says so.
func endIsUnexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type jsonReader struct{ *json.Decoder }

// message reads the fields of an object whose opening brace is read.
func (d jsonReader) message(m protoreflect.Message, depth int) error {
	if depth == depthMax {
		return fmt.Errorf("messages nested more than %d deep", depthMax)
	}
	fields := m.Descriptor().Fields()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		field := fields.ByName(protoreflect.Name(name))
		if field == nil {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		if err := d.field(m, field, depth); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err := d.Token() // the closing brace
	return err
}

func (d jsonReader) field(m protoreflect.Message, field protoreflect.FieldDescriptor, depth int) error {
	token, err := d.Token()
	switch {
	case err != nil:
		return err
	case token == nil: // null
		return nil
	case field.IsMap():
		return d.entries(m.Mutable(field).Map(), field, token, depth)
	case field.IsList() && token == json.Delim('['):
		return d.elements(m.Mutable(field).List(), field, depth)
	case field.IsList():
		return d.element(m.Mutable(field).List(), field, token, depth)
	case field.Message() != nil:
		return d.object(m.Mutable(field).Message(), token, depth)
	}
	value, known, err := scalar(field, token)
	if err == nil && known {
		m.Set(field, value)
	}
	return err
}

// object reads a message whose first token is read.
func (d jsonReader) object(m protoreflect.Message, token json.Token, depth int) error {
	if token != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, got %s", describe(token))
	}
	return d.message(m, depth+1)
}

func (d jsonReader) elements(list protoreflect.List, field protoreflect.FieldDescriptor, depth int) error {
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if token == nil {
			continue
		}
		if err := d.element(list, field, token, depth); err != nil {
			return err
		}
	}
	_, err := d.Token() // the closing bracket
	return err
}

func (d jsonReader) element(list protoreflect.List, field protoreflect.FieldDescriptor, token json.Token, depth int) error {
	if field.Message() != nil {
		return d.object(list.AppendMutable().Message(), token, depth)
	}
	value, known, err := scalar(field, token)
	if err == nil && known {
		list.Append(value)
	}
	return err
}

// entries reads a map. Maps of this API have strings as keys and messages as values.
func (d jsonReader) entries(m protoreflect.Map, field protoreflect.FieldDescriptor, token json.Token, depth int) error {
	if token != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, got %s", describe(token))
	}
	if field.MapKey().Kind() != protoreflect.StringKind || field.MapValue().Message() == nil {
		return errors.New("only maps from strings to messages can be read")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		token, err := d.Token()
		if err != nil {
			return err
		}
		if token == nil {
			continue
		}
		value := m.NewValue()
		if err := d.object(value.Message(), token, depth); err != nil {
			return err
		}
		m.Set(protoreflect.ValueOfString(name).MapKey(), value)
	}
	_, err := d.Token() // the closing brace
	return err
}

// scalar turns a token into a field's value. known is false for a name or number that the field's enum does not have.
func scalar(field protoreflect.FieldDescriptor, token json.Token) (value protoreflect.Value, known bool, err error) {
	switch kind := field.Kind(); kind {
	case protoreflect.BoolKind:
		switch token {
		case true, "true":
			return protoreflect.ValueOfBool(true), true, nil
		case false, "false":
			return protoreflect.ValueOfBool(false), true, nil
		}
	case protoreflect.EnumKind:
		return enum(field.Enum().Values(), token)
	case protoreflect.StringKind:
		if text, ok := token.(string); ok {
			return protoreflect.ValueOfString(text), true, nil
		}
	case protoreflect.BytesKind:
		if text, ok := token.(string); ok {
			data, err := decodeBase64(text)
			return protoreflect.ValueOfBytes(data), true, err
		}
	default:
		if text, ok := digits(token); ok {
			value, err := number(kind, text)
			return value, true, err
		}
	}
	return value, false, fmt.Errorf("did not expect %s for field '%s'", describe(token), field.Name())
}

// digits returns a number's text: some clients write numbers of 64 bits as strings.
func digits(token json.Token) (string, bool) {
	switch token := token.(type) {
	case json.Number:
		return token.String(), true
	case string:
		return token, true
	}
	return "", false
}

func enum(values protoreflect.EnumValueDescriptors, token json.Token) (protoreflect.Value, bool, error) {
	var found protoreflect.EnumValueDescriptor
	switch token := token.(type) {
	case string:
		found = values.ByName(protoreflect.Name(token))
	case json.Number:
		if n, err := strconv.ParseInt(token.String(), 10, 32); err == nil {
			found = values.ByNumber(protoreflect.EnumNumber(n))
		}
	default:
		return protoreflect.Value{}, false, fmt.Errorf("did not expect %s for an enum", describe(token))
	}
	if found == nil {
		return protoreflect.Value{}, false, nil
	}
	return protoreflect.ValueOfEnum(found.Number()), true, nil
}

// number reads a number of any kind. A whole number may be written with an exponent; a fraction of one is cut off, as
// Mesos does.
func number(kind protoreflect.Kind, text string) (protoreflect.Value, error) {
	switch kind {
	case protoreflect.DoubleKind:
		switch text { // limits may have none
		case "Infinity":
			return protoreflect.ValueOfFloat64(math.Inf(1)), nil
		case "-Infinity":
			return protoreflect.ValueOfFloat64(math.Inf(-1)), nil
		}
		f, err := finite(text, 64)
		return protoreflect.ValueOfFloat64(f), err
	case protoreflect.FloatKind:
		f, err := finite(text, 32)
		return protoreflect.ValueOfFloat32(float32(f)), err
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := whole(text, math.MinInt32, math.MaxInt32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := whole(text, 0, math.MaxUint32)
		return protoreflect.ValueOfUint32(uint32(n)), err
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return protoreflect.ValueOfUint64(n), nil
		}
		n, err := whole(text, 0, math.MaxInt64)
		return protoreflect.ValueOfUint64(uint64(n)), err
	default:
		n, err := whole(text, math.MinInt64, math.MaxInt64)
		return protoreflect.ValueOfInt64(n), err
	}
}

func finite(text string, bits int) (float64, error) {
	f, err := strconv.ParseFloat(text, bits)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is no finite number", text)
	}
	return f, nil
}

func whole(text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, err := finite(text, 64)
		if err != nil || math.Abs(f) >= 1<<63 {
			return 0, fmt.Errorf("%q is no whole number from %d to %d", text, least, most)
		}
		n = int64(f)
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%s is not from %d to %d", text, least, most)
	}
	return n, nil
}

// decodeBase64 reads base64 of either alphabet, with its padding or without.
func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	return base64.RawStdEncoding.DecodeString(text)
}

func describe(token json.Token) string {
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return "a JSON array"
		}
		return "a JSON object"
	case string:
		return "a JSON string"
	case json.Number:
		return "a JSON number"
	case bool:
		return "a JSON boolean"
	}
	return "null"
}
