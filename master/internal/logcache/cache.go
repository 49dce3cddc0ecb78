// Package logcache keeps the newest entries of Raft's log in memory, as long as they are small.
package logcache

import (
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// entriesMax is how many of the newest entries are kept in memory at most.
	entriesMax = 16
	// bytesMax bounds the bytes of these entries. It holds some of the largest entries that one client causes, because
	// a follower asks for an entry while the next one is being written, and an entry that is not here is read and
	// decoded again for each follower. The newest entry is kept whatever its size, because all followers are about to
	// ask for it. An entry may have 4 MiB (registrycodec.EntryBytesMax), and entries stay until others take their
	// places. Without this bound, a client that writes large values would hold sixteen times as much of the leader's
	// memory.
	bytesMax = 1 << 20
)

// Cache is a log whose newest entries are also in memory, because followers that keep up ask only for these. Older
// entries are read from the log.
type Cache struct {
	raft.LogStore

	mu     sync.Mutex
	newest []*raft.Log // in the order of their indexes; guarded by mu
	bytes  int         // the size of their data; guarded by mu
}

// New makes a cache for the log.
func New(log raft.LogStore) *Cache {
	return &Cache{LogStore: log, newest: make([]*raft.Log, 0, entriesMax+1)}
}

// GetLog reads an entry, from memory if it is there.
func (c *Cache) GetLog(index uint64, entry *raft.Log) error {
	if cached := c.cached(index); cached != nil {
		*entry = *cached
		return nil
	}
	return c.LogStore.GetLog(index, entry)
}

func (c *Cache) cached(index uint64) *raft.Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.newest {
		if entry.Index == index {
			return entry
		}
	}
	return nil
}

// StoreLog stores one entry.
func (c *Cache) StoreLog(entry *raft.Log) error { return c.StoreLogs([]*raft.Log{entry}) }

// StoreLogs writes entries to the log and keeps those that were written.
func (c *Cache) StoreLogs(entries []*raft.Log) error {
	if err := c.LogStore.StoreLogs(entries); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range entries {
		c.keep(entry)
	}
	return nil
}

// keep adds an entry and drops the oldest ones that are too many or too large. Callers hold mu.
func (c *Cache) keep(entry *raft.Log) {
	c.newest, c.bytes = append(c.newest, entry), c.bytes+len(entry.Data)
	old := 0
	for len(c.newest)-old > entriesMax || c.bytes > bytesMax && len(c.newest)-old > 1 {
		c.bytes -= len(c.newest[old].Data)
		old++
	}
	kept := copy(c.newest, c.newest[old:])
	clear(c.newest[kept:]) // so that the array does not keep them in memory
	c.newest = c.newest[:kept]
}

// DeleteRange forgets all entries, because a follower whose log differs from its leader's will get other entries at
// these indexes.
func (c *Cache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	clear(c.newest)
	c.newest, c.bytes = c.newest[:0], 0
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}
