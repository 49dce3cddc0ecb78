package raftlog

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// place is whether this master still belongs to the quorum, and why nobody leads while nobody does. It only finds out:
// Run ends with its errors.
type place struct {
	config  *Config
	folder  *folder // Run's goroutine only
	machine *machine
	network *network
	self    *identity
	others  *others

	mu      sync.Mutex
	missing string // why nobody can lead, as of our last look; guarded by mu
}

// noteMissing remembers why nobody can lead, and logs it when it is new.
func (p *place) noteMissing(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missing != what && what != "" {
		p.config.Logger.Warn().Str("why", what).Msg("nobody leads")
	}
	p.missing = what
}

// whatIsMissing returns why nobody could lead at our last look; "" if somebody could.
func (p *place) whatIsMissing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// check finds out whether the quorum has continued without this master.
func (p *place) check(r *life) error {
	if err := p.checkEpoch(r); err != nil {
		return err
	}
	if err := p.keepEpoch(); err != nil {
		return err
	}
	return p.checkMembership(r)
}

// checkMembership finds out, when nobody leads, whether this master was removed.
func (p *place) checkMembership(r *life) error {
	if addr, _ := r.LeaderWithID(); addr != "" {
		p.noteMissing("")
		return nil
	}
	all := r.members()
	answers := p.others.askAll(all)
	there := func(peer Peer, timeout time.Duration) (quorum.About, error) { return p.network.ask(peer.Addr, timeout) }
	maps.Copy(answers, p.others.askEach(quorum.Elsewhere(all, p.config.Peers, p.self.cluster(), answers), there))
	if quorum.IsRemoved(quorum.About{ID: p.self.id(), Incarnation: p.folder.settings.Incarnation, Cluster: p.self.cluster(), Last: r.LastIndex()}, answers) {
		if err := p.checkEpoch(r); err != nil { // its error says more
			return err
		}
		return removed(p.self.id())
	}
	p.noteMissing(quorum.Missing(all, answers, p.self.id()))
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
func (p *place) keepEpoch() error {
	if epoch := p.machine.epoch(); epoch > p.folder.settings.Epoch {
		p.folder.settings.Epoch = epoch
		return p.self.save()
	}
	return nil
}

// checkEpoch finds out whether the cluster was recovered or restored without this master. It asks once another master
// has named a newer epoch.
func (p *place) checkEpoch(r *life) error {
	if !p.network.newer.Swap(false) {
		return nil
	}
	self := p.others.aboutUs()
	newest, found := quorum.Superseding(self, p.others.askAll(r.members()))
	if !found {
		return nil
	}
	return api.E("raft.run", api.Removed, string(p.self.id()), fmt.Errorf(
		"the cluster was recovered or restored without this master: %s is of its epoch %d, and this folder of epoch %d, so it was removed from the quorum; %s",
		newest.ID, newest.Epoch, self.Epoch, howToComeBack))
}
