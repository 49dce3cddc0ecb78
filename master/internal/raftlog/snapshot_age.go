package raftlog

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SnapshotAt returns when the newest snapshot was made; zero: there is none, or this master has no folder. The library
// names the folder of a snapshot TERM-INDEX-MILLISECONDS.
func (l *Log) SnapshotAt() (newest time.Time) {
	if l.config.Dir == "" {
		return newest
	}
	found, _ := os.ReadDir(filepath.Join(l.config.Dir, raftFolder, snapshotsFolder)) // without it there is no snapshot
	for _, entry := range found {
		name := entry.Name()
		millis, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if at := time.UnixMilli(millis); err == nil && at.After(newest) {
			newest = at
		}
	}
	return newest
}
