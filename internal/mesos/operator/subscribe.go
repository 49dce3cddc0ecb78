package operator

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
)

// subscribe answers SUBSCRIBE: what there is, and then each change. When the watch has missed something, the stream
// ends, and the client subscribes anew, as it does when a master of Mesos fails.
func (o *Operator) subscribe(r request, encoding codec.Encoding) error {
	ctx, stop := context.WithCancel(r.r.Context())
	defer stop()
	news, ended := o.watch(ctx, r.cluster)
	first := newBook()
	for !first.whole {
		select {
		case response := <-news:
			first.take(response)
		case err := <-ended:
			return err
		}
	}
	shown, err := r.complete(first)
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
			for _, event := range first.take(response) {
				if !send(event) {
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

// book is what a subscriber was told, by the names of changes.
type book struct {
	whole      bool
	agents     map[string]*apiv1.AgentView
	frameworks map[string]*apiv1.FrameworkView
	tasks      map[string]*apiv1.TaskView
	offers     map[string]*apiv1.OfferView
}

func newBook() *book {
	return &book{agents: map[string]*apiv1.AgentView{}, frameworks: map[string]*apiv1.FrameworkView{}, tasks: map[string]*apiv1.TaskView{}, offers: map[string]*apiv1.OfferView{}}
}

func (b *book) state() *state {
	return &state{agents: byName(b.agents), frameworks: byName(b.frameworks), tasks: byName(b.tasks), offers: byName(b.offers)}
}

func byName[View any](views map[string]View) (list []View) {
	for _, name := range slices.Sorted(maps.Keys(views)) {
		list = append(list, views[name])
	}
	return list
}

// take takes in changes, and returns what a subscriber is told of them.
func (b *book) take(response *apiv1.WatchResponse) (events []*masterv1.Event) {
	if response.GetMissed() != "" {
		*b = *newBook()
	}
	for _, change := range response.GetItems() {
		var event *masterv1.Event
		switch {
		case change.GetAgent() != nil:
			event = b.takeAgent(change.GetAgent())
		case change.GetFramework() != nil:
			event = b.takeFramework(change.GetFramework())
		case change.GetTask() != nil:
			event = b.takeTask(change.GetTask())
		case change.GetOffer() != nil:
			b.offers[change.GetOffer().GetId()] = change.GetOffer()
		case change.GetRemoved() != "":
			event = b.remove(change.GetRemoved())
		}
		if b.whole && event != nil {
			events = append(events, event)
		}
	}
	b.whole = b.whole || response.GetComplete()
	return events
}

func (b *book) takeAgent(a *apiv1.AgentView) *masterv1.Event {
	had, known := b.agents[a.GetId()]
	b.agents[a.GetId()] = a
	switch was := known && registered(had); {
	case registered(a) && !was:
		return &masterv1.Event{Type: masterv1.Event_AGENT_ADDED.Enum(), AgentAdded: &masterv1.Event_AgentAdded{Agent: agentOf(a)}}
	case was && !registered(a) && !recovered(a):
		return agentRemoved(a.GetId())
	}
	return nil
}

func agentRemoved(id string) *masterv1.Event {
	return &masterv1.Event{Type: masterv1.Event_AGENT_REMOVED.Enum(), AgentRemoved: &masterv1.Event_AgentRemoved{AgentId: translate.AgentID(api.AgentID(id))}}
}

func (b *book) takeFramework(f *apiv1.FrameworkView) *masterv1.Event {
	had, known := b.frameworks[f.GetId()]
	b.frameworks[f.GetId()] = f
	shown := new(state).frameworkOf(f)
	switch was := known && had.GetState() != removed; {
	case was && f.GetState() == removed:
		return frameworkRemoved(f)
	case f.GetState() == removed:
	case !was:
		return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_ADDED.Enum(), FrameworkAdded: &masterv1.Event_FrameworkAdded{Framework: shown}}
	case had.GetState() != f.GetState() || !proto.Equal(frameworkInfo(had), frameworkInfo(f)):
		return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_UPDATED.Enum(), FrameworkUpdated: &masterv1.Event_FrameworkUpdated{Framework: shown}}
	}
	return nil
}

func frameworkRemoved(f *apiv1.FrameworkView) *masterv1.Event {
	return &masterv1.Event{Type: masterv1.Event_FRAMEWORK_REMOVED.Enum(), FrameworkRemoved: &masterv1.Event_FrameworkRemoved{FrameworkInfo: frameworkInfo(f)}}
}

// nameOf names a task as changes do.
func nameOf(t *apiv1.TaskView) string { return t.GetFrameworkId() + "/" + t.GetId() }

func (b *book) takeTask(t *apiv1.TaskView) *masterv1.Event {
	name := nameOf(t)
	had, known := b.tasks[name]
	b.tasks[name] = t
	if !known {
		return &masterv1.Event{Type: masterv1.Event_TASK_ADDED.Enum(), TaskAdded: &masterv1.Event_TaskAdded{Task: taskOf(t)}}
	}
	if had.GetState() == t.GetState() && proto.Equal(had.GetSince(), t.GetSince()) {
		return nil
	}
	status := statusOf(t)
	return &masterv1.Event{Type: masterv1.Event_TASK_UPDATED.Enum(), TaskUpdated: &masterv1.Event_TaskUpdated{
		FrameworkId: &mesosv1.FrameworkID{Value: text(t.GetFrameworkId())}, Status: status, State: status.State,
	}}
}

// remove forgets what is no more, which the change writes as KIND/NAME.
func (b *book) remove(what string) *masterv1.Event {
	kind, name, _ := strings.Cut(what, "/")
	switch kind {
	case "agent":
		a := b.agents[name]
		delete(b.agents, name)
		if a != nil && registered(a) {
			return agentRemoved(name)
		}
	case "framework":
		f := b.frameworks[name]
		delete(b.frameworks, name)
		if f != nil && f.GetState() != removed {
			return frameworkRemoved(f)
		}
	case "task":
		delete(b.tasks, name)
	case "offer":
		delete(b.offers, name)
	}
	return nil
}
