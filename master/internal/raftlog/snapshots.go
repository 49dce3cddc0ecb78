package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/registrycodec"
)

// Snapshots is this master's snapshots: whether the newest can be read, when it was made, how much of the log stays behind
// the next. Newest and Write may be called by any goroutine.
type Snapshots struct {
	config  *Config
	folder  *folder
	machine *machine
	loop    *loop
	self    *identity
	engine  *engine

	verified verified // Run's goroutine only
	trimmed  bool     // only the goroutine of Raft that calls keepTrail
}

// Snapshot is one that is in the folder.
type Snapshot struct {
	At    time.Time
	Index uint64 // the last entry of the log that is in it
	Bytes int64
}

// Newest returns the newest snapshot; zero: there is none, or this master has no folder. The library names the folder of a
// snapshot TERM-INDEX-MILLISECONDS.
func (s *Snapshots) Newest() (newest Snapshot) {
	if s.config.Dir == "" {
		return newest
	}
	folder := filepath.Join(s.config.Dir, raftFolder, snapshotsFolder)
	found, _ := os.ReadDir(folder) // without it there is no snapshot
	for _, entry := range found {
		parts := strings.Split(entry.Name(), "-")
		if len(parts) != 3 {
			continue
		}
		index, wrong := strconv.ParseUint(parts[1], 10, 64)
		millis, err := strconv.ParseInt(parts[2], 10, 64) // of one that is being made there follows .tmp
		info, gone := os.Stat(filepath.Join(folder, entry.Name(), "state.bin"))
		if at := time.UnixMilli(millis); errors.Join(wrong, err, gone) == nil && at.After(newest.At) {
			newest = Snapshot{At: at, Index: index, Bytes: info.Size()}
		}
	}
	return newest
}

// snapshotCheckEvery is how often a leader checks that its newest snapshot can be read. A leader that can't read it
// would keep out for ever every follower that has fallen behind (P10).
const snapshotCheckEvery = time.Minute

// verified names the snapshot that a leader has read completely, and when it did.
type verified struct {
	id string
	at time.Time
}

// check reads a leader's newest snapshot: its head each time, and all of it, in a goroutine, when it is new or
// was not read for long.
func (s *Snapshots) check(r *life) error {
	if !r.leads() {
		return nil
	}
	id, err := s.folder.checkSnapshotHead()
	if err != nil {
		return unreadable(s.config.Dir, err)
	}
	if now := time.Now(); id != s.verified.id || now.Sub(s.verified.at) > snapshotVerifyEvery {
		s.verified = verified{id, now}
		go func() { // ends with the file
			if _, err := s.folder.checkSnapshot(); err != nil {
				s.loop.fail(unreadable(s.config.Dir, err))
			}
		}()
	}
	return nil
}

// snapshotVerifyEvery is how often a leader reads all of its newest snapshot.
const snapshotVerifyEvery = 30 * time.Minute

func unreadable(dir string, err error) error {
	return api.E("raft.run", api.Unavailable, dir,
		fmt.Errorf("a leader must be able to read its snapshots: %w; mend or empty the folder", err))
}

// keepTrail sets how many entries stay in the log behind the snapshot that is being made; 0 means as many as usual.
func (s *Snapshots) keepTrail(entries uint64) {
	r := s.engine.running()
	if r == nil || entries == 0 && !s.trimmed {
		return
	}
	usual := s.config.trailing()
	if entries == 0 || entries > usual {
		entries = usual
	}
	s.trimmed = entries < usual
	if r.ReloadableConfig().TrailingLogs != entries {
		r.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = entries })
	}
}

// Write writes this master's present registry.
func (s *Snapshots) Write(w io.Writer) error {
	s.machine.mu.Lock()
	state, term := s.machine.state.Clone(), s.machine.term
	s.machine.shown = nil
	s.machine.mu.Unlock()
	return registrycodec.WriteSnapshot(w, state, term)
}
