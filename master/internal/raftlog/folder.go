package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/master/internal/logcache"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
)

// settingsFile is the file that holds what a restart needs beside Raft's own files.
const settingsFile = "raft.json"

// settingsFormat is the format of settingsFile. What Raft's files hold has its own formats (registry.Format).
const settingsFormat = 1

// raftFolder is the folder with Raft's files, inside the data folder.
const raftFolder = "raft"

// snapshotsFolder is the folder in that one in which the library keeps snapshots.
const snapshotsFolder = "snapshots"

const snapshotsKept = 2

// settings are the settings of a folder. They are written before anybody is told what they say.
type settings struct {
	Format    int          `json:"format"`
	ID        api.MasterID `json:"id"`
	Advertise string       `json:"advertise"`
	// Incarnation is made with the folder. A folder that was emptied gets another one (R19).
	Incarnation string `json:"incarnation"`
	Peers       []Peer `json:"peers"`
	// Cluster is "" until the quorum is founded or joined.
	Cluster api.ClusterID `json:"cluster"`
	// Founders is set on the masters that founded the cluster together.
	Founders []quorum.Founder `json:"founders,omitempty"`
	// Voted says that Raft's files exist, so that they must not be missing at the next start.
	Voted bool `json:"voted"`
	// Epoch is the newest epoch that this master knows of. After a recovery the next leadership raises the registry's
	// epoch to it (R1).
	Epoch uint64 `json:"epoch,omitempty"`
	// Sum is the checksum of all other fields, in hex.
	Sum string `json:"sum,omitempty"`
}

// summed returns the settings with their checksum set.
func (s settings) summed() settings {
	s.Sum = ""
	s.Sum = SumOf(s)
	return s
}

// SumOf returns a checksum, in hex, of a value in its JSON form.
func SumOf(value any) string {
	data, err := json.Marshal(value)
	invariant.Check(err == nil, "%T has no form in JSON: %v", value, err)
	return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli))
}

// Memory is a folder that lives in memory.
type Memory struct {
	settings  []byte
	logs      store
	snapshots *raft.InmemSnapshotStore
}

// NewMemory returns an empty folder.
func NewMemory() *Memory {
	return &Memory{logs: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
}

// folder is where a master keeps what must survive it.
type folder struct {
	dir      string  // "" when memory is set
	memory   *Memory // nil when dir is set
	settings settings

	logs   raft.LogStore
	stable raft.StableStore
	failed atomic.Pointer[string] // why Raft's last write failed; nil: it reached the disk
	// ends is called when Raft can't continue because its term can't be written; nil: nobody runs Raft.
	ends      func(error)
	snapshots raft.SnapshotStore
	close     func() error
}

// begin makes the settings of a new folder.
func (f *folder) begin(config Config) error {
	if config.ID == "" {
		return api.E("raft.open", api.Invalid, config.Dir, errors.New("the folder is new: the master needs an ID"))
	}
	if err := api.CheckID("a master's ID", string(config.ID)); err != nil {
		return api.E("raft.open", api.Invalid, string(config.ID), err)
	}
	f.settings = settings{
		Format: settingsFormat, ID: config.ID, Advertise: config.Advertise,
		Incarnation: mintIncarnation(), Peers: config.Peers,
	}
	return nil
}

// IDIn returns the ID of the master whose folder it is; "" if it is nobody's yet. It refuses a master that was
// configured with another ID.
func IDIn(dir string, told api.MasterID) (api.MasterID, error) {
	f := &folder{dir: dir}
	err := f.load()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = f.checkID(told)
	}
	return f.settings.ID, wrap("raft.open", dir, err)
}

// checkID refuses a master that was configured with another ID than the folder's.
func (f *folder) checkID(told api.MasterID) error {
	if told == "" || told == f.settings.ID {
		return nil
	}
	return api.E("raft.open", api.Exists, f.dir,
		fmt.Errorf("the folder is master %s's, not %s's; each master has a folder of its own", f.settings.ID, told))
}

// goOn takes over from the config what may differ at each start.
func (f *folder) goOn(config Config) error {
	self := &f.settings
	if err := f.checkID(config.ID); err != nil {
		return err
	}
	if self.Cluster == "" && len(config.Peers) > 0 {
		self.Peers = config.Peers // the cluster is not founded yet, so the list of founders may still be corrected
	}
	self.Advertise = config.Advertise
	return nil
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
	// The format comes first, because in another format fields may have other types.
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
	if f.settings.summed().Sum != f.settings.Sum {
		return fmt.Errorf("%s is damaged: its checksum is wrong; if the other masters are well, `tender raft remove` this one there, "+
			beginAnew, settingsFile)
	}
	f.settings.Sum = ""
	return nil
}

// save writes the settings so that a crash leaves either the old or the new ones.
func (f *folder) save() error {
	data, err := json.MarshalIndent(f.settings.summed(), "", "  ")
	if err != nil {
		return err
	}
	if f.memory != nil {
		f.memory.settings = data
		return nil
	}
	return WriteFileSynced(filepath.Join(f.dir, settingsFile), append(data, '\n'))
}

// WriteFileSynced replaces a file so that a crash leaves either the old or the new one.
func WriteFileSynced(path string, data []byte) error {
	return WriteSynced(path, func(to io.Writer) error { _, err := to.Write(data); return err }, nil)
}

