package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Bootstrap names the cluster, once.
type Bootstrap struct{ Cluster api.ClusterID }

func (change Bootstrap) apply(s *State, _ time.Time) Result {
	if bad := refuseID("registry.bootstrap", "cluster ID", string(change.Cluster)); bad != nil {
		return *bad
	}
	if s.Cluster != "" && s.Cluster != change.Cluster {
		return refuse("registry.bootstrap", api.Exists, s.Cluster, "the cluster has its name; it never gets another")
	}
	s.Cluster = change.Cluster
	return Result{}
}

func (Bootstrap) saw() sight { return blind("a cluster gets its name once; another one is refused") }

func (Bootstrap) onlyKept() {}

// RaiseEpoch starts a new epoch, after a restore or a recovery.
type RaiseEpoch struct{ Epoch uint64 }

func (change RaiseEpoch) apply(s *State, _ time.Time) Result {
	if change.Epoch <= s.Epoch {
		return refuse("registry.epoch", api.Stale, "", "the epoch is %d already; it only grows", s.Epoch)
	}
	s.Epoch = change.Epoch
	return Result{}
}

func (RaiseEpoch) saw() sight { return blind("an epoch only grows; an older one is refused") }

func (RaiseEpoch) onlyKept() {}

// RaiseFormat allows what a newer format introduces, because all masters can read it.
type RaiseFormat struct{ Format uint64 }

func (change RaiseFormat) apply(s *State, _ time.Time) Result {
	switch {
	case change.Format <= s.format():
		return refuse("registry.format", api.Stale, "", "the format is %d already; it only grows", s.format())
	case change.Format > Format:
		return refuse("registry.format", api.Unsupported, "", "format %d is unknown to this version, which knows up to %d", change.Format, Format)
	}
	s.Format = change.Format
	return Result{}
}

func (RaiseFormat) saw() sight { return blind("a format only grows; an older one is refused") }

func (RaiseFormat) onlyKept() {}

func (s *State) format() uint64 { return max(s.Format, 1) }

// SetMaster records a master's addresses and allocator.
type SetMaster struct {
	ID     api.MasterID
	Master Master
}

func (change SetMaster) apply(s *State, _ time.Time) Result {
	if bad := refuseID("master.set", "master ID", string(change.ID)); bad != nil {
		return *bad
	}
	if _, known := s.Masters[change.ID]; !known && len(s.Masters) >= MastersMax {
		return refuse("master.set", api.Limit, change.ID, "%d masters are known; remove those that have left first", MastersMax)
	}
	writable(&s.Masters, &s.shared.masters)[change.ID] = change.Master
	return Result{}
}

func (SetMaster) saw() sight { return blind("a master says it of itself; what it said last is right") }

// RemoveMaster forgets a master that left the quorum.
type RemoveMaster struct{ ID api.MasterID }

func (change RemoveMaster) apply(s *State, _ time.Time) Result {
	if _, known := s.Masters[change.ID]; !known {
		return refuse("master.remove", api.NotFound, change.ID, "no such master")
	}
	delete(writable(&s.Masters, &s.shared.masters), change.ID)
	return Result{}
}

func (RemoveMaster) saw() sight {
	return blind("Raft's membership says who is a master; this only forgets the addresses of one")
}

// CheckHash says which hash the registries of the majority had after an entry of the log. It changes nothing. A master
// that had another hash stops.
type CheckHash struct {
	Index uint64
	Hash  string
}

func (CheckHash) apply(*State, time.Time) Result { return Result{} }

func (CheckHash) saw() sight {
	return blind("it states what was at an index of the log, and changes nothing")
}

func (CheckHash) onlyKept() {}
