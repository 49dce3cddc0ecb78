package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/view"
)

// masters is what this master does with the others of its quorum: it tells the leader its addresses, asks to be added,
// lists them with how they do, and looks after them while it leads.
type masters struct {
	config    *Config
	log       *zerolog.Logger
	raft      *raftlog.Log
	listeners *listeners
	leading   *leadership
	proof     *proof
	saver     *saver

	standings atomic.Pointer[map[string]standing] // of the other masters, while this one leads
}

// list combines what Raft and the registry know of the masters. Every master gives the same list, except for the
// members that do not answer, which only the leader knows.
func (o *masters) list(r *apiv1.ListRequest) *apiv1.ListMastersResponse {
	status, state := o.raft.Members.Status(), o.raft.Outline()
	views := map[api.MasterID]*apiv1.MasterView{}
	for _, member := range status.Members {
		known := state.Masters[member.ID]
		view := &apiv1.MasterView{
			Id: string(member.ID), State: member.Role, GrpcAddress: known.GRPC, HttpAddress: known.HTTP, RaftAddress: member.Addr,
			Version: known.Version, Allocator: known.Allocator, Incarnation: member.Incarnation,
		}
		if member.Role == "voter" {
			view.State = "follower"
		}
		if !member.Silent.IsZero() {
			view.State, view.Since, view.Why = "unreachable", wire.TimeToProto(member.Silent), "it does not answer the leader"
		}
		if member.ID == o.config.ID {
			view.AppliedIndex, view.Why = status.Applied, o.sick()
		}
		views[member.ID] = view
	}
	if leader := views[status.Leader]; leader != nil {
		for _, view := range views {
			if view.Allocator != "" && leader.Allocator != "" && view.Allocator != leader.Allocator {
				view.Why = "its allocator differs from the leader's: when it leads, offers follow another policy"
			}
		}
	}
	page := view.List(queryOf(r), maps.Values(views), (*apiv1.MasterView).GetId, (*apiv1.MasterView).GetState)
	answer := &apiv1.ListMastersResponse{Items: page.Items, NextPageToken: page.Next}
	if o.leading.now.Load() == nil {
		answer.AppliedIndex = state.Index
	}
	return answer
}

// addresses returns the gRPC addresses of the masters in the quorum, as far as the registry has them, ordered by master
// ID.
func (o *masters) addresses() (all []string) {
	status, state := o.raft.Members.Status(), o.raft.Outline()
	for _, member := range slices.SortedFunc(slices.Values(status.Members), func(a, b raftlog.Member) int { return cmp.Compare(a.ID, b.ID) }) {
		if address := state.Masters[member.ID].GRPC; address != "" {
			all = append(all, address)
		}
	}
	return all
}

const (
	// lagMax is how many entries a follower may be behind without the list saying so.
	lagMax = 10_000
	// askProgressTimeout bounds the time for asking all followers for one list.
	askProgressTimeout = time.Second
)

// askProgress asks the other masters which log entry they have applied last, and of their snapshots. Of a master that does
// not answer the list has neither.
func (o *masters) askProgress(ctx context.Context, views []*apiv1.MasterView) {
	ctx, cancel := context.WithTimeout(ctx, askProgressTimeout)
	defer cancel()
	reached := o.raft.Members.Status().Applied
	var asked sync.WaitGroup
	for _, view := range views {
		if view.GetId() == string(o.config.ID) {
			view.Snapshot = o.saver.view()
			continue
		}
		if view.GetGrpcAddress() == "" || view.GetState() == "unreachable" {
			continue
		}
		asked.Go(func() { o.askOne(ctx, view, reached) })
	}
	asked.Wait()
}

func (o *masters) askOne(ctx context.Context, view *apiv1.MasterView, reached uint64) {
	conn, err := o.proof.dialMaster(view.GetGrpcAddress())
	if err != nil {
		return
	}
	defer conn.Close()
	answer, err := apiv1.NewRaftServiceClient(conn).ListPeers(ctx, &apiv1.ListPeersRequest{})
	if err != nil {
		view.Why = cmp.Or(view.Why, "it does not say how far it has come")
		return
	}
	view.AppliedIndex, view.Snapshot = answer.GetAppliedIndex(), answer.GetSnapshot()
	switch {
	case answer.GetWhy() != "":
		view.Why = answer.GetWhy()
	case view.Why == "":
		view.Why = lagging(view.GetAppliedIndex(), reached)
	}
}

