package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

func (s *State) bootstrap(change Bootstrap) Result {
	if bad := refuseID("registry.bootstrap", "cluster ID", string(change.Cluster)); bad != nil {
		return *bad
	}
	if s.Cluster != "" && s.Cluster != change.Cluster {
		return refuse("registry.bootstrap", api.Exists, s.Cluster, "the cluster has its name; it never gets another")
	}
	s.Cluster = change.Cluster
	return Result{}
}

func (s *State) raiseEpoch(change RaiseEpoch) Result {
	if change.Epoch <= s.Epoch {
		return refuse("registry.epoch", api.Stale, "", "the epoch is %d already; it only grows", s.Epoch)
	}
	s.Epoch = change.Epoch
	return Result{}
}

func (s *State) raiseFormat(change RaiseFormat, at time.Time) Result {
	switch {
	case change.Format <= s.format():
		return refuse("registry.format", api.Stale, "", "the format is %d already; it only grows", s.format())
	case change.Format > Format:
		return refuse("registry.format", api.Unsupported, "", "format %d is unknown to this version, which knows up to %d", change.Format, Format)
	}
	if change.Format >= FormatBounded && !s.Knows(FormatBounded) {
		s.dateGone(at)
	}
	s.Format = change.Format
	return Result{}
}

// dateGone begins the time after which agents are forgotten that were marked gone before the
// registry knew when.
func (s *State) dateGone(at time.Time) {
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		if agent := s.Agents[id]; agent.Marks.Has(api.MarkGone) {
			agent.Gone = at
			s.setAgent(agent)
		}
	}
}

func (s *State) format() uint64 { return max(s.Format, 1) }

// Knows says whether all masters know a format, so that what it says may be used.
func (s *State) Knows(format uint64) bool { return s.format() >= format }

func (s *State) applySetMaster(change SetMaster) Result {
	if bad := refuseID("master.set", "master ID", string(change.ID)); bad != nil {
		return *bad
	}
	if _, known := s.Masters[change.ID]; !known && len(s.Masters) >= MastersMax {
		return refuse("master.set", api.Limit, change.ID, "%d masters are known; remove those that have left first", MastersMax)
	}
	s.setMaster(change.ID, change.Master)
	return Result{}
}

func (s *State) removeMaster(change RemoveMaster) Result {
	if _, known := s.Masters[change.ID]; !known {
		return refuse("master.remove", api.NotFound, change.ID, "no such master")
	}
	delete(writable(&s.Masters, &s.shared.masters), change.ID)
	return Result{}
}
