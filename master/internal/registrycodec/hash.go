package registrycodec

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/master/registry"
)

// Hash returns a fingerprint of everything in a registry except its index, in hex. It is equal on all masters that have
// applied the same commands, even if their versions differ. It is computed from the messages of a snapshot, so it
// covers every field that snapshots have. It leaves out what the registry's format does not have yet, because an older
// master does not know that (R24).
func Hash(state *registry.State) string {
	h := &hasher{hash: sha256.New(), format: max(state.Format, 1), fields: make(map[protoreflect.FullName][]protoreflect.FieldDescriptor)}
	h.message(contentHead(state).ProtoReflect())
	eachItem(state, func(m proto.Message) { h.message(m.ProtoReflect()) })
	h.flush()
	return hex.EncodeToString(h.hash.Sum(nil))
}

// hasher writes messages in an order of its own, because protobuf promises none. Messages of different content never
// give the same bytes, and messages of the same content give the same bytes in every version.
type hasher struct {
	hash   hash.Hash
	buffer []byte // not yet written to hash
	format uint64 // fields of newer formats are left out
	fields map[protoreflect.FullName][]protoreflect.FieldDescriptor
}

const hashedAtOnceBytes = 8 << 10

func (h *hasher) flush() {
	h.hash.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

func (h *hasher) number(n uint64) {
	h.buffer = binary.AppendUvarint(h.buffer, n)
	if len(h.buffer) >= hashedAtOnceBytes {
		h.flush()
	}
}

// message writes each field that is set, after its number, and 0 at the end.
func (h *hasher) message(m protoreflect.Message) {
	for _, field := range h.fieldsOf(m.Descriptor()) {
		if !m.Has(field) {
			continue
		}
		h.number(uint64(field.Number()))
		switch value := m.Get(field); {
		case field.IsMap():
			h.mapping(value.Map())
		case field.IsList():
			h.number(uint64(value.List().Len()))
			for i := range value.List().Len() {
				h.value(value.List().Get(i))
			}
		default:
			h.value(value)
		}
	}
	h.number(0)
}

// fieldsOf returns the fields of a message in the order of their numbers.
func (h *hasher) fieldsOf(message protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	fields, made := h.fields[message.FullName()]
	if made {
		return fields
	}
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); sinceFormat(field) <= h.format {
			fields = append(fields, field)
		}
	}
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	h.fields[message.FullName()] = fields
	return fields
}

func (h *hasher) mapping(m protoreflect.Map) {
	var keys []protoreflect.MapKey
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	h.number(uint64(len(keys)))
	for _, key := range keys {
		h.text(key.String())
		h.value(m.Get(key))
	}
}

func (h *hasher) value(value protoreflect.Value) {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		h.message(v)
	case string:
		h.text(v)
	case []byte:
		h.number(uint64(len(v)))
		h.buffer = append(h.buffer, v...)
	case bool:
		h.number(protowire.EncodeBool(v))
	case float32, float64:
		h.number(math.Float64bits(value.Float()))
	case int32, int64:
		h.number(uint64(value.Int()))
	case protoreflect.EnumNumber:
		h.number(uint64(v))
	default:
		h.number(value.Uint())
	}
}

func (h *hasher) text(text string) {
	h.number(uint64(len(text)))
	h.buffer = append(h.buffer, text...)
}
