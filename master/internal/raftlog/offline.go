package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// This file holds what is done to a folder while its master does not run. The caller holds the folder's lock. Both
// ways, Restore and Recover, make a quorum of one, which grows by `raft add`. Both raise the epoch, so that whoever
// obeys the new quorum obeys no master of the old one (R1). And both skip numbers, so that what the lost masters have
// given out is given to nobody else (R37).
//
// The epoch alone does not distinguish two quorums that were made from the same snapshot, or from two survivors of one
// quorum, because neither knows of the other. So their Raft terms begin at the seconds since 1970, and whoever obeys
// the later quorum obeys no master of the other.

// Restore makes a folder that was never used the folder of a quorum of one, which begins with the registry of a
// snapshot.
func Restore(dir string, self Peer, source io.Reader) (*registry.State, error) {
	return restore(dir, self, source, time.Now())
}

func restore(dir string, self Peer, source io.Reader, at time.Time) (*registry.State, error) {
	const op = "raft.restore"
	if err := checkFresh(dir); err != nil {
		return nil, api.E(op, api.Exists, dir, err)
	}
	state, head, err := registrycodec.ReadSnapshot(source)
	switch {
	case err != nil:
		return nil, api.E(op, api.Invalid, "", err)
	case head.Cluster == "":
		return nil, api.E(op, api.Invalid, "", errors.New("the snapshot was taken before the cluster was founded"))
	}
	f := &folder{dir: dir, settings: settings{
		Format: settingsFormat, ID: self.ID, Advertise: self.Addr, Incarnation: mintIncarnation(),
		Cluster: state.Cluster, Epoch: state.Epoch + 1,
	}}
	f.settings.Founders = []quorum.Founder{{Peer: self, Incarnation: f.settings.Incarnation}}
	state.BeginAnew(at)
	err = f.open(quietLogger())
	if err != nil {
		return nil, api.E(op, api.Unavailable, dir, err)
	}
	err = errors.Join(f.plant(self, state, head, at), f.close())
	if err == nil {
		// The settings come last, because a folder without them is not taken for anybody's.
		f.settings.Voted = true
		err = f.save()
	}
	return state, wrap(op, dir, err)
}

// checkFresh refuses a folder that holds anything but a lock file.
func checkFresh(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.Name() != "LOCK" {
			return fmt.Errorf("the folder holds %s; name a folder that is empty or does not exist", entry.Name())
		}
	}
	return err
}

// plant gives Raft its first snapshot, and the term that its next one must exceed.
func (f *folder) plant(self Peer, state *registry.State, head registrycodec.Head, at time.Time) error {
	term := max(head.Term, 1)
	sink, err := f.snapshots.Create(1, max(head.Index, 1), term, onlyVoter(self, f.settings.Incarnation), 1, strandedTransport(self))
	if err != nil {
		return err
	}
	if err := (&picture{state, head.Term}).Persist(sink); err != nil {
		return err
	}
	return f.beginTerms(term, at)
}

var currentTerm = []byte("CurrentTerm") // the library's name for it

// beginTerms makes the next election have a term that no quorum made earlier from the same registry has reached,
// because a quorum has less than one election a second.
func (f *folder) beginTerms(known uint64, at time.Time) error {
	return f.stable.SetUint64(currentTerm, max(known, uint64(max(at.Unix(), 0))))
}

func onlyVoter(self Peer, incarnation string) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: serverID(self.ID, incarnation), Address: raft.ServerAddress(self.Addr)}}}
}

// strandedTransport returns a transport that reaches nobody. The library only asks it how addresses are written.
func strandedTransport(self Peer) raft.Transport {
	_, transport := raft.NewInmemTransport(raft.ServerAddress(self.Addr))
	return transport
}

func quietLogger() raftLogger { return newRaftLogger(zerolog.Nop(), newChatter()) }

// Survivor describes what Recover could bring back from a folder.
type Survivor struct {
	Self    Peer
	Cluster api.ClusterID
	Epoch   uint64
	Last    uint64 // index of the last entry of its log
	Term    uint64 // the highest that it has seen
	Members []Peer // the members of the quorum that it knows
}

