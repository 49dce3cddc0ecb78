package raftlog

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/master/quorum"
)

// life is one run of the library: a Raft, and its end. Every future of it is answered at its end at the latest.
type life struct {
	*raft.Raft
	over chan struct{} // closed when Raft has ended, or has been given up

	reloading sync.Mutex // guards changes of Raft's settings
}

// leads reports whether we lead.
func (r *life) leads() bool { return r.State() == raft.Leader }

// follows reports whether we follow this leader in this term.
func (r *life) follows(leader raft.ServerID, term uint64) bool {
	_, id := r.LeaderWithID()
	return r.State() == raft.Follower && id == leader && r.CurrentTerm() == term
}

// serverID returns the name of a master in Raft's membership. It consists of the master's ID and the incarnation of its
// folder, so that whatever Raft decides about a member, it decides about this folder: another folder of the same ID is
// given no vote, and its vote is not counted. (Protocol rule R51.)
func serverID(id api.MasterID, incarnation string) raft.ServerID {
	return raft.ServerID(string(id) + "/" + incarnation)
}

// masterOf returns the ID and the incarnation that a name in Raft's membership consists of.
func masterOf(server raft.ServerID) (api.MasterID, string) {
	id, incarnation, _ := strings.Cut(string(server), "/")
	return api.MasterID(id), incarnation
}

// idOf returns the ID in a name of Raft's membership.
func idOf(server raft.ServerID) api.MasterID {
	id, _ := masterOf(server)
	return id
}

// server returns the name that a master has in our Raft's membership.
func (r *life) server(id api.MasterID) raft.ServerID {
	for _, m := range r.members() {
		if m.ID == id {
			return serverID(id, m.Incarnation)
		}
	}
	return serverID(id, "")
}

// hears reports whether messages of a master count for our Raft. While we hear from a living leader, only that leader
// and the members of the quorum count, because a master that was removed could end the leadership by naming a later
// term. When we hear from no leader, every master counts, because a master that is behind may not know yet who was
// added since. At worst such a new master is heard later by the time of an election. This does not protect against a
// member that lies.
func (r *life) hears(server raft.ServerID) bool {
	_, leader := r.LeaderWithID()
	isMeant := func(member raft.Server) bool { return member.ID == server }
	if leader == server || slices.ContainsFunc(r.GetConfiguration().Configuration().Servers, isMeant) {
		return true
	}
	switch r.State() {
	case raft.Leader:
		return false
	case raft.Follower:
		return leader == "" || time.Since(r.LastContact()) >= r.ReloadableConfig().ElectionTimeout
	case raft.Candidate, raft.Shutdown:
	}
	return true
}

// members returns the masters of the quorum, as our Raft knows them.
func (r *life) members() []quorum.Member {
	servers := r.GetConfiguration().Configuration().Servers
	list := make([]quorum.Member, len(servers))
	for i, server := range servers {
		id, incarnation := masterOf(server.ID)
		list[i] = quorum.Member{Peer: Peer{ID: id, Addr: string(server.Address)}, Incarnation: incarnation, Voter: server.Suffrage == raft.Voter}
	}
	return list
}

// view returns the present state of Raft in the form that package quorum needs.
func (r *life) view(self api.MasterID) quorum.View {
	addr, leader := r.LeaderWithID()
	return quorum.View{
		Self: self, Leader: Peer{ID: idOf(leader), Addr: string(addr)}, Follower: r.State() == raft.Follower,
		Term: r.CurrentTerm(), Last: r.LastIndex(), Members: r.members(),
	}
}

// reload changes some of Raft's settings.
func (r *life) reload(change func(*raft.ReloadableConfig)) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	config := r.ReloadableConfig()
	change(&config)
	err := r.ReloadConfig(config)
	invariant.Check(err == nil, "raft does not take its settings: %v", err)
}

func (r *life) apply(data []byte) raft.ApplyFuture { return endsWith(r.Raft.Apply(data, 0), r.over) }

func (r *life) barrier() raft.Future { return endsWith(r.Raft.Barrier(0), r.over) }

func (r *life) verify() raft.Future { return endsWith(r.Raft.VerifyLeader(), r.over) }

func (r *life) snapshot() raft.Future { return endsWith(raft.Future(r.Raft.Snapshot()), r.over) }

func (r *life) addNonvoter(peer Peer, incarnation string) raft.Future {
	return endsWith(r.Raft.AddNonvoter(serverID(peer.ID, incarnation), raft.ServerAddress(peer.Addr), 0, 0), r.over)
}

// addVoter makes a member a voter, or changes its address.
func (r *life) addVoter(peer Peer) raft.Future {
	return endsWith(r.Raft.AddVoter(r.server(peer.ID), raft.ServerAddress(peer.Addr), 0, 0), r.over)
}

func (r *life) remove(id api.MasterID) raft.Future {
	return endsWith(r.Raft.RemoveServer(r.server(id), 0, 0), r.over)
}

// handOver gives leadership to a voter, or to the most up-to-date one if none is named.
func (r *life) handOver(to Peer) raft.Future {
	if to.ID == "" {
		return endsWith(r.Raft.LeadershipTransfer(), r.over)
	}
	return endsWith(r.Raft.LeadershipTransferToServer(r.server(to.ID), raft.ServerAddress(to.Addr)), r.over)
}

// endsWith makes a future answer raft.ErrRaftShutdown once over is closed. When the library ends it forgets what waits
// in its queues, so whoever waits for such a future would wait as long as the process lives. Only some futures of the
// library have a channel that tells them when to give up; the others answer at once.
func endsWith[F raft.Future](future F, over chan struct{}) F {
	value := reflect.Indirect(reflect.ValueOf(future))
	if value.Kind() == reflect.Struct {
		if end := value.FieldByName("ShutdownCh"); end.CanSet() {
			end.Set(reflect.ValueOf(over))
		}
	}
	return future
}

// await waits for a future of a life, or for the end of ctx.
func await(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // ends with Raft at the latest
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patienceWithRaft is how long the end of a leadership, or of Raft, waits for the library. After that it stops waiting:
// a process that can't end Raft has to end itself.
const patienceWithRaft = 10 * time.Second

// settled waits for a future, but only for patienceWithRaft, because Run's goroutine calls it.
func settled(future raft.Future) error {
	ctx, cancel := context.WithTimeout(context.Background(), patienceWithRaft)
	defer cancel()
	return await(ctx, future)
}

// end ends Raft, and answers everybody who waits for it.
func (r *life) end(id api.MasterID) error {
	ended := within(patienceWithRaft, func() { _ = r.Shutdown().Error() })
	close(r.over)
	if !ended {
		return api.E("raft.stop", api.Internal, string(id), errors.New("raft does not end; this process must"))
	}
	return nil
}

// within runs do and reports whether it returned in time.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
