package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/master/internal/registrycodec"
)

// Beside each snapshot the library stores a description: index, term and membership of the quorum, in a file without a
// checksum. So the snapshot itself, which has a checksum, also carries one of that file.

// sealingStore passes the checksum of the library's description to each snapshot that is written.
type sealingStore struct {
	raft.SnapshotStore
	dir string // with the snapshots; "": they are in memory
}

type sealingSink struct {
	raft.SnapshotSink
	metaSum string
	dir     string
}

// Close returns when the whole snapshot is on the disk, as the log is trimmed behind it. The library syncs the files, and
// the folder of all snapshots once it has given this one its name, but not the folder with the names of the files: that
// has to be there first.
func (s sealingSink) Close() error {
	if s.dir == "" {
		return s.SnapshotSink.Close()
	}
	err := syncFolder(filepath.Join(s.dir, s.ID()+".tmp"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it does not exist when the snapshot is closed already
		return errors.Join(err, s.Cancel())
	}
	return s.SnapshotSink.Close()
}

func (s sealingStore) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64,
	transport raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, transport)
	return sealingSink{sink, metaSum(version, index, term, members, membersIndex), s.dir}, err
}

func metaSum(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64) string {
	return SumOf([]any{version, index, term, members, membersIndex})
}

// checkMetas checks every snapshot, and returns the index of the newest. The library would skip a snapshot whose
// description it can't read, and with a wrong index it would take an older snapshot for the newest.
func (f *folder) checkMetas() (newest uint64, err error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, raftFolder, snapshotsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".tmp") { // it was not finished
			continue
		}
		index, wrong := f.checkMeta(entry.Name())
		newest, err = max(newest, index), errors.Join(err, wrong)
	}
	return newest, err
}

// checkMeta compares the library's description of a snapshot with the snapshot's head, and returns the index.
func (f *folder) checkMeta(id string) (uint64, error) {
	folder := filepath.Join(f.dir, raftFolder, snapshotsFolder, id)
	var meta struct { // as the library writes it
		raft.SnapshotMeta
		CRC []byte
	}
	data, err := os.ReadFile(filepath.Join(folder, "meta.json"))
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	var head registrycodec.Head
	size := int64(0)
	if err == nil {
		head, size, err = headOfFile(filepath.Join(folder, "state.bin"))
	}
	right := metaSum(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex)
	switch {
	case err != nil:
		return 0, fmt.Errorf("snapshot %s is %w or can't be read: %w", id, registrycodec.ErrDamaged, err)
	case meta.ID != id || meta.Size != size || head.MetaSum != right:
		return 0, fmt.Errorf("snapshot %s is %w: its meta.json does not tell what it holds", id, registrycodec.ErrDamaged)
	}
	return meta.Index, nil
}

func headOfFile(name string) (head registrycodec.Head, size int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return head, 0, err
	}
	info, err := file.Stat()
	if err == nil {
		size = info.Size()
		head, err = registrycodec.ReadHead(file)
	}
	return head, size, errors.Join(err, file.Close())
}
