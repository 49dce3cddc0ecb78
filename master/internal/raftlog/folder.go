package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/tenderhq/tender/api"
)

// settingsFile holds what a restart needs beside Raft's own files.
const settingsFile = "raft.json"

// settingsFormat is what settingsFile says of itself; what Raft's files hold has formats
// of its own (registry.Format).
const settingsFormat = 1

// raftFolder holds Raft's files, inside the data folder.
const raftFolder = "raft"

const snapshotsKept = 2

// settings of a folder. Written before anybody hears of what they say.
type settings struct {
	Format    int          `json:"format"`
	ID        api.MasterID `json:"id"`
	Advertise string       `json:"advertise"`
	// Incarnation is minted with the folder; an emptied folder has another one (R19).
	Incarnation string `json:"incarnation"`
	Peers       []Peer `json:"peers"`
	// Cluster is "" until the quorum is founded or joined.
	Cluster api.ClusterID `json:"cluster"`
	// Founders are set on those that founded the cluster together.
	Founders []founder `json:"founders,omitempty"`
	// Voted says that Raft's files exist: they must not be missing at the next start.
	Voted bool `json:"voted"`
	// Epoch is to be raised to by the next leadership, after a recovery (R1).
	Epoch uint64 `json:"epoch,omitempty"`
}

type founder struct {
	Peer
	Incarnation string `json:"incarnation"`
}

// Memory is a folder that lives in memory.
type Memory struct {
	settings  []byte
	logs      *raft.InmemStore
	snapshots *raft.InmemSnapshotStore
}

// NewMemory returns an empty folder.
func NewMemory() *Memory {
	return &Memory{logs: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
}

// folder is where a master keeps what must survive it.
type folder struct {
	dir      string  // or
	memory   *Memory // one of the two
	settings settings

	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	close     func() error
}

// ReadCluster says which cluster and master a folder belongs to; fs.ErrNotExist for
// a folder that was never used.
func ReadCluster(dir string) (api.ClusterID, api.MasterID, error) {
	f := &folder{dir: dir}
	err := f.load()
	return f.settings.Cluster, f.settings.ID, err
}

func (f *folder) load() error {
	var data []byte
	if f.memory != nil {
		data = f.memory.settings
	} else {
		read, err := os.ReadFile(filepath.Join(f.dir, settingsFile))
		if err != nil {
			return err
		}
		data = read
	}
	if data == nil {
		return fs.ErrNotExist
	}
	// Its format first: the fields of another one may be of other kinds.
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return fmt.Errorf("%s is damaged: %w", settingsFile, err)
	}
	if format.Format != settingsFormat {
		return fmt.Errorf("the folder has format %d and this version knows format %d; start the version that wrote it, or a newer one",
			format.Format, settingsFormat)
	}
	if err := json.Unmarshal(data, &f.settings); err != nil {
		return fmt.Errorf("%s is damaged: %w", settingsFile, err)
	}
	return nil
}

// save writes the settings so that a crash leaves the old or the new ones.
func (f *folder) save() error {
	data, err := json.MarshalIndent(f.settings, "", "  ")
	if err != nil {
		return err
	}
	if f.memory != nil {
		f.memory.settings = data
		return nil
	}
	return WriteFileSynced(filepath.Join(f.dir, settingsFile), append(data, '\n'))
}

// WriteFileSynced replaces a file so that a crash leaves the old or the new one.
func WriteFileSynced(path string, data []byte) error {
	temporary := path + ".tmp"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// open opens Raft's files, and refuses what this version can't read.
func (f *folder) open(log raftLogger) error {
	if f.memory != nil {
		f.logs, f.stable, f.snapshots = f.memory.logs, f.memory.logs, f.memory.snapshots
		f.close = func() error { return nil }
		return f.checkFormats()
	}
	dir := filepath.Join(f.dir, raftFolder)
	if f.settings.Voted {
		if _, err := os.Stat(filepath.Join(dir, "raft.db")); err != nil {
			return fmt.Errorf("the folder %s says that it is master %s of %s, but Raft's files are missing (%w); "+
				"bring them back, or `tender raft remove %s` at the others, empty the folder and `tender raft add` it again",
				f.dir, f.settings.ID, f.settings.Cluster, err, f.settings.ID)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: filepath.Join(dir, "raft.db"),
		// Writing the free list with each commit is what brought Consul down (P13).
		BoltOptions:             &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return fmt.Errorf("%s can't be opened: %w", filepath.Join(dir, "raft.db"), err)
	}
	f.close = store.Close
	f.stable = store
	f.logs = store
	f.snapshots, err = raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err == nil {
		err = f.checkFormats()
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	// Followers in step ask for the last few entries; they need not come from disk.
	f.logs, err = raft.NewLogCache(logCacheEntries, store)
	return err
}

// logCacheEntries times entryBytesMax bounds the cache's memory.
const logCacheEntries = 64

// checkFormats refuses what Raft would stop at in the middle of its start (P9).
func (f *folder) checkFormats() error {
	if err := f.checkSnapshot(); err != nil {
		return err
	}
	first, err := f.logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := f.logs.LastIndex()
	if err != nil {
		return err
	}
	for index := max(first, 1); index <= last; index++ {
		var entry raft.Log
		if err := f.logs.GetLog(index, &entry); err != nil {
			return fmt.Errorf("entry %d of the log can't be read: %w", index, err)
		}
		if entry.Type == raft.LogCommand {
			if err := checkEntry(entry.Data); err != nil {
				return fmt.Errorf("entry %d of the log: %w", index, err)
			}
		}
	}
	return nil
}

// checkSnapshotHead reads the newest snapshot's head, which costs little, and returns
// its name.
func (f *folder) checkSnapshotHead() (string, error) {
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 || f.memory != nil {
		return "", err
	}
	id := list[0].ID
	file, err := os.Open(filepath.Join(f.dir, raftFolder, "snapshots", id, "state.bin"))
	if err == nil {
		_, err = ReadHead(file)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return id, fmt.Errorf("snapshot %s: %w", id, err)
	}
	return id, nil
}

// checkSnapshot opens the newest snapshot, for which the library reads all of it and
// compares its checksum, and reads its head.
func (f *folder) checkSnapshot() error {
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	_, source, err := f.snapshots.Open(list[0].ID)
	if err != nil {
		return fmt.Errorf("snapshot %s can't be opened: %w", list[0].ID, err)
	}
	defer source.Close()
	if _, err := ReadHead(source); err != nil {
		return fmt.Errorf("snapshot %s: %w", list[0].ID, err)
	}
	return nil
}

// hasState says whether Raft's files hold anything.
func (f *folder) hasState() (bool, error) {
	return raft.HasExistingState(f.logs, f.stable, f.snapshots)
}
