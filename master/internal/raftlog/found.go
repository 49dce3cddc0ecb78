package raftlog

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/master/quorum"
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
			return l.self.writeFounders(step.Found)
		case step.Join != "":
			return l.self.writeJoin(step)
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

// bootstrapRaft gives Raft its first configuration, once. founded says that this has founded the cluster, so that nobody
// leads yet.
func (l *Log) bootstrapRaft(config *raft.Config, transport raft.Transport) (founded bool, err error) {
	self := &l.folder.settings
	exists, err := l.folder.hasState()
	if err != nil {
		return false, err
	}
	if !exists && !self.Voted && len(self.Founders) > 0 {
		var voters raft.Configuration
		for _, f := range self.Founders {
			voters.Servers = append(voters.Servers, raft.Server{ID: serverID(f.ID, f.Incarnation), Address: raft.ServerAddress(f.Addr)})
		}
		if err := raft.BootstrapCluster(config, l.folder.logs, l.folder.stable, l.folder.snapshots, transport, voters); err != nil {
			return false, err
		}
		founded = true
	}
	if self.Voted {
		return founded, nil
	}
	self.Voted = true
	return founded, l.self.save()
}

const (
	askTimeout    = 2 * time.Second
	askAgainAfter = 100 * time.Millisecond
	// waitingLogEvery is how often the log says who is missing.
	waitingLogEvery = 10 * time.Second
)