// WriteSynced is WriteFileSynced for what is written piece by piece. With check, what was written is read back first,
// and an error leaves the old file.
func WriteSynced(path string, write func(io.Writer) error, check func(io.Reader) error) error {
	temporary := path + ".tmp"
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if _, sought := file.Seek(0, io.SeekStart); err == nil && check != nil {
		if err = sought; err == nil {
			err = check(file)
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
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

// open opens Raft's files, and refuses files that this version can't read.
func (f *folder) open(log raftLogger) error {
	if f.memory != nil {
		written := watched{f.memory.logs, &f.failed, f.ends}
		f.logs, f.stable, f.snapshots = written, written, f.memory.snapshots
		f.close = func() error { return nil }
		return f.checkFormats()
	}
	dir := filepath.Join(f.dir, raftFolder)
	path := filepath.Join(dir, "raft.db")
	if err := f.checkFiles(dir, path); err != nil {
		return err
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: path,
		// Writing the free list with each commit is what brought Consul down (P13).
		BoltOptions:             &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return fmt.Errorf("%s can't be opened: %w", path, err)
	}
	f.close = bolt.Close
	store := summed{watched{bolt, &f.failed, f.ends}}
	if err := store.checkValues(f.settings.Voted); err != nil {
		return errors.Join(f.damaged(path, err), bolt.Close())
	}
	f.stable, f.logs = store, store
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err == nil { // a name is surely there after a loss of power only when its folder is synced
		err = errors.Join(syncFolder(dir), syncFolder(f.dir))
	}
	if err == nil {
		f.snapshots = sealingStore{snapshots, filepath.Join(dir, snapshotsFolder)}
		err = f.checkFormats()
	}
	if err != nil {
		return errors.Join(f.damaged(dir, err), bolt.Close())
	}
	// Followers that keep up ask for the last few entries, so these are also kept in memory.
	f.logs = logcache.New(store)
	return nil
}

// checkFiles refuses a folder whose files are missing or damaged, as far as that shows before the libraries open them.
func (f *folder) checkFiles(dir, path string) error {
	if f.settings.Voted {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the folder %s says that it is master %s of %s, but Raft's files are missing (%w); "+
				"bring them back, or `tender raft remove %s` at the others, "+beginAnew,
				f.dir, f.settings.ID, f.settings.Cluster, err, f.settings.ID)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	snapshot, err := f.checkMetas()
	if err != nil {
		return f.damaged(dir, err)
	}
	if !f.settings.Voted {
		return nil
	}
	if err := checkRaftFile(path, snapshot); err != nil {
		return f.damaged(path, err)
	}
	return nil
}

// damaged adds to an error about damaged files what a person can do about them.
func (f *folder) damaged(path string, err error) error {
	if !errors.Is(err, registrycodec.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%s: %w. If the other masters are well, `tender raft remove %s` there, "+beginAnew+"; "+
		"if none is, begin anew with `tender snapshot restore`", path, err, f.settings.ID)
}

// appendEntriesMax is how many entries a follower is sent in one message. Some messages are under way for each
// follower, so this number times registrycodec.EntryBytesMax bounds that memory too.
const appendEntriesMax = 16

// checkFormats refuses files at which Raft would stop in the middle of its start (P9).
func (f *folder) checkFormats() error {
	snapshot, err := f.checkSnapshot()
	if err != nil {
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
	term := uint64(0)
	for index := max(first, 1); index <= last; index++ {
		var entry raft.Log
		err := guarded(func() error { return f.logs.GetLog(index, &entry) })
		if errors.Is(err, raft.ErrLogNotFound) && index <= snapshot {
			continue // a leader has sent the snapshot instead
		}
		if err != nil {
			return fmt.Errorf("entry %d of the log is %w or missing: %w", index, registrycodec.ErrDamaged, err)
		}
		if entry.Term < term {
			return fmt.Errorf("entry %d of the log is %w: it is of term %d and follows one of term %d", index, registrycodec.ErrDamaged, entry.Term, term)
		}
		term = entry.Term
		if entry.Type == raft.LogCommand {
			if err := registrycodec.CheckEntry(entry.Data); err != nil {
				return fmt.Errorf("entry %d of the log: %w", index, err)
			}
		}
	}
	return nil
}

// checkSnapshotHead reads only the head of the newest snapshot, which costs little, and returns the snapshot's name.
func (f *folder) checkSnapshotHead() (string, error) {
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 || f.memory != nil {
		return "", err
	}
	_, err = f.checkMeta(list[0].ID)
	return list[0].ID, err
}

// checkSnapshot opens the newest snapshot, for which the library reads all of it and compares its checksum. It then
// reads the snapshot's head, and returns its index.
func (f *folder) checkSnapshot() (uint64, error) {
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 {
		return 0, err
	}
	_, source, err := f.snapshots.Open(list[0].ID)
	if err != nil {
		return 0, fmt.Errorf("snapshot %s is %w or can't be opened: %w", list[0].ID, registrycodec.ErrDamaged, err)
	}
	defer source.Close()
	if _, err := registrycodec.ReadHead(source); err != nil {
		return 0, fmt.Errorf("snapshot %s: %w", list[0].ID, err)
	}
	return list[0].Index, nil
}

// hasState reports whether Raft's files hold anything. The library's bootstrap writes a term first and the
// configuration afterwards, and it refuses a folder that has a term. So a master that was killed between the two writes
// would never get a configuration. Raft has only run in a folder that has voted. In any other folder, a term without
// anything else is what such a bootstrap has left, and is removed.
func (f *folder) hasState() (bool, error) {
	exists, err := raft.HasExistingState(f.logs, f.stable, f.snapshots)
	if err != nil || !exists || f.settings.Voted {
		return exists, err
	}
	last, err := f.logs.LastIndex()
	if err != nil || last > 0 {
		return true, err
	}
	if snapshots, err := f.snapshots.List(); err != nil || len(snapshots) > 0 {
		return true, err
	}
	return false, f.stable.SetUint64(currentTerm, 0)
}
