package master

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// This file holds what an operator does to snapshots and data folders that no running master uses.

// Snapshot describes a saved registry.
type Snapshot struct {
	Cluster     api.ClusterID
	Epoch       uint64
	Term, Index uint64 // of the last change that it contains
	Hash        string // hash of the state: equal on all masters at the same index

	Masters, Agents, Frameworks, Roles int
	// Tombstones counts the frameworks that were removed.
	Tombstones int
	StoreBytes int64
	// Principals and Tokens are those that may do something, and with which somebody may join: also those that were
	// revoked after the snapshot was taken. Sorted.
	Principals, Tokens []string
}

// InspectSnapshot reads a whole snapshot. It returns an error unless the snapshot's checksum and hash are right.
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
	for _, name := range slices.Sorted(maps.Keys(state.Principals)) {
		if p := state.Principals[name]; p.Revoked.IsZero() && len(p.Grants) > 0 {
			found.Principals = append(found.Principals, name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(state.Tokens)) {
		if state.Tokens[id].Refusal(time.Now()) == "" {
			found.Tokens = append(found.Tokens, id)
		}
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

// RestoreSnapshot makes an empty folder the folder of a new quorum. Its only master is self, and its registry is the
// snapshot's, in a higher epoch. So agents and frameworks that have met the new quorum no longer obey a master of the
// old one.
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

// Survivor describes the folder that Recover works on.
type Survivor = raftlog.Survivor

// Survey says what Recover would find in a folder. It changes nothing.
func Survey(dir string) (Survivor, error) {
	return withFolder(dir, func() (Survivor, error) { return raftlog.Survey(dir) })
}

// Recover makes the folder's master the only one of its quorum, in a higher epoch, when a majority of the masters is
// lost for good. raftAddr is the Raft address under which masters that join later reach it; "" keeps the old one.
func Recover(dir, raftAddr string) (Survivor, error) {
	if raftAddr != "" {
		if _, err := ParsePeer("m=" + raftAddr); err != nil {
			return Survivor{}, api.E("raft.recover", api.Invalid, raftAddr, err)
		}
	}
	return withFolder(dir, func() (Survivor, error) { return raftlog.Recover(dir, raftAddr) })
}

// withFolder locks an existing folder while do runs.
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
