package registrycodec

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// EntryBytesMax bounds one entry of the log (R17). A single command is far smaller. Commands that do not fit go into
// the next entry.
const EntryBytesMax = 4 << 20

// CommandBytesMax bounds one command: the largest value of a store, and what surrounds it.
const CommandBytesMax = registry.StoreValueBytesMax + 64<<10

// ErrDamaged is in the error about data whose bytes are not those that were written.
var ErrDamaged = errors.New("damaged")

// EncodeCommand converts a command to its message, and returns the size of that in an entry.
func EncodeCommand(command registry.Command) (*logpb.Command, int, error) {
	m := &logpb.Command{Client: command.Client, Counter: command.Counter, At: wire.TimeToProto(command.At)}
	if err := encodeChange(m, command.Change); err != nil {
		return nil, 0, api.E("raft.propose", api.Invalid, command.Client, err)
	}
	size := proto.Size(m)
	if size > CommandBytesMax {
		return nil, 0, api.E("raft.propose", api.Limit, command.Client, fmt.Errorf("the command has %d bytes, at most %d are allowed", size, CommandBytesMax))
	}
	// Protobuf does not accept every string as text.
	room := wire.Buffers().Get(size)
	defer wire.Buffers().Put(room)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*room)[:0], m); err != nil {
		return nil, 0, api.E("raft.propose", api.Invalid, command.Client, err)
	}
	return m, size + 8, nil
}

// EncodeEntry encodes an entry for masters that all know the format known. Fields of newer formats are left out. The
// checksum of the entry is added at the end.
func EncodeEntry(commands []*logpb.Command, known uint64) ([]byte, error) {
	known = max(known, 1)
	format := known
	for _, command := range commands {
		format = max(format, formatOf(command))
		if known < registry.Format {
			leaveOutNewer(command.ProtoReflect(), known)
		}
	}
	entry := &logpb.Entry{Format: uint32(format), Commands: commands}
	room := make([]byte, 0, proto.Size(entry)+entrySumBytes) // large entries are copied as little as possible
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(room, entry)
	if err != nil {
		return nil, err
	}
	return appendSumOf(data, data), nil
}

// entrySumField is logpb.Entry.sum, which is the last field of an entry.
const (
	entrySumField = 3
	entrySumBytes = 5
)

// appendSumOf appends the checksum of an entry's body to the given bytes.
func appendSumOf(body, to []byte) []byte {
	sum := crc32.Checksum(body, castagnoli)
	return protowire.AppendFixed32(protowire.AppendTag(to, entrySumField, protowire.Fixed32Type), sum)
}

// checkSum compares an entry with its checksum.
func checkSum(data []byte) error {
	body := data[:max(len(data)-entrySumBytes, 0)]
	if !bytes.Equal(appendSumOf(body, nil), data[len(body):]) {
		return fmt.Errorf("it is %w: its checksum is wrong", ErrDamaged)
	}
	return nil
}

// checkFormat refuses a format that this version can't read.
func checkFormat(what string, format uint32) error {
	if format == 0 || uint64(format) > registry.Format {
		return fmt.Errorf("%s has format %d and this version reads formats 1 to %d; start the version that wrote it, or a newer one",
			what, format, registry.Format)
	}
	return nil
}

// CheckEntry returns why this version can't read an entry. It looks only at the entry's own fields, because a start
// checks the whole log. A change that this version does not know can stand only in an entry of a newer format.
func CheckEntry(data []byte) error {
	if _, err := entryFormat(data); err != nil {
		return err
	}
	for rest := data; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("it is %w: %w", ErrDamaged, protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return fmt.Errorf("it is %w: %w", ErrDamaged, protowire.ParseError(size))
		}
		rest = rest[n+size:]
	}
	return checkSum(data)
}

// entryFormat reads logpb.Entry.format, with which every entry begins. If it stood further back, a wrong length could
// make bytes of a command look like it.
func entryFormat(data []byte) (uint32, error) {
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 || number != entryFormatField || kind != protowire.VarintType {
		return 0, fmt.Errorf("it is %w: it does not begin with its format", ErrDamaged)
	}
	format, size := protowire.ConsumeVarint(data[n:])
	if size < 0 {
		return 0, fmt.Errorf("it is %w: %w", ErrDamaged, protowire.ParseError(size))
	}
	short := uint32(min(format, math.MaxUint32))
	return short, checkFormat("it", short)
}

// entryFormatField is the number of logpb.Entry.format.
const entryFormatField = 1

func readEntry(data []byte) (*logpb.Entry, error) {
	_, err := entryFormat(data)
	if err == nil {
		err = checkSum(data)
	}
	if err != nil {
		return nil, err
	}
	entry := &logpb.Entry{}
	if err := proto.Unmarshal(data, entry); err != nil {
		return nil, fmt.Errorf("it is %w: %w", ErrDamaged, err)
	}
	return entry, nil
}

// DecodeEntry decodes the commands of an entry.
func DecodeEntry(data []byte) ([]registry.Command, error) {
	entry, err := readEntry(data)
	if err != nil {
		return nil, err
	}
	commands := make([]registry.Command, len(entry.Commands))
	for i, m := range entry.Commands {
		change, err := decodeChange(m)
		if err != nil {
			return nil, err
		}
		commands[i] = registry.Command{Client: m.Client, Counter: m.Counter, At: wire.TimeOf(m.At), Change: change}
	}
	return commands, nil
}
