package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/internal/codec"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/logpb"
)

// Section is a part of a journal that begins with a head: the life of one policy, or the rest of it.
type Section struct {
	Policy string
	Config allocator.Config
	Whole  bool // it begins with the start of a leadership
	Steps  []Step

	codec codec.Codec
}

// Step is one input; for an Allocate it also has what was proposed.
type Step struct {
	Input    inputs.Input
	proposed *apiv1.AllocatorAnswers
}

// Read reads a journal. A torn record at the end is left out; torn reports it.
func Read(from io.Reader) (sections []Section, torn bool, err error) {
	in := bufio.NewReader(from)
	if err := begin(in); err != nil {
		return nil, false, err
	}
	for number := 1; ; number++ {
		record, err := next(in)
		switch {
		case errors.Is(err, io.EOF):
			return sections, false, nil
		case errors.Is(err, errTorn):
			return sections, true, nil
		case err != nil:
			return sections, false, fmt.Errorf("record %d: %w", number, err)
		}
		if sections, err = add(sections, record); err != nil {
			return sections, false, fmt.Errorf("record %d: %w", number, err)
		}
	}
}

var (
	errTorn      = errors.New("torn")
	errNoJournal = errors.New("this is no allocator journal")

	// ErrFormat says that the journal has a format that this version neither reads nor continues.
	ErrFormat = errors.New("another version of tender wrote this journal")
)

// begin reads the first line.
func begin(in *bufio.Reader) error {
	line := make([]byte, len(Magic))
	if _, err := io.ReadFull(in, line); err != nil || !bytes.HasPrefix(line, []byte(magicWords)) {
		return errNoJournal
	}
	number, err := strconv.Atoi(strings.TrimSuffix(string(line[len(magicWords):]), "\n"))
	if err != nil {
		return errNoJournal
	}
	return known(uint32(number))
}

// known refuses a format that this version would read wrongly.
func known(number uint32) error {
	switch {
	case number < format:
		return fmt.Errorf("%w: it has format %d and this version reads format %d; replay it with the version that wrote it, or record anew",
			ErrFormat, number, format)
	case number > format:
		return fmt.Errorf("%w: it has format %d and this version reads format %d; replay it with the version that wrote it, or a newer one",
			ErrFormat, number, format)
	}
	return nil
}

// next returns the next record. Its error is io.EOF at the end of a record, and errTorn within one. Any other error
// comes from the reader and says nothing about the journal.
func next(in *bufio.Reader) (*logpb.AllocatorRecord, error) {
	var prefix [8]byte
	if n, err := io.ReadFull(in, prefix[:]); n == 0 && err != nil {
		return nil, err
	} else if err != nil {
		return nil, cut(err)
	}
	length := binary.LittleEndian.Uint32(prefix[:])
	if length > recordBytesMax {
		return nil, errTorn
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, cut(err)
	}
	record := new(logpb.AllocatorRecord)
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(prefix[4:]) || proto.Unmarshal(body, record) != nil {
		return nil, errTorn
	}
	return record, nil
}

// cut turns the end of the input within a record into errTorn.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// BeginsAnew reports whether the first of the records is a head.
func BeginsAnew(records []byte) bool {
	record, err := next(bufio.NewReader(bytes.NewReader(records)))
	return err == nil && record.GetHead() != nil
}

// Whole returns how many bytes of a journal are complete records; what follows is torn. If it returns an error, nothing
// is known, and nothing may be cut off.
func Whole(from io.Reader) (int64, error) {
	in := bufio.NewReader(from)
	if err := begin(in); err != nil {
		return 0, err
	}
	bytes := int64(len(Magic))
	for {
		record, err := next(in)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return bytes, nil
		}
		if err != nil {
			return bytes, err
		}
		bytes += int64(proto.Size(record)) + 8
	}
}

func add(sections []Section, record *logpb.AllocatorRecord) ([]Section, error) {
	if head := record.GetHead(); head != nil {
		if err := known(head.GetFormat()); err != nil {
			return sections, err
		}
		return append(sections, Section{
			Policy: head.GetPolicy(), Config: codec.ConfigOf(head.GetConfig()), Whole: head.GetWhole(),
			codec: codec.Codec{Epoch: time.Unix(0, head.GetEpoch()).UTC()},
		}), nil
	}
	if len(sections) == 0 {
		return sections, errors.New("it stands before any head")
	}
	last := &sections[len(sections)-1]
	switch r := record.GetRecord().(type) {
	case *logpb.AllocatorRecord_Input:
		input, err := last.codec.InputFromProto(r.Input)
		if err != nil {
			return sections, err
		}
		if input != nil {
			last.Steps = append(last.Steps, Step{Input: input})
		}
	case *logpb.AllocatorRecord_Proposed:
		if n := len(last.Steps); n > 0 {
			last.Steps[n-1].proposed = r.Proposed
		}
	}
	return sections, nil
}

// Same tells the policy exactly the recorded inputs, and compares what it proposes with what was recorded.
func (s *Section) Same(policy allocator.Allocator) (rounds, same int) {
	for _, step := range s.Steps {
		run, is := step.Input.(inputs.Allocate)
		if !is {
			step.Input.Apply(policy)
			continue
		}
		proposed := s.codec.AllocationToProto(policy.Allocate(run.At))
		if step.proposed == nil {
			continue // its end was torn off
		}
		rounds++
		if proto.Equal(proposed, step.proposed) {
			same++
		}
	}
	return rounds, same
}