// sick says what is wrong with this master itself; "" when nothing is known to be wrong.
func (o *masters) sick() string {
	if why := o.raft.Disk(); why != "" {
		return "its disk takes no writes, so it neither votes nor follows: " + why
	}
	return ""
}

// lookEvery is how often a leader checks the other masters, for its log and its metrics.
const lookEvery = 10 * time.Second

// standing is the result of the leader's last check of another master.
type standing struct {
	lag uint64 // entries that it is behind
	why string // what is wrong with it; "" = nothing
}

// lookAfter checks the other masters until ctx ends, and logs which of them have trouble.
func (o *masters) lookAfter(ctx context.Context) {
	defer o.standings.Store(nil)
	before := map[string]standing{}
	for pause.For(ctx, lookEvery) {
		found := map[string]standing{}
		views := o.list(&apiv1.ListRequest{}).GetItems()
		o.askProgress(ctx, views)
		if ctx.Err() != nil {
			return
		}
		reached := o.raft.Members.Status().Applied
		for _, view := range views {
			if view.GetId() == string(o.config.ID) {
				continue
			}
			now := standing{why: view.GetWhy(), lag: before[view.GetId()].lag}
			if applied := view.GetAppliedIndex(); applied > 0 {
				now.lag = reached - min(reached, applied)
			}
			found[view.GetId()] = now
			switch was := before[view.GetId()].why; {
			case now.why != "" && was == "":
				o.log.Warn().Str("of", view.GetId()).Str("why", now.why).Msg("another master is unhealthy")
			case now.why == "" && was != "":
				o.log.Info().Str("of", view.GetId()).Msg("another master is healthy again")
			}
		}
		before = found
		o.standings.Store(&found)
	}
}

// refusedFor is for how long the list shows that somebody's version was refused.
const refusedFor = 10 * time.Minute

// tellRefused adds to the leader's row whose version was refused lately, because whoever was never admitted has no row
// of its own.
func (o *masters) tellRefused(ctx context.Context, views []*apiv1.MasterView) {
	var refused view.RefusedVersions
	var now time.Time
	if o.leading.ask(ctx, "operator.masters", func(c view.Cluster, at time.Time) { refused, now = c.Leader.Figures().Versions, at }) != nil {
		return // it no longer leads
	}
	if refused.Count == 0 || now.Sub(refused.At) > refusedFor {
		return
	}
	for _, view := range views {
		if view.GetId() == string(o.config.ID) && view.Why == "" {
			view.Why = "it has refused " + refused.Last
		}
	}
}

// lagging says that a follower which has applied the log up to this entry lags behind; "" when it is close enough.
func lagging(applied, reached uint64) string {
	if applied+lagMax >= reached {
		return ""
	}
	return fmt.Sprintf("it lags: it has applied entry %d, and the leader was at %d", applied, reached)
}

