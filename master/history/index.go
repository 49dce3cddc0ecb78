package history

import (
	"encoding/binary"
	"slices"
	"sort"
)

// finder is the index of a segment. It finds records by what they are about. For each key of a record there is a
// posting; as keys are hashes, it may be that of another key, so who looks a record up reads it and compares.
type finder interface {
	all() []uint32       // where each record begins, in order
	find(k key) []uint32 // where records with the key begin, in order
}

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

// index is an index in memory: of the segment that is being written, and of one whose own is damaged.
type index struct {
	offsets  []uint32
	postings []posting // in the order of the offsets
}

// posting is a key and, in its lower half, where a record begins.
type posting uint64

func post(k key, offset uint32) posting { return posting(k)<<32 | posting(offset) }

func (p posting) key() key       { return key(p >> 32) }
func (p posting) offset() uint32 { return uint32(p) }

// add adds a record. It may name a key twice.
func (x *index) add(offset uint32, keys []key) {
	x.offsets = append(x.offsets, offset)
	for _, k := range keys {
		x.postings = append(x.postings, post(k, offset))
	}
}

func (x *index) all() []uint32 { return x.offsets }

func (x *index) find(k key) (found []uint32) {
	for _, p := range x.postings {
		if p.key() == k {
			found = append(found, p.offset())
		}
	}
	return slices.Compact(found)
}

// append appends the index as diskIndex reads it: the number of records, where they begin, and the postings by key.
func (x *index) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(x.offsets)))
	for _, offset := range x.offsets {
		to = binary.LittleEndian.AppendUint32(to, offset)
	}
	sorted := slices.Clone(x.postings)
	slices.Sort(sorted)
	for _, p := range slices.Compact(sorted) {
		to = binary.LittleEndian.AppendUint64(to, uint64(p))
	}
	return to
}

// diskIndex is the index of a sealed segment, as it stands on the disk.
type diskIndex struct{ offsets, postings []byte }

const (
	offsetBytes  = 4
	postingBytes = 8
)

func readIndex(payload []byte) (diskIndex, bool) {
	if len(payload) < offsetBytes {
		return diskIndex{}, false
	}
	offsets := uint64(binary.LittleEndian.Uint32(payload)) * offsetBytes
	payload = payload[offsetBytes:]
	if uint64(len(payload)) < offsets || (uint64(len(payload))-offsets)%postingBytes != 0 {
		return diskIndex{}, false
	}
	return diskIndex{payload[:offsets], payload[offsets:]}, true
}

func (x diskIndex) all() []uint32 {
	offsets := make([]uint32, len(x.offsets)/offsetBytes)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint32(x.offsets[i*offsetBytes:])
	}
	return offsets
}

func (x diskIndex) find(k key) (found []uint32) {
	count := len(x.postings) / postingBytes
	at := func(i int) posting { return posting(binary.LittleEndian.Uint64(x.postings[i*postingBytes:])) }
	first := sort.Search(count, func(i int) bool { return at(i).key() >= k })
	for i := first; i < count && at(i).key() == k; i++ {
		found = append(found, at(i).offset())
	}
	return found
}
