package operator

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	"github.com/tenderhq/tender/internal/wire"
)

// subscribe answers SUBSCRIBE: what there is, and then each change. When the watch has missed something, the stream
// ends, and the client subscribes anew, as it does when a master of Mesos fails.
func (o *Operator) subscribe(r request, encoding codec.Encoding) error {
	ctx, stop := context.WithCancel(r.r.Context())
	defer stop()
	news, ended := o.watch(ctx, r.cluster)
	told := new(client.Copy)
	for !told.Whole() {
		select {
		case response := <-news:
			told.Take(response)
		case err := <-ended:
			return err
		}
	}
	shown, err := r.complete(told)
	if err != nil {
		return err
	}
	r.w.Header().Set("Content-Type", encoding.ContentType())
	r.w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(r.w)
	send := func(event *masterv1.Event) bool {
		record, err := encoding.Marshal(event)
		return err == nil && codec.WriteRecord(r.w, record) == nil && out.Flush() == nil
	}
	beat := time.NewTicker(o.config.Heartbeat)
	defer beat.Stop()
	if !send(&masterv1.Event{Type: masterv1.Event_SUBSCRIBED.Enum(), Subscribed: &masterv1.Event_Subscribed{
		GetState: shown.getState(), HeartbeatIntervalSeconds: proto.Float64(o.config.Heartbeat.Seconds()),
	}}) || !send(&masterv1.Event{Type: masterv1.Event_HEARTBEAT.Enum()}) {
		return nil
	}
	for {
		select {
		case response := <-news:
			if response.GetMissed() != "" {
				o.config.Log.Info().Str("why", response.GetMissed()).Msg("a stream of events ends")
				return nil
			}
			for _, change := range response.GetItems() {
				if event := takeChange(told, change); event != nil && !send(event) {
					return nil
				}
			}
		case <-beat.C:
			if !send(&masterv1.Event{Type: masterv1.Event_HEARTBEAT.Enum()}) {
				return nil
			}
		case err := <-ended:
			o.config.Log.Info().Err(err).Msg("a stream of events ends")
			return nil
		}
	}
}

// watch passes on what the cluster tells, until ctx ends or the watch fails. Then ended is told why.
func (o *Operator) watch(ctx context.Context, cluster Cluster) (<-chan *apiv1.WatchResponse, <-chan error) {
	news, ended := make(chan *apiv1.WatchResponse), make(chan error, 1)
	go func() { // ends with ctx
		for response, err := range cluster.Watch(ctx, &apiv1.WatchRequest{Kinds: []string{"agent", "framework", "task"}}) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case news <- response:
			case <-ctx.Done():
			}
		}
		ended <- context.Cause(ctx)
	}()
	return news, ended
}

// takeChange takes in a change, and returns what a subscriber is told of it; nil: nothing.
func takeChange(told *client.Copy, change *apiv1.Change) *masterv1.Event {
	had := told.Get(wire.ChangeName(change))
	told.Take(&apiv1.WatchResponse{Items: []*apiv1.Change{change}})
	switch {
	case change.GetAgent() != nil || had.GetAgent() != nil:
		return agentChanged(had.GetAgent(), change.GetAgent())
	case change.GetFramework() != nil || had.GetFramework() != nil:
		return frameworkChanged(had.GetFramework(), change.GetFramework())
	case change.GetTask() != nil:
		return taskChanged(had.GetTask(), change.GetTask())
	}
	return nil
}

// agentChanged tells of an agent; had or now is nil if it was, or is, not there.
func agentChanged(had, now *apiv1.AgentView) *masterv1.Event {
	was, is := had != nil && registered(had), now != nil && registered(now)
	switch {
	case is && !was:
		return &masterv1.Event{Type: masterv1.Event_AGENT_ADDED.Enum(), AgentAdded: &masterv1.Event_AgentAdded{Agent: agentOf(now)}}
	case was && !is && (now == nil || !recovered(now)):
		id := translate.AgentID(api.AgentID(had.GetId()))
		return &masterv1.Event{Type: masterv1.Event_AGENT_REMOVED.Enum(), AgentRemoved: &masterv1.Event_AgentRemoved{AgentId: id}}
	}
	return nil
}

// frameworkChanged tells of a framework; had or now is nil if it was, or is, not there.
func frameworkChanged(had, now *apiv1.FrameworkView) *masterv1.Event {
	was, is := had != nil && had.GetState() != removed, now != nil && now.GetState() != removed
	switch {
	case was && !is:
		info := frameworkInfo(cmp.Or(now, had))
		return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_REMOVED.Enum(), FrameworkRemoved: &masterv1.Event_FrameworkRemoved{FrameworkInfo: info}}
	case is && !was:
		added := &masterv1.Event_FrameworkAdded{Framework: new(state).frameworkOf(now)}
		return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_ADDED.Enum(), FrameworkAdded: added}
	case is && (had.GetState() != now.GetState() || !proto.Equal(frameworkInfo(had), frameworkInfo(now))):
		updated := &masterv1.Event_FrameworkUpdated{Framework: new(state).frameworkOf(now)}
		return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_UPDATED.Enum(), FrameworkUpdated: updated}
	}
	return nil
}

// taskChanged tells of a task that is there; had is nil if it was not.
func taskChanged(had, now *apiv1.TaskView) *masterv1.Event {
	if had == nil {
		return &masterv1.Event{Type: masterv1.Event_TASK_ADDED.Enum(), TaskAdded: &masterv1.Event_TaskAdded{Task: taskOf(now)}}
	}
	if had.GetState() == now.GetState() && proto.Equal(had.GetSince(), now.GetSince()) {
		return nil
	}
	status := statusOf(now)
	return &masterv1.Event{Type: masterv1.Event_TASK_UPDATED.Enum(), TaskUpdated: &masterv1.Event_TaskUpdated{
		FrameworkId: &mesosv1.FrameworkID{Value: text(now.GetFrameworkId())}, Status: status, State: status.State,
	}}
}
