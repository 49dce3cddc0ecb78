package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/raftlog"
)

// This file saves snapshots of the registry from time to time, for `tender raft snapshot restore`. Each master saves its
// own registry, so that the loss of a machine, also of the leader's, leaves the snapshots of the others.

// Snapshots says how often a master saves its registry into a folder.
type Snapshots struct {
	// Every is the time between two. Default: none are saved.
	Every time.Duration
	// Keep is how many are kept. Default 7.
	Keep int
	// Folder holds them. Default: snapshots in the data folder.
	Folder string
}

const (
	snapshotsFolder = "snapshots" // below the data folder
	snapshotsKept   = 7
	// snapshotEveryMin: a snapshot copies the whole registry.
	snapshotEveryMin = time.Second
	// snapshotAgain is after how long a snapshot that failed is tried again, if the next is not due before.
	snapshotAgain = time.Minute

	snapshotPrefix, snapshotSuffix = "registry-", ".snapshot"
	snapshotTime                   = "20060102T150405.000Z"
)

func (s Snapshots) check() error {
	if s.Every < 0 || s.Every > 0 && s.Every < snapshotEveryMin {
		return fmt.Errorf("snapshots are saved every %v; it must be %v or more, or 0 for never", s.Every, snapshotEveryMin)
	}
	if s.Keep < 0 {
		return fmt.Errorf("%d snapshots are kept; it must be 1 or more", s.Keep)
	}
	return nil
}

func (s Snapshots) withDefaults(dataDir string) Snapshots {
	if s.Keep == 0 {
		s.Keep = snapshotsKept
	}
	if s.Folder == "" {
		s.Folder = filepath.Join(dataDir, snapshotsFolder)
	}
	return s
}

// saver saves the registry from time to time, and bounds how many snapshots are on their way to people.
type saver struct {
	config *Config
	log    *zerolog.Logger
	raft   *raftlog.Log

	saved atomic.Int64  // when a snapshot was last saved as planned, in nanoseconds since 1970; 0: never
	slots chan struct{} // holds one entry for each snapshot that is being sent
}

// run saves a snapshot whenever one is due, counted from the newest that an earlier process has left.
func (v *saver) run(ctx context.Context) {
	s := v.config.Snapshots
	if s.Every == 0 || v.config.DataDir == "" {
		return
	}
	s = s.withDefaults(v.config.DataDir)
	if names, err := savedIn(s.Folder, time.Now()); err == nil && len(names) > 0 {
		if at, err := savedAt(names[len(names)-1]); err == nil && at.Before(time.Now()) {
			v.saved.Store(at.UnixNano())
		}
	}
	due := time.Unix(0, v.saved.Load()).Add(s.Every)
	for pause.For(ctx, time.Until(due)) {
		now := time.Now()
		name, err := v.save(s, now)
		due = now.Add(s.Every)
		switch {
		case errors.Is(err, errNothingYet):
			due = now.Add(min(s.Every, snapshotEveryMin))
		case err != nil:
			due = now.Add(min(s.Every, snapshotAgain))
			v.log.Error().Err(err).Str("folder", s.Folder).Msg("no snapshot of the registry could be saved")
		default:
			v.saved.Store(now.UnixNano())
			v.log.Info().Str("file", name).Msg("snapshot of the registry saved")
		}
	}
}

// view returns what this master has of snapshots; nil: nothing yet.
func (v *saver) view() *apiv1.SnapshotView {
	newest, saved := v.raft.Snapshots.Newest(), v.saved.Load()
	if newest.At.IsZero() && saved == 0 {
		return nil
	}
	view := &apiv1.SnapshotView{Made: wire.TimeToProto(newest.At), Index: newest.Index, Bytes: newest.Bytes}
	if saved > 0 {
		view.Saved = wire.TimeToProto(time.Unix(0, saved))
	}
	return view
}

// errNothingYet says that this master has no cluster yet of which it could save anything.
var errNothingYet = errors.New("the cluster is not founded yet")

// save writes a snapshot, reads it back, and only then gives it its name and removes the oldest ones.
func (v *saver) save(s Snapshots, now time.Time) (name string, err error) {
	known := v.raft.Outline()
	if known.Cluster == "" {
		return "", errNothingYet
	}
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return "", err
	}
	name = filepath.Join(s.Folder, fmt.Sprintf("%s%s-%d%s", snapshotPrefix, now.UTC().Format(snapshotTime), known.Index, snapshotSuffix))
	if err := raftlog.WriteSynced(name, v.raft.Snapshots.Write, inspects); err != nil {
		return "", err
	}
	names, err := savedIn(s.Folder, now)
	for _, old := range names[:max(0, len(names)-s.Keep)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.Folder, old)))
	}
	return name, err
}

// inspects says whether a file is a whole snapshot.
func inspects(file io.Reader) error {
	_, err := InspectSnapshot(file)
	return err
}

// savedIn returns the names of the snapshots in a folder, the oldest first. What was saved by a clock that was ahead of
// now counts as the oldest, so that it takes no later one's place. What else is in the folder is left alone.
func savedIn(folder string, now time.Time) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	var ahead []string
	for _, entry := range entries {
		switch at, err := savedAt(entry.Name()); {
		case err != nil:
		case at.After(now):
			ahead = append(ahead, entry.Name())
		default:
			names = append(names, entry.Name())
		}
	}
	slices.Sort(ahead)
	slices.Sort(names)
	return append(ahead, names...), err
}

// savedAt reads from its name when a snapshot was saved.
func savedAt(name string) (time.Time, error) {
	middle, is := strings.CutPrefix(name, snapshotPrefix)
	middle, whole := strings.CutSuffix(middle, snapshotSuffix)
	at, _, numbered := strings.Cut(middle, "-")
	if !is || !whole || !numbered {
		return time.Time{}, fmt.Errorf("%s is no snapshot that was saved here", name)
	}
	return time.Parse(snapshotTime, at)
}
