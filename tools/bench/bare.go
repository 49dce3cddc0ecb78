package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// bare measures a replicated write without Tender: three nodes of the same library on the same disk, over TCP on
// loopback, with a state machine that does nothing.
type bare struct {
	dir    string
	nodes  []*raft.Raft
	stores []*raftboltdb.BoltStore
	leader *raft.Raft
}

func startBare(parent string) (*bare, error) {
	dir, err := os.MkdirTemp(parent, "bare-")
	if err != nil {
		return nil, err
	}
	b := &bare{dir: dir}
	var servers []raft.Server
	var transports []*raft.NetworkTransport
	for i := range 3 {
		transport, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, 10*time.Second, io.Discard)
		if err != nil {
			return b, err
		}
		transports = append(transports, transport)
		servers = append(servers, raft.Server{ID: raft.ServerID(fmt.Sprint("n", i)), Address: transport.LocalAddr()})
	}
	for i, transport := range transports {
		if err := b.start(i, transport, raft.Configuration{Servers: servers}); err != nil {
			return b, err
		}
	}
	return b, b.awaitLeader()
}

func (b *bare) start(i int, transport *raft.NetworkTransport, founders raft.Configuration) error {
	// With the options that the masters use.
	store, err := raftboltdb.New(raftboltdb.Options{
		Path:                    filepath.Join(b.dir, fmt.Sprint("n", i, ".db")),
		BoltOptions:             &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
		MsgpackUseNewTimeFormat: true,
	})
	if err != nil {
		return err
	}
	b.stores = append(b.stores, store)
	config := raft.DefaultConfig()
	config.LocalID = founders.Servers[i].ID
	config.LogOutput = io.Discard
	snapshots := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(config, store, store, snapshots, transport, founders); err != nil {
		return err
	}
	node, err := raft.NewRaft(config, nothing{}, store, store, snapshots, transport)
	if err == nil {
		b.nodes = append(b.nodes, node)
	}
	return err
}

func (b *bare) awaitLeader() error {
	for end := time.Now().Add(electionMax); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, node := range b.nodes {
			if node.VerifyLeader().Error() == nil {
				b.leader = node
				return nil
			}
		}
	}
	return errors.New("no bare node leads")
}

func (b *bare) write(data []byte) error { return b.leader.Apply(data, 0).Error() }

func (b *bare) stop() error {
	var failed []error
	for _, node := range b.nodes {
		failed = append(failed, node.Shutdown().Error())
	}
	for _, store := range b.stores {
		failed = append(failed, store.Close())
	}
	return errors.Join(append(failed, os.RemoveAll(b.dir))...)
}

// nothing is a state machine without state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
func (nothing) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (nothing) Release()                            {}
