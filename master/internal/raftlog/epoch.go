package raftlog

import (
	"fmt"

	"github.com/tenderhq/tender/api"
)

// A recovered or restored quorum and the masters that it was made without are of one cluster, know each other's
// addresses, and speak the same Raft: a majority of the lost ones that is started again would elect a leader, and that
// leader would overwrite the log of the recovered one. The epoch tells them apart. (Protocol rule R1.)
//
// An epoch alone does not make a master old: one that joins has not heard of the epoch yet. So only who is no member is
// refused. And a follower that lags does not know all members: so who is told of a newer epoch asks everybody before it
// ends.

// ofThePast says that a master greets us which the quorum of our epoch was made without.
func ofThePast(hello greeting, self about) bool {
	return hello.Epoch < self.Epoch && len(self.Members) > 0 && !isMember(self.Members, hello.From)
}

// supersedes says that a master is of a newer epoch of our cluster, and that we are no member there.
func (a about) supersedes(self about) bool {
	return a.Cluster == self.Cluster && self.Cluster != "" && a.Epoch > self.Epoch && len(a.Members) > 0 && !isMember(a.Members, self.ID)
}

// keepEpoch writes down the epoch that the registry has come to, so that it is known at the next start.
func (l *Log) keepEpoch() error {
	if epoch := l.machine.epoch(); epoch > l.folder.settings.Epoch {
		l.folder.settings.Epoch = epoch
		return l.save()
	}
	return nil
}

// checkEpoch finds out whether the cluster has gone on without us, once somebody has said so.
func (l *Log) checkEpoch(r *life) error {
	if !l.network.newer.Swap(false) {
		return nil
	}
	self, newest := l.aboutUs(), about{}
	for _, answer := range l.askAll(members(r.GetConfiguration().Configuration().Servers)) {
		switch {
		case answer.Cluster != self.Cluster || answer.Epoch <= self.Epoch:
		case isMember(answer.Members, self.ID):
			return nil // it only lags, or we do
		case answer.Epoch > newest.Epoch && answer.supersedes(self):
			newest = answer
		}
	}
	if newest.ID == "" {
		return nil
	}
	return api.E("raft.run", api.Removed, string(l.id()), fmt.Errorf(
		"the cluster was recovered or restored without this master: %s is of its epoch %d, and this folder of epoch %d, so it was removed from the quorum; "+
			"to bring it back, empty its folder, start it with --peers naming the others, and run `tender raft add`", newest.ID, newest.Epoch, self.Epoch))
}
