package raftlog

import (
	"crypto/rand"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// identity is who this master is: the settings of its folder, and what others are told of them. Nobody is told what is
// not written. It knows nothing of Raft, nor of what other masters say.
type identity struct {
	config *Config
	folder *folder // its settings belong to Run's goroutine

	mu    sync.Mutex
	said  quorum.About // guarded by mu
	voted bool         // guarded by mu
}

// saved returns what this master says about itself by its settings, and whether Raft has run in its folder.
func (s *identity) saved() (said quorum.About, voted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said, s.voted
}

// save writes the settings, and only then lets others be told what they say.
func (s *identity) save() error {
	if err := s.folder.save(); err != nil {
		return wrap("raft.save", s.config.Dir, howToMakeRoom(s.config.Dir, err))
	}
	saved := s.folder.settings
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voted = saved.Voted
	s.said = quorum.About{
		ID: saved.ID, Cluster: saved.Cluster, Epoch: saved.Epoch, Incarnation: saved.Incarnation, Format: s.config.Format, Version: s.config.Version,
		Peers: append([]Peer(nil), saved.Peers...), Founders: append([]quorum.Founder(nil), saved.Founders...),
	}
	return nil
}

// id returns this master's ID.
func (s *identity) id() api.MasterID {
	said, _ := s.saved()
	return said.ID
}

// cluster returns the cluster to which this folder belongs; "" until it is founded or joined.
func (s *identity) cluster() api.ClusterID {
	said, _ := s.saved()
	return said.Cluster
}

// server returns the name of this master in Raft's membership.
func (s *identity) server() raft.ServerID {
	return serverID(s.folder.settings.ID, s.folder.settings.Incarnation)
}

// writeJoin writes down the cluster to which this master waits to be added, and its epoch, so that this master refuses
// folders of an older one from its first vote on.
func (s *identity) writeJoin(step quorum.FoundingStep) error {
	self := &s.folder.settings
	self.Cluster, self.Epoch = step.Join, step.Epoch
	s.config.Logger.Info().Str("cluster", string(step.Join)).Str("by", string(step.Through)).
		Msgf("joining; if it was not added yet, run: tender raft add %s %s", self.ID, s.config.Advertise)
	return s.save()
}

// writeFounders writes down the founders of the cluster, before Raft is told.
func (s *identity) writeFounders(founders []quorum.Founder) error {
	self := &s.folder.settings
	self.Cluster, self.Founders = quorum.ClusterOf(founders), founders
	s.config.Logger.Info().Str("cluster", string(self.Cluster)).Int("masters", len(founders)).Msg("cluster founded")
	return s.save()
}

func mintIncarnation() string { return rand.Text() }
