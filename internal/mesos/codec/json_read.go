package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
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
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if err := readMessage(m.ProtoReflect(), value, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows behind the JSON object")
	}
	return proto.CheckInitialized(m)
}

// readMessage fills a message from a JSON object, which is so deep in others.
func readMessage(m protoreflect.Message, value any, depth int) error {
	object, is := value.(map[string]any)
	switch {
	case !is:
		return fmt.Errorf("expected a JSON object, got %s", describe(value))
	case depth == depthMax:
		return fmt.Errorf("messages nested more than %d deep", depthMax)
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if given := object[string(field.Name())]; given != nil { // else it is null, or not there
			if err := readField(m, field, given, depth); err != nil {
				return fmt.Errorf("%s: %w", field.Name(), err)
			}
		}
	}
	return nil
}

func readField(m protoreflect.Message, field protoreflect.FieldDescriptor, given any, depth int) error {
	switch {
	case field.IsMap():
		return readMap(m.Mutable(field).Map(), field, given, depth)
	case field.IsList():
		return readList(m.Mutable(field).List(), field, given, depth)
	case field.Message() != nil:
		return readMessage(m.Mutable(field).Message(), given, depth+1)
	}
	value, known, err := scalar(field, given)
	if err == nil && known {
		m.Set(field, value)
	}
	return err
}

func readList(list protoreflect.List, field protoreflect.FieldDescriptor, given any, depth int) error {
	elements, is := given.([]any)
	if !is {
		elements = []any{given}
	}
	for _, element := range elements {
		switch {
		case element == nil:
		case field.Message() != nil:
			if err := readMessage(list.AppendMutable().Message(), element, depth+1); err != nil {
				return err
			}
		default:
			value, known, err := scalar(field, element)
			if err != nil {
				return err
			}
			if known {
				list.Append(value)
			}
		}
	}
	return nil
}

// readMap reads a map. Maps of this API have strings as keys and messages as values.
func readMap(m protoreflect.Map, field protoreflect.FieldDescriptor, given any, depth int) error {
	object, is := given.(map[string]any)
	switch {
	case !is:
		return fmt.Errorf("expected a JSON object, got %s", describe(given))
	case field.MapKey().Kind() != protoreflect.StringKind || field.MapValue().Message() == nil:
		return errors.New("only maps from strings to messages can be read")
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if object[key] == nil {
			continue
		}
		value := m.NewValue()
		if err := readMessage(value.Message(), object[key], depth+1); err != nil {
			return err
		}
		m.Set(protoreflect.ValueOfString(key).MapKey(), value)
	}
	return nil
}

// scalar turns what is given into a field's value. known is false for a name or number that the field's enum does not have.
func scalar(field protoreflect.FieldDescriptor, given any) (value protoreflect.Value, known bool, err error) {
	switch kind := field.Kind(); kind {
	case protoreflect.BoolKind:
		switch given {
		case true, "true":
			return protoreflect.ValueOfBool(true), true, nil
		case false, "false":
			return protoreflect.ValueOfBool(false), true, nil
		}
	case protoreflect.EnumKind:
		return enum(field.Enum().Values(), given)
	case protoreflect.StringKind:
		if text, ok := given.(string); ok {
			return protoreflect.ValueOfString(text), true, nil
		}
	case protoreflect.BytesKind:
		if text, ok := given.(string); ok {
			data, err := decodeBase64(text)
			return protoreflect.ValueOfBytes(data), true, err
		}
	default:
		if text, ok := digits(given); ok {
			value, err := number(kind, text)
			return value, true, err
		}
	}
	return value, false, fmt.Errorf("did not expect %s for field '%s'", describe(given), field.Name())
}

// digits returns a number's text: some clients write numbers of 64 bits as strings.
func digits(given any) (string, bool) {
	switch given := given.(type) {
	case json.Number:
		return given.String(), true
	case string:
		return given, true
	}
	return "", false
}

func enum(values protoreflect.EnumValueDescriptors, given any) (protoreflect.Value, bool, error) {
	var found protoreflect.EnumValueDescriptor
	switch given := given.(type) {
	case string:
		found = values.ByName(protoreflect.Name(given))
	case json.Number:
		if n, err := strconv.ParseInt(given.String(), 10, 32); err == nil {
			found = values.ByNumber(protoreflect.EnumNumber(n))
		}
	default:
		return protoreflect.Value{}, false, fmt.Errorf("did not expect %s for an enum", describe(given))
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

func describe(given any) string {
	switch given.(type) {
	case []any:
		return "a JSON array"
	case map[string]any:
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
