package raftlog

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// watched tells whether the last write of Raft came to the disk. A follower that can't write stays behind, and a leader
// that can't steps down; neither ends.
type watched struct {
	store
	failed *atomic.Pointer[string] // why the last write failed; nil: it did not
}

func (w watched) tell(err error) error {
	if err == nil {
		if w.failed.Load() != nil {
			w.failed.Store(nil)
		}
		return nil
	}
	why := err.Error()
	w.failed.Store(&why)
	return err
}

func (w watched) StoreLog(entry *raft.Log) error { return w.tell(w.store.StoreLog(entry)) }

func (w watched) StoreLogs(entries []*raft.Log) error { return w.tell(w.store.StoreLogs(entries)) }

func (w watched) Set(key, value []byte) error { return w.tell(w.store.Set(key, value)) }

func (w watched) SetUint64(key []byte, value uint64) error {
	return w.tell(w.store.SetUint64(key, value))
}

// Disk says why this master's last write failed, "" when it did not.
func (l *Log) Disk() string {
	if why := l.folder.failed.Load(); why != nil {
		return *why
	}
	return ""
}
