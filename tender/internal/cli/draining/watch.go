package draining

import (
	"context"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// watch is told by the leader whenever one of some agents has changed, until it is closed or breaks.
type watch struct {
	news  chan heard
	end   context.CancelFunc
	ended chan struct{}

	seen map[string]bool // the agents that it has told of; nil once it has told of all
}

// heard is news from the leader or, as the last item, why there is no more.
type heard struct {
	*apiv1.WatchAgentsResponse
	err    error
	opened bool // the master had begun to answer
}

// openWatch begins a watch of the agents. Its news is from after this call.
func openWatch(ctx context.Context, operator apiv1.OperatorServiceClient, names []string) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{news: make(chan heard), end: cancel, ended: make(chan struct{}), seen: make(map[string]bool)}
	if len(names) > api.PageItemsMax {
		names = nil // all agents
	}
	go func() {
		defer close(w.ended)
		w.run(ctx, operator, names)
	}()
	return w
}

func (w *watch) run(ctx context.Context, operator apiv1.OperatorServiceClient, names []string) {
	stream, err := operator.WatchAgents(ctx, &apiv1.WatchAgentsRequest{AgentIds: names})
	for opened := false; ; opened = true {
		var message *apiv1.WatchAgentsResponse
		if err == nil {
			message, err = stream.Recv()
		}
		select {
		case w.news <- heard{message, err, opened}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// close ends the watch, and returns when it has ended.
func (w *watch) close() {
	w.end()
	<-w.ended
}

// changed returns the agents of which the news tells something new; nil for an agent that is gone.
func (w *watch) changed(news heard, waiting []*apiv1.AgentView) map[string]*apiv1.AgentView {
	changed := make(map[string]*apiv1.AgentView)
	for _, id := range news.GetRemovedIds() {
		changed[id] = nil
	}
	for _, agent := range news.GetItems() {
		changed[agent.GetId()] = agent
	}
	if w.seen == nil {
		return changed
	}
	for id := range changed {
		w.seen[id] = true
	}
	if news.GetComplete() {
		for _, agent := range waiting { // it was removed before the watch of all agents began
			if !w.seen[agent.GetId()] {
				changed[agent.GetId()] = nil
			}
		}
		w.seen = nil
	}
	return changed
}

// mayComeBack says whether another master, or the same one later, may answer.
func mayComeBack(err error) bool {
	return api.Transient(client.Error(err))
}
