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

// What is done to a folder while its master does not run. The caller holds its lock.
// Both ways make a quorum of one, which grows by `raft add`, and both raise the epoch:
// whoever obeys it obeys no master of the quorum that was left behind (R1). And both begin
// to count anew: what the lost masters have given out is given to nobody else (R37).
//
// The epoch alone does not tell two quorums apart that were made of the same snapshot, or of two
// survivors of one quorum: neither knows of the other. So their Raft terms begin at the seconds
// since 1970, and whoever obeys the later one obeys no master of the other.

// Restore makes a folder that was never used the folder of a quorum of one, which
// begins with the registry of a snapshot.
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
		// Last: a folder without it is not taken for anybody's.
		f.settings.Voted = true
		err = f.save()
	}
	return state, wrap(op, dir, err)
}

// checkFresh refuses a folder that has any of a master's files beside the lock.
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

// plant gives Raft its first snapshot and the term that the next one must pass.
func (f *folder) plant(self Peer, state *registry.State, head registrycodec.Head, at time.Time) error {
	term := max(head.Term, 1)
	sink, err := f.snapshots.Create(1, max(head.Index, 1), term, onlyVoter(self), 1, strandedTransport(self))
	if err != nil {
		return err
	}
	if err := (&picture{state, head.Term}).Persist(sink); err != nil {
		return err
	}
	return f.beginTerms(term, at)
}

var currentTerm = []byte("CurrentTerm") // as the library calls it

// beginTerms has the next election be one of a term that no quorum made before of the same
// registry has reached: they elect less often than once in a second.
func (f *folder) beginTerms(known uint64, at time.Time) error {
	return f.stable.SetUint64(currentTerm, max(known, uint64(max(at.Unix(), 0))))
}

func onlyVoter(self Peer) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(self.ID), Address: raft.ServerAddress(self.Addr)}}}
}

// strandedTransport reaches nobody. The library only asks it how addresses are written.
func strandedTransport(self Peer) raft.Transport {
	_, transport := raft.NewInmemTransport(raft.ServerAddress(self.Addr))
	return transport
}

func quietLogger() raftLogger { return raftLogger{log: zerolog.Nop(), chatter: newChatter()} }

// Survivor is what a folder could bring back by Recover.
type Survivor struct {
	Self    Peer
	Cluster api.ClusterID
	Epoch   uint64
	Last    uint64 // index of its log's end
	Term    uint64 // that it has seen
	Members []Peer // of the quorum that it knows of
}

// Survey says what a folder holds, and changes nothing.
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
	config.LocalID, config.Logger = raft.ServerID(s.ID), quietLogger()
	servers, err := raft.GetConfiguration(config, m, f.logs, f.stable, f.snapshots, strandedTransport(found.Self))
	if err != nil {
		return found, err
	}
	for _, server := range servers.Servers {
		found.Members = append(found.Members, Peer{ID: api.MasterID(server.ID), Addr: string(server.Address)})
	}
	slices.SortFunc(found.Members, func(a, b Peer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	found.Term, _ = f.stable.GetUint64(currentTerm) // none: 0
	found.Last, err = f.replay(m)
	m.hashing.Wait()
	found.Epoch = max(m.show().Epoch, s.Epoch)
	return found, err
}

// replay applies what follows the snapshot, and returns where the log ends.
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

// Recover makes the folder's master the only voter, with everything in its log. What
// only the lost masters had is lost; what this one had and nobody had committed counts
// as committed. advertise is where it will be reached; "" is where it was.
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

// recovered is a registry whose snapshot, which the library takes once it has applied the
// whole log, is that of a cluster which begins anew.
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

// recover writes the epoch first: dying in between, the folder is as it was, or its
// next leadership has an epoch that nobody else has.
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
	config.LocalID, config.Logger = raft.ServerID(found.Self.ID), quietLogger()
	err := raft.RecoverCluster(config, recovered{m, at}, f.logs, f.stable, f.snapshots, strandedTransport(found.Self), onlyVoter(found.Self))
	m.hashing.Wait()
	return errors.Join(broken, err)
}
