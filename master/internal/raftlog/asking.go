package raftlog

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// Missing says, while nobody leads, which masters answer and how many are needed. It is "" while somebody leads, when
// enough masters answer, or when this master has not looked yet.
func (l *Log) Missing() string {
	if r := l.runningRaft(); r != nil {
		if addr, _ := r.LeaderWithID(); addr != "" {
			return ""
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

func (l *Log) noteMissing(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing != what && what != "" {
		l.config.Logger.Warn().Str("why", what).Msg("nobody leads")
	}
	l.missing = what
}

// askAll asks all other members at the same time what they say about themselves.
func (l *Log) askAll(all []quorum.Member) quorum.Answers { return l.askEach(all, l.network.askMember) }

func (l *Log) askEach(all []quorum.Member, ask func(peer Peer, timeout time.Duration) (quorum.About, error)) quorum.Answers {
	var mu sync.Mutex
	answers := make(quorum.Answers)
	var asking sync.WaitGroup
	for _, peer := range all {
		if peer.ID == l.ID() {
			continue
		}
		asking.Go(func() {
			if answer, err := ask(peer.Peer, timings[l.config.Profile].election); err == nil && answer.ID == peer.ID {
				mu.Lock()
				answers[peer.ID] = answer
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return answers
}

// checkPlace finds out whether the quorum has continued without this master.
func (l *Log) checkPlace(r *life) error {
	if err := l.checkEpoch(r); err != nil {
		return err
	}
	if err := l.keepEpoch(); err != nil {
		return err
	}
	return l.checkMembership(r)
}

// checkMembership finds out, when nobody leads, whether this master was removed.
func (l *Log) checkMembership(r *life) error {
	if addr, _ := r.LeaderWithID(); addr != "" {
		l.noteMissing("")
		return nil
	}
	all := r.members()
	answers := l.askAll(all)
	there := func(peer Peer, timeout time.Duration) (quorum.About, error) { return l.network.ask(peer.Addr, timeout) }
	maps.Copy(answers, l.askEach(quorum.Elsewhere(all, l.config.Peers, l.Cluster(), answers), there))
	if quorum.IsRemoved(quorum.About{ID: l.id(), Incarnation: l.folder.settings.Incarnation, Cluster: l.Cluster(), Last: r.LastIndex()}, answers) {
		if err := l.checkEpoch(r); err != nil { // its error says more
			return err
		}
		return removed(l.id())
	}
	l.noteMissing(quorum.Missing(all, answers, l.id()))
	return nil
}

// beginAnew says how a master comes back with an empty folder, in a cluster with certificates and in one without.
const beginAnew = "empty its folder and start it with --join FILE, which `tender token create master` makes (without certificates: " +
	"with --peers naming the others, and run `tender raft add`)"

// howToComeBack says what a person can do with a master that was removed.
const howToComeBack = "to bring it back, " + beginAnew

func removed(id api.MasterID) error {
	return api.E("raft.run", api.Removed, string(id), fmt.Errorf("this master was removed from the quorum; %s", howToComeBack))
}

// keepEpoch writes down the registry's epoch when it is higher than the one in the settings, so that it is known at the
// next start.
func (l *Log) keepEpoch() error {
	if epoch := l.machine.epoch(); epoch > l.folder.settings.Epoch {
		l.folder.settings.Epoch = epoch
		return l.saveSettings()
	}
	return nil
}

// checkEpoch finds out whether the cluster was recovered or restored without this master. It asks once another master
// has named a newer epoch.
func (l *Log) checkEpoch(r *life) error {
	if !l.network.newer.Swap(false) {
		return nil
	}
	self := l.aboutUs()
	newest, found := quorum.Superseding(self, l.askAll(r.members()))
	if !found {
		return nil
	}
	return api.E("raft.run", api.Removed, string(l.id()), fmt.Errorf(
		"the cluster was recovered or restored without this master: %s is of its epoch %d, and this folder of epoch %d, so it was removed from the quorum; %s",
		newest.ID, newest.Epoch, self.Epoch, howToComeBack))
}
