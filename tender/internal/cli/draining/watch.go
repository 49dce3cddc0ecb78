package draining

import (
	"context"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

// watch is told whenever an agent has changed, until it is closed or fails.
type watch struct {
	news  chan heard
	end   context.CancelFunc
	ended chan struct{}

	copy     client.Copy
	draining map[string]bool // the agents that it has seen draining, or that did so before it began
	later    bool            // its state was told anew, by a leader that knows of all marks
}

// heard is news or, as the last item, why there is no more.
type heard struct {
	*apiv1.WatchResponse
	err error
}

// openWatch begins a watch of all agents, of which some drain already.
func openWatch(ctx context.Context, follow Follow, drain []*apiv1.AgentView) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{news: make(chan heard), end: cancel, ended: make(chan struct{}), draining: make(map[string]bool)}
	for _, agent := range drain {
		w.draining[agent.GetId()] = true
	}
	go func() {
		defer close(w.ended)
		for news, err := range follow(ctx, &apiv1.WatchRequest{Kinds: []string{"agent"}}) {
			select {
			case w.news <- heard{news, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// close ends the watch, and returns when it has ended.
func (w *watch) close() {
	w.end()
	<-w.ended
}

// agentOf returns the ID of the agent that a change concerns; "": it concerns none.
func agentOf(change *apiv1.Change) string {
	if _, id := wire.ChangeName(change); id != "" {
		return id
	}
	if event := change.GetEvent(); event.GetKind() == "agent" {
		return event.GetName()
	}
	return ""
}

// look takes in a change of an agent that is waited for. It returns the agent as it is now, nil when it is no more, and
// whether it says anything about the drain: what the watch tells first may be older than the mark.
func (w *watch) look(before *apiv1.AgentView, change *apiv1.Change) (now *apiv1.AgentView, says bool) {
	id := before.GetId()
	if change.GetRemoved() != "" {
		return nil, true
	}
	what := change.GetEvent().GetWhat()
	w.draining[id] = w.draining[id] || what == "draining" || what == "drained"
	if change.GetAgent() == nil && what != "updated" { // what it is like comes with its latest event
		return nil, false
	}
	if now = w.copy.Get("agent", id).GetAgent(); now == nil || marked(now, api.MarkGone) {
		return now, now != nil
	}
	w.draining[id] = w.draining[id] || marked(now, api.MarkDraining)
	return now, w.draining[id] || w.later
}
