package raftlog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// How a folder becomes part of a quorum (R19).
//
// A founder (its own ID is among its peers) asks all of them until every one answers.
// If all are new, the cluster's ID is made from all their incarnations, so that each
// founder comes to the same one without another word. If some have founded already,
// we are a founder only if they did it with our incarnation: a folder that was
// emptied since has another one, and must not vote again.
//
// A joiner (not among its peers) asks until one answers that has a cluster, and waits
// there to be added.

const (
	askTimeout    = 2 * time.Second
	askAgainAfter = 100 * time.Millisecond
	// told about who is missing
	waitingLogEvery = 10 * time.Second
)

// admit returns when the folder belongs to a cluster.
func (l *Log) admit(ctx context.Context) error {
	if l.folder.settings.Cluster != "" {
		return nil
	}
	if l.alone() {
		return l.found([]founder{{Peer{l.id(), l.config.Advertise}, l.folder.settings.Incarnation}})
	}
	var told time.Time
	for {
		done, missing, err := l.askPeers(ctx)
		if done || err != nil {
			return err
		}
		if now := time.Now(); now.Sub(told) >= waitingLogEvery {
			told = now
			l.config.Logger.Info().Strs("missing", missing).Msg("waiting for the other masters")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgainAfter):
		}
	}
}

func (l *Log) alone() bool {
	peers := l.folder.settings.Peers
	return len(peers) == 0 || len(peers) == 1 && peers[0].ID == l.id()
}

func (l *Log) id() api.MasterID { return l.folder.settings.ID }

// askPeers asks everybody once.
func (l *Log) askPeers(ctx context.Context) (done bool, missing []string, err error) {
	self := l.folder.settings
	founders := []founder{}
	for _, peer := range self.Peers {
		if peer.ID == self.ID {
			founders = append(founders, founder{peer, self.Incarnation})
			continue
		}
		answer, err := l.network.ask(peer.Addr, askTimeout)
		switch {
		case ctx.Err() != nil:
			return false, nil, ctx.Err()
		case err != nil:
			missing = append(missing, fmt.Sprintf("%s=%s (%v)", peer.ID, peer.Addr, err))
			continue
		case answer.ID != peer.ID:
			return false, nil, api.E("master.found", api.Invalid, peer.Addr,
				fmt.Errorf("the peers call it %s, but master %s listens there", peer.ID, answer.ID))
		case answer.Cluster != "":
			return true, nil, l.meetCluster(answer)
		case l.founds() && peerList(answer.Peers) != peerList(self.Peers):
			return false, nil, api.E("master.found", api.Invalid, string(peer.ID),
				fmt.Errorf("its peers are %s, ours are %s; start all founders with the same list", peerList(answer.Peers), peerList(self.Peers)))
		}
		founders = append(founders, founder{peer, answer.Incarnation})
	}
	if len(missing) > 0 || !l.founds() {
		if !l.founds() {
			missing = append(missing, "a master of an existing cluster")
		}
		return false, missing, nil
	}
	return true, nil, l.found(founders)
}

// founds says whether we are among our own peers.
func (l *Log) founds() bool {
	return slices.ContainsFunc(l.folder.settings.Peers, func(p Peer) bool { return p.ID == l.id() })
}

// meetCluster decides what an empty folder is to a cluster that exists.
func (l *Log) meetCluster(answer about) error {
	self := &l.folder.settings
	if slices.ContainsFunc(answer.Founders, func(f founder) bool {
		return f.ID == self.ID && f.Incarnation == self.Incarnation
	}) {
		return l.found(answer.Founders)
	}
	for _, m := range answer.Members {
		if m.ID == self.ID && m.Voter {
			return api.E("master.found", api.Exists, string(self.ID), fmt.Errorf(
				"cluster %s has a master of this ID, but this data folder is empty: a master that lost its data must not vote again; "+
					"run `tender raft remove %s`, start it once more and run `tender raft add %s %s`",
				answer.Cluster, self.ID, self.ID, l.config.Advertise))
		}
	}
	self.Cluster = answer.Cluster
	l.config.Logger.Info().Str("cluster", string(self.Cluster)).Str("by", string(answer.ID)).
		Msgf("joining; if it was not added yet, run: tender raft add %s %s", self.ID, l.config.Advertise)
	return l.save()
}

// found writes down with whom we found the cluster, before Raft learns of it.
func (l *Log) found(founders []founder) error {
	slices.SortFunc(founders, func(a, b founder) int { return strings.Compare(string(a.ID), string(b.ID)) })
	sum := sha256.New()
	for _, f := range founders {
		fmt.Fprintf(sum, "%s %s\n", f.ID, f.Incarnation)
	}
	self := &l.folder.settings
	self.Founders = founders
	self.Cluster = api.ClusterID("cluster-" + hex.EncodeToString(sum.Sum(nil))[:12])
	l.config.Logger.Info().Str("cluster", string(self.Cluster)).Int("masters", len(founders)).Msg("cluster founded")
	return l.save()
}

// bootstrap gives Raft its first configuration, once.
func (l *Log) bootstrap(config *raft.Config, transport raft.Transport) error {
	self := &l.folder.settings
	exists, err := l.folder.hasState()
	if err != nil {
		return err
	}
	if !exists && !self.Voted && len(self.Founders) > 0 {
		var voters raft.Configuration
		for _, f := range self.Founders {
			voters.Servers = append(voters.Servers, raft.Server{ID: raft.ServerID(f.ID), Address: raft.ServerAddress(f.Addr)})
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
	return l.save()
}

// aboutUs answers who asks.
func (l *Log) aboutUs() about {
	l.mu.Lock()
	defer l.mu.Unlock()
	self := l.said
	self.Epoch = max(self.Epoch, l.machine.epoch())
	if l.raft == nil && l.voted {
		// Raft knows who is a member now, and it is not up yet.
		self.Refused = fmt.Sprintf("master %s is starting", self.ID)
		return self
	}
	for _, f := range self.Founders {
		self.Members = append(self.Members, member{f.Peer, true})
	}
	if l.raft != nil {
		self.Applied, self.Last = l.raft.AppliedIndex(), l.raft.LastIndex()
		self.Mark, _ = l.machine.mark()
		if servers := l.raft.GetConfiguration().Configuration().Servers; len(servers) > 0 {
			self.Members = l.reached(members(servers))
		}
	}
	return self
}

func members(servers []raft.Server) []member {
	list := make([]member, len(servers))
	for i, server := range servers {
		list[i] = member{Peer{api.MasterID(server.ID), string(server.Address)}, server.Suffrage == raft.Voter}
	}
	return list
}

func mintIncarnation() string { return rand.Text() }
