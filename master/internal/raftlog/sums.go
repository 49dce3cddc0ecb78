package raftlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/master/internal/registrycodec"
)

// store is Raft's file.
type store interface {
	raft.LogStore
	raft.StableStore
}

// summed adds a checksum to each entry and each value that Raft writes, because the file itself has none for them. In
// an entry it stands behind its extensions, in a value behind its end.
type summed struct{ store }

const sumMark = "SUM1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed appends the mark and the checksum of everything that counts.
func sealed(data []byte, over ...[]byte) []byte {
	return binary.LittleEndian.AppendUint32(append(bytes.Clone(data), sumMark...), sumOf(data, over...))
}

func sumOf(data []byte, over ...[]byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	for _, part := range over {
		sum = crc32.Update(sum, castagnoli, binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}

// unsealed removes the checksum, which must be there and right.
func unsealed(data []byte, over ...[]byte) ([]byte, error) {
	n := len(data) - len(sumMark) - crc32.Size
	switch {
	case n < 0 || string(data[n:n+len(sumMark)]) != sumMark:
		return nil, fmt.Errorf("it is %w: its checksum is missing", registrycodec.ErrDamaged)
	case binary.LittleEndian.Uint32(data[n+len(sumMark):]) != sumOf(data[:n], over...):
		return nil, fmt.Errorf("it is %w: its checksum is wrong", registrycodec.ErrDamaged)
	}
	return data[:n:n], nil
}

func identityOf(entry *raft.Log) []byte {
	id := binary.LittleEndian.AppendUint64(nil, entry.Index)
	id = binary.LittleEndian.AppendUint64(id, uint64(entry.AppendedAt.UnixNano()))
	return append(binary.LittleEndian.AppendUint64(id, entry.Term), byte(entry.Type))
}

func (s summed) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

func (s summed) StoreLogs(entries []*raft.Log) error {
	all := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		written := *entry
		written.Extensions = sealed(entry.Extensions, identityOf(entry), entry.Data)
		all[i] = &written
	}
	return s.store.StoreLogs(all)
}

func (s summed) GetLog(index uint64, entry *raft.Log) error {
	if err := s.store.GetLog(index, entry); err != nil {
		return err
	}
	if entry.Index != index {
		return fmt.Errorf("it is %w: it says that it is entry %d", registrycodec.ErrDamaged, entry.Index)
	}
	extensions, err := unsealed(entry.Extensions, identityOf(entry), entry.Data)
	if entry.Extensions = extensions; len(extensions) == 0 {
		entry.Extensions = nil
	}
	return err
}

func (s summed) Set(key, value []byte) error { return s.store.Set(key, sealed(value, key)) }

func (s summed) Get(key []byte) ([]byte, error) {
	value, err := s.store.Get(key)
	if err != nil {
		return value, err
	}
	if value, err = unsealed(value, key); err != nil {
		return nil, fmt.Errorf("what Raft keeps as %s can't be read: %w", key, err)
	}
	return value, nil
}

func (s summed) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

func (s summed) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("what Raft keeps as %s is %w: it has %d bytes", key, registrycodec.ErrDamaged, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// stableKeys are the names of the values that Raft stores beside its log.
var stableKeys = [][]byte{[]byte("CurrentTerm"), []byte("LastVoteTerm"), []byte("LastVoteCand")}

// checkValues reads every value. A folder that has voted must have a term.
func (s summed) checkValues(voted bool) error {
	for i, key := range stableKeys {
		_, err := s.Get(key)
		missing := err != nil && err.Error() == "not found" // the library's error has only this text
		if missing && i == 0 && voted {
			return fmt.Errorf("it is %w: it has no %s", registrycodec.ErrDamaged, key)
		}
		if err != nil && !missing {
			return err
		}
	}
	return nil
}
