package master

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/view"
)

// listMasters combines what Raft and the registry know of the masters. Every master gives the same list, except for the
// members that do not answer, which only the leader knows.
func (m *Master) listMasters(r *apiv1.ListRequest) *apiv1.ListMastersResponse {
	status, state := m.raft.Members.Status(), m.raft.Outline()
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
		if member.ID == m.config.ID {
			view.AppliedIndex, view.Why = status.Applied, m.sick()
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
	if m.leading.Load() == nil {
		answer.AppliedIndex = state.Index
	}
	return answer
}

// addresses returns the gRPC addresses of the masters in the quorum, as far as the registry has them, ordered by master
// ID.
func (m *Master) addresses() (all []string) {
	status, state := m.raft.Members.Status(), m.raft.Outline()
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
	// askIndexTimeout bounds the time for asking all followers for one list.
	askIndexTimeout = time.Second
)

// dial prepares a connection to another master.
func (m *Master) dial(address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, m.listeners.proof.holder.Dialer(m.config.Dial, trust.Master))
}

// askIndexes asks the other masters which log entry they have applied last. A master that does not answer has no index
// in the list.
func (m *Master) askIndexes(ctx context.Context, views []*apiv1.MasterView) {
	ctx, cancel := context.WithTimeout(ctx, askIndexTimeout)
	defer cancel()
	reached := m.raft.Members.Status().Applied
	var asked sync.WaitGroup
	for _, view := range views {
		if view.GetId() == string(m.config.ID) || view.GetGrpcAddress() == "" || view.GetState() == "unreachable" {
			continue
		}
		asked.Go(func() { m.askIndex(ctx, view, reached) })
	}
	asked.Wait()
}

func (m *Master) askIndex(ctx context.Context, view *apiv1.MasterView, reached uint64) {
	conn, err := m.dial(view.GetGrpcAddress())
	if err != nil {
		return
	}
	defer conn.Close()
	answer, err := apiv1.NewRaftServiceClient(conn).ListPeers(ctx, &apiv1.ListPeersRequest{})
	if err != nil {
		view.Why = cmp.Or(view.Why, "it does not say how far it has come")
		return
	}
	view.AppliedIndex = answer.GetAppliedIndex()
	switch {
	case answer.GetWhy() != "":
		view.Why = answer.GetWhy()
	case view.Why == "":
		view.Why = lagging(view.GetAppliedIndex(), reached)
	}
}

// sick says what is wrong with this master itself; "" when nothing is known to be wrong.
func (m *Master) sick() string {
	if why := m.raft.Disk(); why != "" {
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
func (m *Master) lookAfter(ctx context.Context) {
	defer m.standings.Store(nil)
	before := map[string]standing{}
	for pause.For(ctx, lookEvery) {
		found := map[string]standing{}
		views := m.listMasters(&apiv1.ListRequest{}).GetItems()
		m.askIndexes(ctx, views)
		if ctx.Err() != nil {
			return
		}
		reached := m.raft.Members.Status().Applied
		for _, view := range views {
			if view.GetId() == string(m.config.ID) {
				continue
			}
			now := standing{why: view.GetWhy(), lag: before[view.GetId()].lag}
			if applied := view.GetAppliedIndex(); applied > 0 {
				now.lag = reached - min(reached, applied)
			}
			found[view.GetId()] = now
			switch was := before[view.GetId()].why; {
			case now.why != "" && was == "":
				m.log.Warn().Str("of", view.GetId()).Str("why", now.why).Msg("another master is unhealthy")
			case now.why == "" && was != "":
				m.log.Info().Str("of", view.GetId()).Msg("another master is healthy again")
			}
		}
		before = found
		m.standings.Store(&found)
	}
}

// refusedFor is for how long the list shows that somebody's version was refused.
const refusedFor = 10 * time.Minute

// tellRefused adds to the leader's row whose version was refused lately, because whoever was never admitted has no row
// of its own.
func (m *Master) tellRefused(ctx context.Context, views []*apiv1.MasterView) {
	var refused view.RefusedVersions
	var now time.Time
	if m.ask(ctx, "operator.masters", func(c view.Cluster, at time.Time) { refused, now = c.Leader.Figures().Versions, at }) != nil {
		return // it no longer leads
	}
	if refused.Count == 0 || now.Sub(refused.At) > refusedFor {
		return
	}
	for _, view := range views {
		if view.GetId() == string(m.config.ID) && view.Why == "" {
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
