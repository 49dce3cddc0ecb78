package master

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// What an operator does to snapshots and data folders while no master uses them.

// Snapshot says what a saved registry holds.
type Snapshot struct {
	Cluster     api.ClusterID
	Epoch       uint64
	Term, Index uint64 // of the last change in it
	Hash        string // of the state: equal on masters at the same index

	Masters, Agents, Frameworks, Roles int
	// Tombstones are frameworks that were removed.
	Tombstones int
	StoreBytes int64
}

// InspectSnapshot reads a whole snapshot, and believes it only if its checksum and its
// hash are right.
func InspectSnapshot(source io.Reader) (Snapshot, error) {
	state, head, err := registrycodec.ReadSnapshot(source)
	if err != nil {
		return Snapshot{}, api.E("raft.snapshot", api.Invalid, "", err)
	}
	found := snapshotOf(state)
	found.Term, found.Hash = head.Term, head.Hash
	return found, nil
}

func snapshotOf(state *registry.State) Snapshot {
	found := Snapshot{
		Cluster: state.Cluster, Epoch: state.Epoch, Index: state.Index,
		Masters: len(state.Masters), Agents: len(state.Agents), Roles: len(state.Roles), StoreBytes: state.StoreBytes(),
	}
	for _, framework := range state.Frameworks {
		if framework.Removed.IsZero() {
			found.Frameworks++
		} else {
			found.Tombstones++
		}
	}
	return found
}

// RestoreSnapshot makes an empty folder that of a new quorum, whose one master is self
// and whose registry is the snapshot's, in a higher epoch: agents and frameworks that
// have met it obey no master of the old quorum any more.
func RestoreSnapshot(dir string, self Peer, source io.Reader) (Snapshot, error) {
	if _, err := ParsePeer(string(self.ID) + "=" + self.Addr); err != nil {
		return Snapshot{}, api.E("raft.restore", api.Invalid, self.ID, err)
	}
	_, missing := os.Stat(dir)
	lock, err := lockFolder(dir)
	if err != nil {
		return Snapshot{}, err
	}
	state, err := raftlog.Restore(dir, self, source)
	err = errors.Join(err, lock.Close())
	if err != nil {
		if api.Is(err, api.Invalid) && os.IsNotExist(missing) {
			err = errors.Join(err, os.RemoveAll(dir)) // nothing half-done stays behind
		}
		return Snapshot{}, err
	}
	return snapshotOf(state), nil
}

// Survivor is what Recover makes of a folder.
type Survivor = raftlog.Survivor

// Survey says what Recover would find in a folder. It changes nothing.
func Survey(dir string) (Survivor, error) {
	return withFolder(dir, func() (Survivor, error) { return raftlog.Survey(dir) })
}

// Recover makes the folder's master the only one of its quorum after most of the others
// are lost for ever, in a higher epoch. raftAddr is where the masters that follow will
// reach it; "" is where they did.
func Recover(dir, raftAddr string) (Survivor, error) {
	if raftAddr != "" {
		if _, err := ParsePeer("m=" + raftAddr); err != nil {
			return Survivor{}, api.E("raft.recover", api.Invalid, raftAddr, err)
		}
	}
	return withFolder(dir, func() (Survivor, error) { return raftlog.Recover(dir, raftAddr) })
}

// withFolder holds the lock of a folder that exists.
func withFolder(dir string, do func() (Survivor, error)) (Survivor, error) {
	if _, err := os.Stat(dir); err != nil {
		return Survivor{}, api.E("raft.recover", api.NotFound, dir, fmt.Errorf("this is no master's data folder: %w", err))
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return Survivor{}, err
	}
	found, err := do()
	return found, errors.Join(err, lock.Close())
}