// Survey says what a folder holds. It changes nothing.
func Survey(dir string) (Survivor, error) {
	const op = "raft.recover"
	f, err := openSurvivor(dir)
	if err != nil {
		return Survivor{}, wrap(op, dir, err)
	}
	found, err := f.survey()
	return found, wrap(op, dir, errors.Join(err, f.close()))
}

func openSurvivor(dir string) (*folder, error) {
	f := &folder{dir: dir}
	switch err := f.load(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, api.E("raft.recover", api.NotFound, dir, errors.New("this is no master's data folder"))
	case err != nil:
		return nil, err
	case f.settings.Cluster == "" || !f.settings.Voted:
		return nil, api.E("raft.recover", api.Invalid, dir, errors.New("this master was in no quorum yet: there is nothing to recover"))
	}
	return f, f.open(quietLogger())
}

func (f *folder) survey() (Survivor, error) {
	s := f.settings
	found := Survivor{Self: Peer{ID: s.ID, Addr: s.Advertise}, Cluster: s.Cluster}
	m := newMachine(func(error) {})
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = serverID(s.ID, s.Incarnation), quietLogger()
	servers, err := raft.GetConfiguration(config, m, f.logs, f.stable, f.snapshots, strandedTransport(found.Self))
	if err != nil {
		return found, err
	}
	for _, server := range servers.Servers {
		found.Members = append(found.Members, Peer{ID: idOf(server.ID), Addr: string(server.Address)})
	}
	slices.SortFunc(found.Members, func(a, b Peer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	found.Term, _ = f.stable.GetUint64(currentTerm) // none means 0
	found.Last, err = f.replay(m)
	m.hashing.Wait()
	found.Epoch = max(m.show().Epoch, s.Epoch)
	return found, err
}

// replay applies the entries after the snapshot, and returns the index of the last one.
func (f *folder) replay(m *machine) (last uint64, err error) {
	list, err := f.snapshots.List()
	if err != nil {
		return 0, err
	}
	snapshot := uint64(0)
	if len(list) > 0 {
		snapshot = list[0].Index
	}
	last, err = f.logs.LastIndex()
	for index := snapshot + 1; index <= last && err == nil; index++ {
		var entry raft.Log
		if err = f.logs.GetLog(index, &entry); err == nil && entry.Type == raft.LogCommand {
			m.Apply(&entry)
		}
	}
	return max(last, snapshot), err
}

// Recover makes the folder's master the only voter, with everything in its log. What only the lost masters had is lost.
// What this master had and was not committed counts as committed. advertise is the address under which it will be
// reached; "" keeps the old one.
func Recover(dir, advertise string) (Survivor, error) {
	return recoverAt(dir, advertise, time.Now())
}

func recoverAt(dir, advertise string, at time.Time) (Survivor, error) {
	const op = "raft.recover"
	f, err := openSurvivor(dir)
	if err != nil {
		return Survivor{}, wrap(op, dir, err)
	}
	found, err := f.survey()
	if err == nil {
		if advertise != "" {
			found.Self.Addr = advertise
		}
		found.Epoch++
		err = f.recover(found, at)
	}
	return found, wrap(op, dir, errors.Join(err, f.close()))
}

// recovered is a registry that begins anew (BeginAnew) when the library takes its snapshot, which it does once it has
// applied the whole log.
type recovered struct {
	*machine
	at time.Time
}

func (r recovered) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	r.state.BeginAnew(r.at)
	r.mu.Unlock()
	return r.machine.Snapshot()
}

// recover writes the epoch first. If it is interrupted, either the folder is as it was before, or its next leadership
// has an epoch that nobody else has.
func (f *folder) recover(found Survivor, at time.Time) error {
	f.settings.Epoch = found.Epoch
	f.settings.Advertise = found.Self.Addr
	f.settings.Founders = []quorum.Founder{{Peer: found.Self, Incarnation: f.settings.Incarnation}}
	if err := errors.Join(f.save(), f.beginTerms(found.Term, at)); err != nil {
		return err
	}
	var broken error
	m := newMachine(func(err error) { broken = err })
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = serverID(found.Self.ID, f.settings.Incarnation), quietLogger()
	err := raft.RecoverCluster(config, recovered{m, at}, f.logs, f.stable, f.snapshots, strandedTransport(found.Self), onlyVoter(found.Self, f.settings.Incarnation))
	m.hashing.Wait()
	return errors.Join(broken, err)
}
