package raftlog

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/master/quorum"
)

// Status is what this master knows about the quorum.
type Status struct {
	State   string // leader, follower, candidate, starting
	Leader  api.MasterID
	Term    uint64
	Applied uint64
	Last    uint64
	Members []Member
	// Incarnation is that of this master's own folder (R51).
	Incarnation string
}

// Member is one master of the quorum.
type Member struct {
	Peer
	Role        string // leader, voter or non-voter
	Incarnation string // of the folder that is the member (R51)
	// Silent is since when the master has not answered this one, which leads; zero: it answers.
	Silent time.Time
}

// Members is who belongs to the quorum, and who leads it: for those who ask, and for operators who change it. Any
// goroutine may call it.
type Members struct {
	config  *Config
	machine *machine
	network *network
	loop    *loop
	self    *identity
	engine  *engine
	others  *others
	reign   *reign
	place   *place
}

// Status returns what Raft says now.
func (m *Members) Status() Status {
	said, _ := m.self.saved()
	status := Status{State: "starting", Incarnation: said.Incarnation}
	r := m.engine.running()
	if r == nil {
		return status
	}
	_, leader := r.LeaderWithID()
	status.Leader = idOf(leader)
	status.Term = r.CurrentTerm()
	status.Applied, status.Last = r.AppliedIndex(), r.LastIndex()
	switch r.State() {
	case raft.Leader:
		status.State = "leader"
	case raft.Candidate:
		status.State = "candidate"
	default:
		status.State = "follower"
	}
	for _, listed := range r.members() {
		role := "voter"
		switch {
		case listed.ID == status.Leader:
			role = "leader"
		case !listed.Voter:
			role = "non-voter"
		}
		member := Member{Peer: listed.Peer, Role: role, Incarnation: listed.Incarnation}
		if status.State == "leader" {
			member.Silent = m.others.silentSince(member.ID)
		}
		status.Members = append(status.Members, member)
	}
	return status
}

// LeaderInTerm returns the leader as far as this master knows, and its Raft term; "" when it does not know.
func (m *Members) LeaderInTerm() (api.MasterID, uint64) {
	r := m.engine.running()
	if r == nil {
		return "", 0
	}
	_, before := r.LeaderWithID()
	term := r.CurrentTerm()
	if _, after := r.LeaderWithID(); after != before {
		return "", 0 // the leader is just changing
	}
	return idOf(before), term
}

// leadingRaft returns Raft if this master leads.
func (m *Members) leadingRaft(op string) (*life, error) {
	if r := m.engine.running(); r != nil && r.leads() {
		return r, nil
	}
	return nil, api.E(op, api.NotLeader, m.self.id(), errors.New("another master leads"))
}

// caughtUpWithin is how many entries a new master may be behind when it becomes a voter.
const caughtUpWithin = 64

// Add adds a master that waits at its address as a non-voter, and makes it a voter once it has caught up. If ctx
// ends before that, it stays a non-voter, and the same call continues where this one stopped.
func (m *Members) Add(ctx context.Context, peer Peer) error {
	const op = "raft.add"
	r, err := m.leadingRaft(op)
	if err != nil {
		return err
	}
	incarnation, err := m.checkNewPeer(ctx, r, peer)
	if err != nil {
		return api.E(op, api.KindOf(err), peer.ID, err)
	}
	if err := await(ctx, r.addNonvoter(peer, incarnation)); err != nil {
		return m.noteChanged(op, peer.ID, err)
	}
	for {
		answer, err := m.network.ask(peer.Addr, askTimeout)
		if err == nil && answer.ID == peer.ID && answer.Incarnation == incarnation && answer.Applied+caughtUpWithin >= r.CommitIndex() {
			break
		}
		if pause.For(ctx, askAgainAfter); ctx.Err() != nil {
			return api.E(op, api.Unavailable, peer.ID, behind(answer.Applied, r.CommitIndex(), err))
		}
	}
	return m.noteChanged(op, peer.ID, await(ctx, r.addVoter(peer)))
}

// behind returns why a new master has no vote yet. err is the error of the last question to it.
func behind(applied, committed uint64, err error) error {
	if err != nil {
		return fmt.Errorf("it is a non-voter and does not tell how far it is (%w); run the same command again", err)
	}
	return fmt.Errorf("it is a non-voter and has not caught up yet (%d of %d entries); run the same command again", applied, committed)
}

