package history

import (
	"encoding/binary"
	"slices"
)

// key is the hash (FNV-1a) of what people look for.
type key uint32

func keyOf(parts ...string) key {
	hash := uint32(2166136261)
	for _, part := range parts {
		for i := range len(part) {
			hash = (hash ^ uint32(part[i])) * 16777619
		}
	}
	return key(hash)
}

// index finds the records of a segment by what they are about. For each key of a record there is a posting; as keys are
// hashes, it may be that of another key, so who looks a record up reads it and compares. Postings stand in the order of
// the records, in memory as on the disk: reading all of a segment's costs little beside finding the file, and sorting
// them would cost the writer more than all else.
type index struct {
	offsets  []byte // where each record begins
	postings []byte // a key, and where a record begins
}

const (
	offsetBytes  = 4
	postingBytes = 8
)

// add adds a record.
func (x *index) add(offset uint32, keys []key) {
	x.offsets = binary.LittleEndian.AppendUint32(x.offsets, offset)
	for _, k := range keys {
		x.postings = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(x.postings, uint32(k)), offset)
	}
}

// all returns where each record begins, in order.
func (x *index) all() []uint32 {
	offsets := make([]uint32, len(x.offsets)/offsetBytes)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(x.offsets[i*offsetBytes:])
	}
	return offsets
}

// find returns where records with one of the keys begin, in order.
func (x *index) find(keys ...key) []uint32 {
	first, others := keys[0], keys[1:]
	return x.findAny(func(k key) bool { return k == first || len(others) > 0 && slices.Contains(others, k) })
}

// findAny returns where records begin of which one of the keys is wanted, in order.
func (x *index) findAny(wanted func(key) bool) (found []uint32) {
	for postings := x.postings; len(postings) >= postingBytes; postings = postings[postingBytes:] {
		if wanted(key(binary.LittleEndian.Uint32(postings))) {
			found = append(found, binary.LittleEndian.Uint32(postings[offsetBytes:]))
		}
	}
	return slices.Compact(found)
}

// append appends the index as readIndex reads it: the number of records, where they begin, and the postings.
func (x *index) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(x.offsets)/offsetBytes))
	return append(append(to, x.offsets...), x.postings...)
}

func readIndex(payload []byte) (*index, bool) {
	if len(payload) < offsetBytes {
		return nil, false
	}
	offsets := uint64(binary.LittleEndian.Uint32(payload)) * offsetBytes
	payload = payload[offsetBytes:]
	if uint64(len(payload)) < offsets || (uint64(len(payload))-offsets)%postingBytes != 0 {
		return nil, false
	}
	return &index{payload[:offsets], payload[offsets:]}, true
}
