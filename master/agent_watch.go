package master

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/view"
)

const (
	// agentWatchersMax bounds the calls that watch agents, because for each of them the loop looks at all agents that
	// it watches. One more is refused (Limit).
	agentWatchersMax = 32
	// agentWatchRest is the least time between two looks for one watcher, so that changes that follow each other are
	// sent together.
	agentWatchRest = 250 * time.Millisecond
)

// agentNews wakes the watchers of agents after each round of the loop, because it may have changed an agent. Without
// watchers it costs nothing.
type agentNews struct {
	watchers atomic.Int64
	rounds   *broadcast
}

// tell is called after each round of the loop.
func (n *agentNews) tell() {
	if n.watchers.Load() > 0 {
		n.rounds.fire()
	}
}

// WatchAgents sends the watched agents, then every change of them.
func (s operatorService) WatchAgents(r *apiv1.WatchAgentsRequest, stream grpc.ServerStreamingServer[apiv1.WatchAgentsResponse]) error {
	const op = "operator.watch"
	l := s.master.leading.Load()
	if l == nil {
		return s.master.notLeader(op)
	}
	if n := len(r.GetAgentIds()); n > api.PageItemsMax {
		return api.E(op, api.Limit, "", fmt.Errorf("%d agents are named, at most %d may be; name none to watch all", n, api.PageItemsMax))
	}
	if l.watch.agents.watchers.Add(1) > agentWatchersMax {
		l.watch.agents.watchers.Add(-1)
		return api.E(op, api.Limit, "", fmt.Errorf("%d watch agents already, which is the most", agentWatchersMax))
	}
	defer l.watch.agents.watchers.Add(-1)
	return outbox.SendUntil(l.serving(), op, func(slow *outbox.Patience) error { return s.watchAgents(l, slow, r, stream) })
}

func (s operatorService) watchAgents(
	l *leader, slow *outbox.Patience, r *apiv1.WatchAgentsRequest, stream grpc.ServerStreamingServer[apiv1.WatchAgentsResponse],
) error {
	const op = "operator.watch"
	ctx := stream.Context()
	watch := view.WatchAgents(agentIDs(r.GetAgentIds()))
	for complete := false; ; {
		round := l.watch.agents.rounds.wait() // before looking, so that no change is missed
		var news view.AgentNews
		if err := s.master.ask(ctx, op, func(c view.Cluster, _ time.Time) { news = watch.News(c) }); err != nil {
			return err
		}
		if len(news.Changed)+len(news.Removed) > 0 || !complete {
			complete = !news.More
			answer := &apiv1.WatchAgentsResponse{Items: shown(news.Changed, showAgent), RemovedIds: wire.Texts(news.Removed), Complete: complete}
			if err := slow.During(func() error { return stream.Send(answer) }); err != nil {
				return err
			}
		}
		if news.More {
			continue
		}
		rest := time.NewTimer(agentWatchRest)
		err := await(ctx, l, op, rest.C)
		if rest.Stop(); err == nil {
			err = await(ctx, l, op, round)
		}
		if err != nil {
			return err
		}
	}
}

// agentIDs converts the IDs that a request names.
func agentIDs(names []string) []api.AgentID {
	ids := make([]api.AgentID, len(names))
	for i, name := range names {
		ids[i] = api.AgentID(name)
	}
	return ids
}

// await waits for a signal. It returns an error when the call or this leadership ends first.
func await[T any](ctx context.Context, l *leader, op string, signal <-chan T) error {
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.over:
		return l.master.notLeader(op)
	}
}