// checkNewPeer says why a master may not be added. It returns the incarnation of the folder that answers there.
func (m *Members) checkNewPeer(ctx context.Context, r *life, peer Peer) (incarnation string, err error) {
	_, listed := masterOf(r.server(peer.ID))
	if _, err := quorum.CheckListed(peer, listed, r.members()); err != nil {
		return "", err // whether it answers or not
	}
	answer, err := m.network.ask(peer.Addr, askTimeout)
	for tries := 0; tries < joinTriesMax && isComing(answer, err, tries); tries++ {
		pause.For(ctx, askAgainAfter)
		answer, err = m.network.ask(peer.Addr, askTimeout)
	}
	if err != nil {
		return "", api.E("", api.Unavailable, peer.Addr,
			fmt.Errorf("no master answers there; start it first with --peers naming this cluster's masters: %w", err))
	}
	if known, err := quorum.CheckListed(peer, answer.Incarnation, r.members()); known || err != nil {
		return answer.Incarnation, err
	}
	return answer.Incarnation, quorum.CheckNew(peer, answer, m.others.aboutUs(), m.machine.format())
}

// isComing reports whether a new master that has been asked so often before is still asking the others, or is about to
// start.
func isComing(answer quorum.About, err error, tries int) bool {
	starting := refused("")
	switch {
	case err == nil:
		return answer.Cluster == ""
	case errors.As(err, &starting):
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) && tries < startTriesMax
}

const (
	// joinTriesMax times askAgainAfter is how long a new master may take to find us.
	joinTriesMax = 50
	// startTriesMax times askAgainAfter is how long its process may take to listen.
	startTriesMax = 20
)

// Removal names a master that is to be removed from the quorum.
type Removal struct {
	ID api.MasterID
	// Force removes it even if most of those that are left do not answer, so that nobody leads until they do.
	Force bool
	// First is called once it is clear that the master may be removed, and before it is; its error ends the removal.
	// Nil: nothing comes first.
	First func() error
}

// Remove removes a master from the quorum. Its process ends when it learns of that. costs says what was accepted by
// force; "" if nothing was.
func (m *Members) Remove(ctx context.Context, removal Removal) (costs string, err error) {
	id := removal.ID
	const op = "raft.remove"
	r, err := m.leadingRaft(op)
	if err != nil {
		return "", err
	}
	members := r.members()
	if costs, err = quorum.CheckRemoval(op, id, m.self.id(), members, m.others.askAll(members), removal.Force); err != nil {
		return "", err
	}
	if removal.First != nil {
		if err := removal.First(); err != nil {
			return "", err
		}
	}
	err = await(ctx, r.remove(id))
	if err != nil && costs != "" {
		err = fmt.Errorf("%w; %s", err, costs)
	}
	return costs, m.noteChanged(op, id, err)
}

func (m *Members) noteChanged(op string, id api.MasterID, err error) error {
	switch {
	case err == nil:
		m.config.Logger.Info().Str("master", string(id)).Msg(op)
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return api.E(op, api.NotLeader, id, err)
	}
	return api.E(op, api.Unknown, id, err)
}

// Transfer hands leadership to another voter; "" means the most up-to-date one. It can be done only once in a
// term (P3). So it first asks who can take over, and changes nothing while nobody can.
func (m *Members) Transfer(ctx context.Context, to api.MasterID) error {
	const op = "raft.transfer"
	r, err := m.leadingRaft(op)
	if err != nil {
		return err
	}
	if voters := m.others.otherVoters(r, to); len(voters) > 0 {
		next, err := m.awaitWhoTakesOver(ctx, r, voters)
		switch {
		case err == nil:
			to = next.ID
		case r.leads():
			return api.E(op, api.Unavailable, to, fmt.Errorf("%s leads on: %w", m.self.id(), err))
		}
	}
	answer := make(chan error, 1)
	request := func(r *life) { answer <- m.reign.transfer(r, to) }
	select {
	case m.loop.requests <- request:
	case <-r.over:
		return api.E(op, api.NotLeader, to, raft.ErrRaftShutdown)
	case <-ctx.Done():
		return api.E(op, api.Unavailable, to, ctx.Err())
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return api.E(op, api.Unknown, to, ctx.Err())
	}
}

// takeOverPatience is how long a transfer waits for a master that can take over: about as long as a candidate stands.
const takeOverPatience = 2 * time.Second

// awaitWhoTakesOver asks until a voter can take over, we no longer lead, or the time for it is over.
func (m *Members) awaitWhoTakesOver(ctx context.Context, r *life, voters []quorum.Member) (Peer, error) {
	for began := time.Now(); ; {
		next, err := m.others.askWhoTakesOver(voters)
		if err == nil || time.Since(began) >= takeOverPatience || !r.leads() {
			return next, err
		}
		if pause.For(ctx, askAgainAfter); ctx.Err() != nil {
			return Peer{}, err
		}
	}
}

// Missing says, while nobody leads, which masters answer and how many are needed. It is "" while somebody leads, when
// enough masters answer, or when this master has not looked yet.
func (m *Members) Missing() string {
	if r := m.engine.running(); r != nil {
		if addr, _ := r.LeaderWithID(); addr != "" {
			return ""
		}
	}
	return m.place.whatIsMissing()
}
