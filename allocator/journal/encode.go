// Package journal records what an allocator was told and what it proposed, and replays it: to show that a policy still
// decides the same, or what another policy would have done with the same work. It encodes and decodes; the caller
// handles files.
//
// The format: the line "tender allocator journal 2", then records, each its length and CRC-32C (4 bytes each,
// little-endian) and an internal/logpb AllocatorRecord. A record that a crash has torn at the end is left out.
package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/internal/codec"
	"github.com/tenderhq/tender/internal/logpb"
)

const (
	// Magic begins every file.
	Magic = magicWords + "2\n"
	// format is the number of the format:
	//
	//	1  told everything that tasks really use; a policy is now told only what goes beyond requests
	//	2
	format     = 2
	magicWords = "tender allocator journal "
	// recordBytesMax bounds a record; a longer one counts as damage.
	recordBytesMax = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encoder turns what happens into records, after the head.
type Encoder struct {
	Policy string
	Config allocator.Config
	Epoch  time.Time

	codec codec.Codec
}

// Head appends the record that begins a section, and the inputs that tell what the mirror knows.
func (e *Encoder) Head(to []byte, mirror *inputs.Mirror, whole bool) []byte {
	e.codec = codec.Codec{Epoch: e.Epoch}
	head := &logpb.AllocatorHead{
		Format: format, Policy: e.Policy, Epoch: e.Epoch.UnixNano(), Config: codec.HelloOf(e.Config), Whole: whole,
	}
	to = frame(to, &logpb.AllocatorRecord{Record: &logpb.AllocatorRecord_Head{Head: head}})
	if whole {
		return to
	}
	for _, input := range mirror.Inputs() {
		to = e.Input(to, input)
	}
	return to
}

// Input appends an input.
func (e *Encoder) Input(to []byte, input inputs.Input) []byte {
	return frame(to, &logpb.AllocatorRecord{Record: &logpb.AllocatorRecord_Input{Input: e.codec.InputToProto(input)}})
}

// Proposed appends the result of an Allocate.
func (e *Encoder) Proposed(to []byte, allocation allocator.Allocation) []byte {
	return frame(to, &logpb.AllocatorRecord{Record: &logpb.AllocatorRecord_Proposed{Proposed: e.codec.AllocationToProto(allocation)}})
}

func frame(to []byte, record *logpb.AllocatorRecord) []byte {
	body, err := proto.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("allocator journal: %v", err)) // only for text that is not UTF-8, which the wire refuses
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(body)))
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(body, castagnoli))
	return append(to, body...)
}
