package checkpoint

import (
	"sync/atomic"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Memory is a store without a disk, for clusters in memory. Like a disk it outlives the agent that uses it: the next
// agent loads what the previous one appended.
type Memory struct {
	identity identity
	records  []core.Record
	compact  int // how many records there were after the last compaction
	full     atomic.Bool
	left     atomic.Int64 // how many records still fit while it is full
	bloated  atomic.Bool
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{identity: identity{volumes: map[api.VolumeID]protocol.Volume{}}}
}

// Fill pretends that the disk is full with a reserve for that many records, or that it has room again.
func (m *Memory) Fill(full bool, reserve int) {
	m.left.Store(int64(reserve))
	m.full.Store(full)
}

// Load returns the records as a disk would.
func (m *Memory) Load() ([]core.Record, error) {
	return Reread(append(m.identity.records(), m.records...))
}

// Append keeps records, all or none.
func (m *Memory) Append(records []core.Record) (written int, err error) {
	if m.full.Load() && m.left.Add(-int64(len(records))) < 0 {
		m.left.Add(int64(len(records)))
		return 0, ErrNoRoom
	}
	m.keep(records)
	m.bloated.Store(len(m.records) > memoryRecordsMin && len(m.records) > 3*m.compact)
	return len(records), nil
}

func (m *Memory) keep(records []core.Record) {
	for _, record := range records {
		if !m.identity.take(record) {
			m.records = append(m.records, record)
		}
	}
}

// memoryRecordsMin is the least number of records at which a compaction is worth its cost.
const memoryRecordsMin = 50_000

// Compact replaces the records.
func (m *Memory) Compact(records []core.Record) error {
	if m.full.Load() {
		return ErrNoRoom
	}
	m.identity.volumes = map[api.VolumeID]protocol.Volume{}
	m.records = nil
	m.keep(records)
	m.compact = len(m.records)
	m.bloated.Store(false)
	return nil
}

// Reset empties the store.
func (m *Memory) Reset() error {
	m.identity = identity{volumes: map[api.VolumeID]protocol.Volume{}}
	m.records, m.compact = nil, 0
	return nil
}

// Bloated reports whether a compaction would pay.
func (m *Memory) Bloated() bool { return m.bloated.Load() && !m.full.Load() }

// Full reports what Fill has set.
func (m *Memory) Full() bool { return m.full.Load() }

// Close does nothing: the records stay for the next user.
func (m *Memory) Close() error { return nil }
