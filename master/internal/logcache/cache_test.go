package logcache

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// countingStore is a log in memory that counts what is read from it, and can refuse to be written.
type countingStore struct {
	*raft.InmemStore
	reads  int
	refuse error
}

func (s *countingStore) GetLog(index uint64, entry *raft.Log) error {
	s.reads++
	return s.InmemStore.GetLog(index, entry)
}

func (s *countingStore) StoreLogs(entries []*raft.Log) error {
	if s.refuse != nil {
		return s.refuse
	}
	return s.InmemStore.StoreLogs(entries)
}

// held is how many bytes the cache keeps of others' data.
func held(c *Cache) int {
	bytes := 0
	for _, entry := range c.newest[:cap(c.newest)] {
		if entry != nil {
			bytes += len(entry.Data)
		}
	}
	return bytes
}

func appendEntries(t *testing.T, c *Cache, from, to uint64, bytes int) {
	t.Helper()
	for index := from; index <= to; index++ {
		if err := c.StoreLog(&raft.Log{Index: index, Data: make([]byte, bytes)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLargeEntriesDoNotStayInMemory: the newest small entries are answered from memory. Of large ones, as those that
// write a store at their limit, the newest is kept alone, and they all can be read.
func TestLargeEntriesDoNotStayInMemory(t *testing.T) {
	log := &countingStore{InmemStore: raft.NewInmemStore()}
	c := New(log)
	read := func(from, to uint64) {
		for index := from; index <= to; index++ {
			var entry raft.Log
			if err := c.GetLog(index, &entry); err != nil || entry.Index != index {
				t.Fatalf("entry %d: %d, %v", index, entry.Index, err)
			}
		}
	}
	appendEntries(t, c, 1, 40, 1<<10)
	if read(40-entriesMax+1, 40); log.reads != 0 {
		t.Errorf("%d of the newest entries were read from the log", log.reads)
	}
	if read(1, 40-entriesMax); log.reads != 40-entriesMax {
		t.Errorf("%d were read from the log", log.reads)
	}
	appendEntries(t, c, 41, 60, 200<<10)
	if got := held(c); got > bytesMax || got != c.bytes {
		t.Errorf("%d bytes are held, %d are counted", got, c.bytes)
	}
	log.reads = 0
	if read(60, 60); log.reads != 0 {
		t.Error("the newest was read from the log")
	}
	appendEntries(t, c, 61, 61, 4<<20)
	if got := held(c); got != 4<<20 || got != c.bytes {
		t.Errorf("of one that is larger than all may be %d bytes are held", got)
	}
	read(41, 61)
	appendEntries(t, c, 62, 80, 10)
	if got := held(c); got != entriesMax*10 || got != c.bytes {
		t.Errorf("%d bytes are held after small ones, %d are counted", got, c.bytes)
	}
}

// TestTheCacheIsAsTheLog: what was refused or deleted is not answered from memory.
func TestTheCacheIsAsTheLog(t *testing.T) {
	log := &countingStore{InmemStore: raft.NewInmemStore()}
	c := New(log)
	appendEntries(t, c, 1, 3, 10)
	if err := c.DeleteRange(2, 3); err != nil {
		t.Fatal(err)
	}
	var entry raft.Log
	if err := c.GetLog(3, &entry); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("a deleted entry: %v", err)
	}
	if held(c) != 0 {
		t.Error("deleted entries are held")
	}
	other := &raft.Log{Index: 2, Term: 7, Data: []byte("other")}
	if err := c.StoreLog(other); err != nil {
		t.Fatal(err)
	}
	if err := c.GetLog(2, &entry); err != nil || entry.Term != 7 || !bytes.Equal(entry.Data, other.Data) {
		t.Errorf("%v, %v", entry, err)
	}
	log.refuse = errors.New("the disk is full")
	if err := c.StoreLog(&raft.Log{Index: 3, Data: []byte("lost")}); !errors.Is(err, log.refuse) {
		t.Errorf("a refused entry: %v", err)
	}
	if err := c.GetLog(3, &entry); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that never came to the disk: %v", err)
	}
}
