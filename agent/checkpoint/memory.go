package checkpoint

import (
	"sync/atomic"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// Memory is a store without a disk, for clusters in memory. It outlives the agent that
// uses it, as a disk would: the next one loads what the one before had appended.
type Memory struct {
	identity identity
	records  []core.Record
	compact  int // how many there were after the last compaction
	full     atomic.Bool
	bloated  atomic.Bool
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{identity: identity{volumes: map[api.VolumeID]api.Resource{}}}
}

// SetFull pretends that the disk is full, or has room again.
func (m *Memory) SetFull(full bool) { m.full.Store(full) }

// Load gives the records back.
func (m *Memory) Load() ([]core.Record, error) {
	if m.identity.Identity == (core.Identity{}) {
		return nil, nil
	}
	return append(m.identity.records(), m.records...), nil
}

// Append keeps records.
func (m *Memory) Append(records []core.Record) error {
	for _, record := range records {
		if !m.identity.take(record) {
			m.records = append(m.records, record)
		}
	}
	m.bloated.Store(len(m.records) > memoryRecordsMin && len(m.records) > 3*m.compact)
	return nil
}

// memoryRecordsMin: fewer are not worth a compaction.
const memoryRecordsMin = 50_000

// Compact replaces the records.
func (m *Memory) Compact(records []core.Record) error {
	m.identity.volumes = map[api.VolumeID]api.Resource{}
	m.records = nil
	if err := m.Append(records); err != nil {
		return err
	}
	m.compact = len(m.records)
	m.bloated.Store(false)
	return nil
}

// Reset empties the store.
func (m *Memory) Reset() error {
	m.identity = identity{volumes: map[api.VolumeID]api.Resource{}}
	m.records, m.compact = nil, 0
	return nil
}

// Bloated reports whether a compaction would pay.
func (m *Memory) Bloated() bool { return m.bloated.Load() }

// Full reports what SetFull has set.
func (m *Memory) Full() bool { return m.full.Load() }

// Close does nothing: the records stay for the next user.
func (m *Memory) Close() error { return nil }
