package adapter

import (
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	executorv1 "github.com/tenderhq/tender/internal/mesos/v1/executor"
)

const (
	// streamEventsMax is how many events may wait for an old executor that does not read. Beyond it loses its stream,
	// and is told again when it comes back.
	streamEventsMax = 1 << 14
	// heartbeatInterval is Mesos's. The first one is not sent at once, because there are executors that end when they
	// are sent an event that they do not know.
	heartbeatInterval = 30 * time.Minute
)

// stream is an old executor's subscription.
type stream struct {
	encoding codec.Encoding
	wake     chan struct{} // capacity 1: there are events
	gone     chan struct{} // closed when a newer subscription, or the adapter's end, has ended this one

	// Guarded by the adapter's mu.
	queue   []queued
	resumed bool // tasks may be handed over
}

// queued is an event that waits to be written, with the tasks that it hands over.
type queued struct {
	event *executorv1.Event
	tasks []*task
}

// send queues an event for the old executor. Without a stream nothing happens. The caller holds mu.
func (a *adapter) send(event *executorv1.Event, tasks ...*task) {
	s := a.stream
	if s == nil {
		return
	}
	if len(s.queue) >= streamEventsMax {
		a.config.Log.Warn().Msg("the executor does not read its events; its stream is closed")
		a.endStream(s)
		return
	}
	s.queue = append(s.queue, queued{event, tasks})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// endStream ends a subscription. The tasks that it had yet to hand over wait for the next one. The caller holds mu.
func (a *adapter) endStream(s *stream) {
	if a.stream != s {
		return
	}
	a.stream = nil
	close(s.gone)
	var back []*task
	for _, waiting := range s.queue {
		for _, t := range waiting.tasks {
			t.handed = false
			back = append(back, t)
		}
	}
	s.queue = nil
	a.launches = append(back, a.launches...)
}

// handOver tells the old executor of the tasks that it was not told of: each by itself, and a group when all of it is
// there. The caller holds mu.
func (a *adapter) handOver() {
	if a.stream == nil || !a.stream.resumed {
		return
	}
	waiting := a.launches
	a.launches = nil
	for i, t := range waiting {
		switch {
		case t.handed || t.state.Terminal():
		case len(t.group) == 0:
			t.handed = true
			a.send(launchEvent(t.info), t)
		default:
			group := a.whole(t.group)
			if group == nil {
				a.launches = append(a.launches, waiting[i])
				continue
			}
			for _, of := range group {
				of.handed = true
			}
			a.send(launchGroupEvent(group), group...)
		}
	}
}

// whole returns the tasks of a group if all of them are there and wait.
func (a *adapter) whole(names []string) (group []*task) {
	for _, name := range names {
		t := a.named[name]
		if t == nil || t.handed || t.state.Terminal() {
			return nil
		}
		group = append(group, t)
	}
	return group
}

// subscribe begins a subscription of the old executor, in place of an earlier one.
func (a *adapter) subscribe(call *executorv1.Call_Subscribe, encoding codec.Encoding) *stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream != nil {
		a.endStream(a.stream)
	}
	s := &stream{encoding: encoding, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	a.stream = s
	a.subscribed = true
	a.send(&executorv1.Event{Type: executorv1.Event_SUBSCRIBED.Enum(), Subscribed: &executorv1.Event_Subscribed{
		ExecutorInfo: a.whose.executor, FrameworkInfo: a.whose.framework, AgentInfo: a.whose.agent, ContainerId: a.container(),
	}})
	a.spawn(func() { a.resume(s, call) })
	return s
}

// resume goes on where an earlier subscription ended: it takes the updates that the old executor has no acknowledgement
// of, which may have to wait for the agent, and then tells it what it has missed.
func (a *adapter) resume(s *stream, call *executorv1.Call_Subscribe) {
	for _, update := range call.GetUnacknowledgedUpdates() {
		if err := a.takeUpdate(a.life, update.GetStatus()); err != nil {
			a.config.Log.Warn().Err(err).Str("task", update.GetStatus().GetTaskId().GetValue()).Msg("an update that was not acknowledged can't be told")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream != s {
		return // there is a newer one
	}
	for _, info := range call.GetUnacknowledgedTasks() {
		if t := a.named[info.GetTaskId().GetValue()]; t != nil {
			t.heard = true
		}
	}
	for _, t := range a.living() {
		switch {
		case t.handed && !t.heard: // its launch was written into a stream that broke
			a.tell(t, own(mesosv1.TaskState_TASK_DROPPED, mesosv1.TaskStatus_REASON_AGENT_RESTARTED, "The executor was not told of the task: its stream broke"))
		case t.handed && t.kill != nil:
			a.send(killEvent(t.info, *t.kill))
		}
	}
	s.resumed = true
	a.handOver()
	if a.phase == ending {
		a.send(shutdownEvent())
	}
}

// write writes a subscription's events until the old executor or the adapter ends it.
func (a *adapter) write(s *stream, w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.endStream(s)
	}()
	for {
		a.mu.Lock()
		events := s.queue
		s.queue = nil
		a.mu.Unlock()
		for i, waiting := range events {
			record, err := s.encoding.Marshal(waiting.event)
			if err == nil {
				err = codec.WriteRecord(w, record)
			}
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				a.config.Log.Info().Err(err).Msg("the executor's stream broke")
				a.mu.Lock()
				if a.stream == s {
					s.queue = slices.Concat(events[i:], s.queue)
				}
				a.mu.Unlock()
				return
			}
		}
		select {
		case <-s.wake:
		case <-beat.C:
			a.mu.Lock()
			if a.stream == s {
				a.send(&executorv1.Event{Type: executorv1.Event_HEARTBEAT.Enum()})
			}
			a.mu.Unlock()
		case <-s.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func launchEvent(info *mesosv1.TaskInfo) *executorv1.Event {
	return &executorv1.Event{Type: executorv1.Event_LAUNCH.Enum(), Launch: &executorv1.Event_Launch{Task: info}}
}

func launchGroupEvent(group []*task) *executorv1.Event {
	all := new(mesosv1.TaskGroupInfo)
	for _, t := range group {
		all.Tasks = append(all.Tasks, t.info)
	}
	return &executorv1.Event{Type: executorv1.Event_LAUNCH_GROUP.Enum(), LaunchGroup: &executorv1.Event_LaunchGroup{TaskGroup: all}}
}

func killEvent(info *mesosv1.TaskInfo, grace time.Duration) *executorv1.Event {
	kill := &executorv1.Event_Kill{TaskId: info.GetTaskId()}
	if grace > 0 {
		kill.KillPolicy = &mesosv1.KillPolicy{GracePeriod: &mesosv1.DurationInfo{Nanoseconds: proto.Int64(int64(grace))}}
	}
	return &executorv1.Event{Type: executorv1.Event_KILL.Enum(), Kill: kill}
}

func messageEvent(data []byte) *executorv1.Event {
	return &executorv1.Event{Type: executorv1.Event_MESSAGE.Enum(), Message: &executorv1.Event_Message{Data: data}}
}

func acknowledgedEvent(id *mesosv1.TaskID, uuid []byte) *executorv1.Event {
	return &executorv1.Event{Type: executorv1.Event_ACKNOWLEDGED.Enum(), Acknowledged: &executorv1.Event_Acknowledged{TaskId: id, Uuid: uuid}}
}

func shutdownEvent() *executorv1.Event {
	return &executorv1.Event{Type: executorv1.Event_SHUTDOWN.Enum()}
}
