package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendMessage writes a message as Mesos does, on one line: fields by the names of the .proto, in the order of their
// numbers; whole numbers of 64 bits as numbers (protojson writes them as strings, which old clients refuse); enums by
// name; bytes in base64; and fields that are not set left out.
func appendMessage(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	first := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) || !field.IsList() && !isKnown(field, m.Get(field)) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, field.Name()...)
		b = append(b, `":`...)
		b = appendField(b, field, m.Get(field))
	}
	return append(b, '}')
}

func appendField(b []byte, field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch {
	case field.IsList():
		b = append(b, '[')
		list := value.List()
		start := len(b)
		for i := range list.Len() {
			if !isKnown(field, list.Get(i)) {
				continue
			}
			if len(b) > start {
				b = append(b, ',')
			}
			b = appendValue(b, field, list.Get(i))
		}
		return append(b, ']')
	case field.IsMap():
		return appendMap(b, field, value.Map())
	}
	return appendValue(b, field, value)
}

// isKnown is false for a number that the field's enum has no name for: it is left out, like any field nobody knows.
func isKnown(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	return field.Kind() != protoreflect.EnumKind || field.Enum().Values().ByNumber(value.Enum()) != nil
}

// appendMap writes a map by sorted key. Maps of this API have strings as keys.
func appendMap(b []byte, field protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(x, y protoreflect.MapKey) int { return strings.Compare(x.String(), y.String()) })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key.String()), ':')
		b = appendValue(b, field.MapValue(), m.Get(key))
	}
	return append(b, '}')
}

func appendValue(b []byte, field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, value.Bool())
	case protoreflect.EnumKind:
		return appendString(b, string(field.Enum().Values().ByNumber(value.Enum()).Name()))
	case protoreflect.StringKind:
		return appendString(b, value.String())
	case protoreflect.BytesKind:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, value.Bytes())
		return append(b, '"')
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return appendFloat(b, value.Float())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.AppendUint(b, value.Uint(), 10)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(b, value.Message())
	default: // the signed whole numbers
		return strconv.AppendInt(b, value.Int(), 10)
	}
}

// appendFloat writes 2 as 2.0: typed clients take a number without a point for a whole one. For what is not finite JSON
// has no word, and Mesos has some.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	case math.IsNaN(f):
		f = 0
	}
	start := len(b)
	format := byte('f')
	if math.Abs(f) >= 1e21 || f != 0 && math.Abs(f) < 1e-6 {
		format = 'g'
	}
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if bytes.ContainsAny(b[start:], ".e") {
		return b
	}
	return append(b, ".0"...)
}

func appendString(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string never fails; what is not UTF-8 is replaced
	return append(b, quoted...)
}
