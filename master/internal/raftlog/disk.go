package raftlog

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/internal/datafolder"
)

// watched remembers whether Raft's last write reached the disk. A follower that can't write an entry falls behind, and
// a leader that can't steps down, but neither ends its process. A master that can't write its term has to end.
type watched struct {
	store
	failed *atomic.Pointer[string] // why the last write failed; nil: it did not fail
	// ends is called when the term can't be written, so that Raft must end; nil: nobody runs Raft.
	ends func(error)
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

func (w watched) Set(key, value []byte) error {
	return w.checkTerm(key, w.tell(w.store.Set(key, value)))
}

func (w watched) SetUint64(key []byte, value uint64) error {
	return w.checkTerm(key, w.tell(w.store.SetUint64(key, value)))
}

// checkTerm ends the library's goroutine when a term can't be written. If it returned the error, the library would
// panic and end the whole process. If it returned success, the library would give a vote that it may forget. The
// request that was being handled is refused.
func (w watched) checkTerm(key []byte, err error) error {
	if err != nil && w.ends != nil && bytes.Equal(key, currentTerm) {
		w.ends(fmt.Errorf("it can't write down Raft's term, and without it might vote twice: %w", err))
		runtime.Goexit()
	}
	return err
}

// howToMakeRoom adds to the error of a full disk what a person can do about it.
func howToMakeRoom(dir string, err error) error {
	if datafolder.IsDiskFull(err) {
		return fmt.Errorf("%w; make room on the disk of %s and start this master again, the others go on meanwhile", err, dir)
	}
	return err
}

// Disk says why this master's last write failed; "" when it did not fail.
func (l *Log) Disk() string {
	if why := l.folder.failed.Load(); why != nil {
		return *why
	}
	return ""
}
