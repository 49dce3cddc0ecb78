package raftlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/master/quorum"
)

const (
	askTimeout    = 2 * time.Second
	askAgainAfter = 100 * time.Millisecond
	// waitingLogEvery is how often the log says who is missing.
	waitingLogEvery = 10 * time.Second
)

// awaitAdmission returns when the folder belongs to a cluster. Package quorum decides when that is (R19).
func (l *Log) awaitAdmission(ctx context.Context) error {
	self := &l.folder.settings
	if self.Cluster != "" {
		return nil
	}
	founding := quorum.Founding{
		Self: quorum.Founder{Peer: Peer{ID: self.ID, Addr: l.config.Advertise}, Incarnation: self.Incarnation}, Peers: self.Peers,
	}
	var told time.Time
	for step := founding.Begin(); ; {
		var err error
		switch {
		case step.Found != nil:
			return l.writeFounders(step.Found)
		case step.Join != "":
			return l.writeJoin(step)
		case step.Ask != nil:
			answer, silent := l.network.ask(step.Ask.Addr, askTimeout)
			if ctx.Err() == nil {
				step, err = founding.Answered(answer, silent)
			}
		default:
			if now := time.Now(); now.Sub(told) >= waitingLogEvery {
				told = now
				l.config.Logger.Info().Strs("missing", step.Wait).Msg("waiting for the other masters")
			}
			pause.For(ctx, askAgainAfter)
			step = founding.Begin()
		}
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
	}
}

func (l *Log) id() api.MasterID { return l.folder.settings.ID }

// ownServer returns the name of this master in Raft's membership.
func (l *Log) ownServer() raft.ServerID {
	return serverID(l.folder.settings.ID, l.folder.settings.Incarnation)
}

// writeJoin writes down the cluster to which this master waits to be added, and its epoch, so that this master refuses
// folders of an older one from its first vote on.
func (l *Log) writeJoin(step quorum.FoundingStep) error {
	self := &l.folder.settings
	self.Cluster, self.Epoch = step.Join, step.Epoch
	l.config.Logger.Info().Str("cluster", string(step.Join)).Str("by", string(step.Through)).
		Msgf("joining; if it was not added yet, run: tender raft add %s %s", self.ID, l.config.Advertise)
	return l.saveSettings()
}

// writeFounders writes down the founders of the cluster, before Raft is told.
func (l *Log) writeFounders(founders []quorum.Founder) error {
	self := &l.folder.settings
	self.Cluster, self.Founders = quorum.ClusterOf(founders), founders
	l.config.Logger.Info().Str("cluster", string(self.Cluster)).Int("masters", len(founders)).Msg("cluster founded")
	return l.saveSettings()
}

// bootstrapRaft gives Raft its first configuration, once.
func (l *Log) bootstrapRaft(config *raft.Config, transport raft.Transport) error {
	self := &l.folder.settings
	exists, err := l.folder.hasState()
	if err != nil {
		return err
	}
	if !exists && !self.Voted && len(self.Founders) > 0 {
		var voters raft.Configuration
		for _, f := range self.Founders {
			voters.Servers = append(voters.Servers, raft.Server{ID: serverID(f.ID, f.Incarnation), Address: raft.ServerAddress(f.Addr)})
		}
		if err := raft.BootstrapCluster(config, l.folder.logs, l.folder.stable, l.folder.snapshots, transport, voters); err != nil {
			return err
		}
		l.founded = true
	}
	if self.Voted {
		return nil
	}
	self.Voted = true
	return l.saveSettings()
}

// aboutUs returns what this master says about itself when others ask.
func (l *Log) aboutUs() quorum.About {
	l.mu.Lock()
	defer l.mu.Unlock()
	self := l.said
	self.Epoch = max(self.Epoch, l.machine.epoch())
	if l.raft == nil && l.voted {
		// Raft knows who the members are now, and it has not started yet.
		self.Refused = fmt.Sprintf("master %s is starting", self.ID)
		return self
	}
	for _, f := range self.Founders {
		self.Members = append(self.Members, quorum.Member{Peer: f.Peer, Incarnation: f.Incarnation, Voter: true})
	}
	if l.raft != nil {
		self.Applied, self.Last = l.raft.AppliedIndex(), l.raft.LastIndex()
		self.Mark, _ = l.machine.mark()
		self.Standing = l.raft.State() == raft.Candidate
		if all := l.raft.members(); len(all) > 0 {
			self.Members = l.reachedMembers(all)
		}
	}
	return self
}

func mintIncarnation() string { return rand.Text() }