// announce keeps the registry's entry about this master right. A leader checks its own entry when its leadership begins
// (introduce); a follower asks the leader to change it. People's commands learn from the registry where all masters are,
// so a master that has just joined is announced soon.
func (o *masters) announce(ctx context.Context) {
	timer := time.NewTimer(announceEvery)
	defer timer.Stop()
	for wait := announceSoon; ; wait = min(2*wait, announceEvery) {
		news := o.leading.news.wait()
		if o.leading.now.Load() != nil {
			if err := o.proof.registrar.EnsureFirst(ctx); err != nil && ctx.Err() == nil {
				o.log.Debug().Err(err).Msg("the token of the first operator was not made yet")
			}
		}
		if id, address := o.leading.leader(); id != "" && id != o.config.ID && address != "" {
			if o.raft.Outline().Masters[o.config.ID] != o.listeners.record() {
				if err := o.announceTo(ctx, address); err != nil && ctx.Err() == nil {
					o.log.Debug().Err(err).Str("leader", address).Msg("the leader was not told of this master")
				}
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-news: // another master may lead, and what it says of the others comes in a moment
			wait = announceSoon / 2
		case <-timer.C:
		}
	}
}

const (
	// announceEvery is how often a master checks whether the registry has its addresses right.
	announceEvery = time.Second
	// announceSoon is how soon it does so after it has heard of another leader. Each further check waits for twice as
	// long, up to announceEvery.
	announceSoon = 50 * time.Millisecond
	// announceTimeout bounds one announcement.
	announceTimeout = 5 * time.Second
)

func (o *masters) announceTo(ctx context.Context, address string) error {
	self := o.listeners.record()
	return o.proof.callMaster(ctx, address, announceTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := apiv1.NewMasterServiceClient(conn).Announce(ctx, &apiv1.AnnounceRequest{
			ClusterId: string(o.raft.Cluster()), Id: string(o.config.ID),
			GrpcAddress: self.GRPC, HttpAddress: self.HTTP, RaftAddress: self.Raft, Version: self.Version, Allocator: self.Allocator,
		})
		return err
	})
}

// joinQuorum asks masters of the quorum to add this one, if it has never been in a quorum.
func (o *masters) joinQuorum(ctx context.Context) {
	through := o.config.Trust.Through
	if len(through) == 0 || len(o.raft.Members.Status().Members) > 0 {
		return
	}
	seeker := lookout.NewSeeker(through)
	for ctx.Err() == nil && !o.isMember() {
		address := seeker.Address()
		err := o.askToBeAdded(ctx, address)
		if err == nil {
			return
		}
		if seeker.WorthSaying(err) && ctx.Err() == nil {
			o.log.Info().Str("asked", address).AnErr("why", err).Msg("not a member of the quorum yet; asking again")
		}
		pause.For(ctx, seeker.Failed(err))
	}
}

// isMember reports whether this master is a voting member of the quorum, as far as it knows.
func (o *masters) isMember() bool {
	for _, member := range o.raft.Members.Status().Members {
		if member.ID == o.config.ID && member.Role != "non-voter" {
			return true
		}
	}
	return false
}

// addedMax bounds one such request. The leader answers it when this master has caught up.
const addedMax = 30 * time.Second

func (o *masters) askToBeAdded(ctx context.Context, address string) error {
	if o.raft.Cluster() == "" {
		return api.E("master.join", api.Unavailable, o.config.ID, errors.New("it has yet to hear from a master of the quorum"))
	}
	return o.proof.callMaster(ctx, address, addedMax, func(ctx context.Context, conn *grpc.ClientConn) error {
		if _, err := apiv1.NewRaftServiceClient(conn).AddPeer(ctx, &apiv1.AddPeerRequest{Id: string(o.config.ID), RaftAddress: o.listeners.raftAddress()}); err != nil {
			return wire.Error(err)
		}
		return nil
	})
}

// logIn returns the identity of whoever logs in with a browser and this token. The leader counts the token's uses; a
// wrong token is refused without asking the leader.
func (o *masters) logIn(ctx context.Context, token trust.Token) (who trust.Identity, ends time.Time, err error) {
	registrar := o.proof.registrar
	if o.leading.now.Load() != nil {
		return registrar.LogIn(ctx, token)
	}
	if who, ends, err = registrar.Known(token); err != nil {
		return who, ends, err
	}
	return who, ends, o.useAtLeader(ctx, token)
}

// useAtLeader has the leader check a token and count a use of it, in the same way as for a peer that joins. The
// certificate that this gives is for a key that nobody keeps.
func (o *masters) useAtLeader(ctx context.Context, token trust.Token) error {
	_, address := o.leading.leader()
	if address == "" {
		return o.leading.notLeader("trust.login")
	}
	request, err := trust.NewPass().Request()
	if err != nil {
		return err
	}
	return o.proof.callMaster(ctx, address, announceTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		if _, err := apiv1.NewTrustServiceClient(conn).Sign(ctx, &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret}); err != nil {
			return wire.Error(err)
		}
		return nil
	})
}
