package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/tools/devcluster"
)

const (
	// oldAgents are the agents below the gateway. They are only sessions, because a process for each task would be what is
	// measured.
	oldAgents = 20
	// oldFrameworks are subscribed at once, for the gateway's memory.
	oldFrameworks = 100
	// oldTasks is how many tasks a run has, and oldWindow how many of them are under way at most.
	oldTasks, oldWindow = 5000, 500
	// oldBatch is how many tasks an accept launches at most.
	oldBatch = 20
	// oldCPUs and oldMem are what a task has, so little that agents are never what limits.
	oldCPUs, oldMem = 0.01, 1
	// oldCallers make calls at the same time, as clients with threads do.
	oldCallers = 16
)

// throughGateway measures the gateway for frameworks of Mesos: how many tasks pass it, how late events are, and how much
// memory many frameworks take.
func throughGateway(ctx context.Context, o options) (err error) {
	o.insecure = true // as the gateway's own way to the masters is not what is measured
	q, err := startQuorum(ctx, o, "--log-level", "warn")
	defer func() { err = errors.Join(err, q.stop()) }()
	if err != nil {
		return err
	}
	flock, err := startFlock(oldAgents, q.addresses())
	if err != nil {
		return err
	}
	defer flock.stop()
	if _, err := flock.awaitAll(ctx, oldAgents, api.Term{}); err != nil {
		return err
	}
	ports, err := freeports.Reserve(1)
	if err != nil {
		return err
	}
	gateway := &devcluster.Process{Binary: o.binary, Log: filepath.Join(q.dir, "gateway.log"), Args: []string{
		"mesos", "--open", "--port", strconv.Itoa(ports[0]), "--agent-port", "0", "--master", strings.Join(q.addresses(), ","),
	}}
	if err := gateway.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gateway.Kill()) }()
	g := &oldMaster{url: fmt.Sprintf("http://127.0.0.1:%d/api/v1/scheduler", ports[0]), pid: gateway.PID()}
	return errors.Join(g.tasks(ctx, o.runs), g.crowd(ctx))
}

// oldMaster is the gateway, as frameworks of Mesos see it.
type oldMaster struct {
	url string
	pid int
}

func (g *oldMaster) tasks(ctx context.Context, runs int) error {
	f, err := g.subscribe(ctx, "bench")
	if err != nil {
		return err
	}
	defer f.stream.Close()
	var rates, all, own []float64
	for i := range runs + 1 {
		began, before, gateway := time.Now(), cpuOf(os.Getpid()), ownCPU(g.pid)
		if err := f.run(ctx, oldTasks, oldWindow); err != nil {
			return err
		}
		if i > 0 {
			rates = append(rates, oldTasks/time.Since(began).Seconds())
			all, own = append(all, (cpuOf(os.Getpid())-before)*1e6/oldTasks), append(own, (ownCPU(g.pid)-gateway)*1e6/oldTasks)
		}
	}
	row("tasks of a framework of Mesos through the gateway", fmt.Sprintf("%.0f/s (%.0f to %.0f)", median(rates), slices.Min(rates), slices.Max(rates)),
		fmt.Sprintf("%.0f µs of CPU a task: masters, agents, gateway and framework; %.0f of the gateway; %d were lost and launched again", median(all), median(own), f.lost))
	f.late = nil
	if err := f.run(ctx, oldTasks/10, 1); err != nil {
		return err
	}
	row("an event: from its agent to such a framework, one task after the other", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", ms(quantile(f.late, 0.5)), ms(quantile(f.late, 0.99))),
		fmt.Sprintf("%d statuses; load of the machine %.0f", len(f.late), machineLoad()))
	atLeast("tasks a second of a framework of Mesos", median(rates), 1000)
	atMost("ms until it has an event, p99", ms(quantile(f.late, 0.99)), 5)
	return f.call(ctx, &schedulerv1.Call{Type: schedulerv1.Call_TEARDOWN.Enum()})
}

// crowd measures many frameworks that are subscribed and want nothing.
func (g *oldMaster) crowd(ctx context.Context) error {
	before := residentMB(g.pid)
	for i := range oldFrameworks {
		f, err := g.subscribe(ctx, fmt.Sprint("old-", i))
		if err != nil {
			return err
		}
		defer f.stream.Close()
		if err := f.call(ctx, &schedulerv1.Call{Type: schedulerv1.Call_SUPPRESS.Enum()}); err != nil {
			return err
		}
	}
	pause.For(ctx, herdSteady)
	row(fmt.Sprintf("the gateway with %d frameworks of Mesos that are subscribed", oldFrameworks), fmt.Sprintf("%.0f MB resident", residentMB(g.pid)), fmt.Sprintf("%.0f MB before they were", before))
	atMost("MB of a gateway with 100 frameworks", residentMB(g.pid), 200)
	return ctx.Err()
}

// oldFramework is a framework that speaks Mesos's API, in protobuf.
type oldFramework struct {
	url, streamID string
	id            *mesosv1.FrameworkID
	stream        io.Closer
	events        *codec.RecordReader

	held            []*mesosv1.Offer // offers that are not answered yet
	next            int
	launched, ended int // of the tasks of a run
	lost            int // before they began: they were launched again
	late            []time.Duration
}

// subscribeMax is how long a framework tries to subscribe: a gateway that has just begun listens after a moment.
const subscribeMax = 30 * time.Second

func (g *oldMaster) subscribe(ctx context.Context, name string) (*oldFramework, error) {
	f := &oldFramework{url: g.url}
	subscribe := &schedulerv1.Call{Type: schedulerv1.Call_SUBSCRIBE.Enum(), Subscribe: &schedulerv1.Call_Subscribe{
		FrameworkInfo: &mesosv1.FrameworkInfo{User: proto.String(devcluster.Me()), Name: proto.String(name), Role: proto.String("bench")},
	}}
	var answer *http.Response
	for began := time.Now(); ; {
		var err error
		if answer, err = f.post(ctx, subscribe); err == nil { //nolint:bodyclose // it is the stream, which whoever subscribes closes
			break
		}
		if refused := new(net.OpError); !errors.As(err, &refused) || time.Since(began) > subscribeMax || !pause.For(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
	f.stream, f.streamID, f.events = answer.Body, answer.Header.Get("Mesos-Stream-Id"), codec.NewRecordReader(answer.Body, 16<<20)
	for f.id == nil {
		event, err := f.read()
		if err != nil {
			return nil, err
		}
		f.id = event.GetSubscribed().GetFrameworkId()
	}
	return f, nil
}

// post makes a call whose answer the caller reads.
func (f *oldFramework) post(ctx context.Context, call *schedulerv1.Call) (*http.Response, error) {
	call.FrameworkId = f.id
	body, err := codec.Protobuf.Marshal(call)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", codec.Protobuf.ContentType())
	request.Header.Set("Accept", codec.Protobuf.ContentType())
	if f.streamID != "" {
		request.Header.Set("Mesos-Stream-Id", f.streamID)
	}
	answer, err := oldClient.Do(request)
	if err == nil && answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body) // what of it there is
		err = errors.Join(fmt.Errorf("%v is answered %s: %s", call.GetType(), answer.Status, text), answer.Body.Close())
	}
	return answer, err
}

// oldClient keeps a connection for each of those who call at the same time.
var oldClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: oldCallers}}

func (f *oldFramework) call(ctx context.Context, call *schedulerv1.Call) error {
	answer, err := f.post(ctx, call)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

func (f *oldFramework) read() (*schedulerv1.Event, error) {
	record, err := f.events.Next()
	if err != nil {
		return nil, err
	}
	event := new(schedulerv1.Event)
	return event, codec.Protobuf.Unmarshal(record, event)
}

// run runs so many tasks, at most a window of them at once, and acknowledges each status.
func (f *oldFramework) run(ctx context.Context, total, window int) error {
	f.launched, f.ended = 0, 0
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(oldCallers)
	for f.ended < total && ctx.Err() == nil {
		for len(f.held) > 0 && f.launched-f.ended < window && f.launched < total {
			accept := f.accept(min(oldBatch, window-f.launched+f.ended, total-f.launched))
			calls.Go(func() error { return f.call(ctx, accept) })
		}
		event, err := f.read()
		if err != nil {
			return errors.Join(err, calls.Wait())
		}
		switch event.GetType() {
		case schedulerv1.Event_OFFERS:
			f.held = append(f.held, event.GetOffers().GetOffers()...)
		case schedulerv1.Event_RESCIND:
			f.held = slices.DeleteFunc(f.held, func(o *mesosv1.Offer) bool { return o.GetId().GetValue() == event.GetRescind().GetOfferId().GetValue() })
		case schedulerv1.Event_UPDATE:
			if acknowledge := f.updated(event.GetUpdate().GetStatus()); acknowledge != nil {
				calls.Go(func() error { return f.call(ctx, acknowledge) })
			}
		case schedulerv1.Event_ERROR, schedulerv1.Event_FAILURE:
			return errors.Join(fmt.Errorf("the gateway says %v", event), calls.Wait())
		default: // heartbeats
		}
	}
	return errors.Join(ctx.Err(), calls.Wait())
}

// accept launches tasks by the oldest offer.
func (f *oldFramework) accept(count int) *schedulerv1.Call {
	offer := f.held[0]
	f.held = f.held[1:]
	cpus, mem := 0.0, 0.0
	for _, resource := range offer.GetResources() {
		switch resource.GetName() {
		case "cpus":
			cpus += resource.GetScalar().GetValue()
		case "mem":
			mem += resource.GetScalar().GetValue()
		}
	}
	launch := new(mesosv1.Offer_Operation_Launch)
	for range min(count, int(cpus/oldCPUs), int(mem/oldMem)) {
		f.next++
		f.launched++
		name := fmt.Sprint("t", f.next)
		launch.TaskInfos = append(launch.TaskInfos, &mesosv1.TaskInfo{
			Name: &name, TaskId: &mesosv1.TaskID{Value: &name}, AgentId: offer.GetAgentId(), Resources: []*mesosv1.Resource{scalarOf("cpus", oldCPUs), scalarOf("mem", oldMem)},
			Command: &mesosv1.CommandInfo{Shell: proto.Bool(true), Value: proto.String("sleep 0.001")},
		})
	}
	return &schedulerv1.Call{Type: schedulerv1.Call_ACCEPT.Enum(), Accept: &schedulerv1.Call_Accept{
		OfferIds: []*mesosv1.OfferID{offer.GetId()}, Filters: &mesosv1.Filters{RefuseSeconds: proto.Float64(0)},
		Operations: []*mesosv1.Offer_Operation{{Type: mesosv1.Offer_Operation_LAUNCH.Enum(), Launch: launch}},
	}}
}

func scalarOf(name string, value float64) *mesosv1.Resource {
	return &mesosv1.Resource{Name: &name, Type: mesosv1.Value_SCALAR.Enum(), Scalar: &mesosv1.Value_Scalar{Value: &value}}
}

// updated takes in a status, and returns the call that acknowledges it, if it is to be.
func (f *oldFramework) updated(status *mesosv1.TaskStatus) *schedulerv1.Call {
	switch status.GetState() {
	case mesosv1.TaskState_TASK_FINISHED:
		f.ended++
	case mesosv1.TaskState_TASK_LOST, mesosv1.TaskState_TASK_DROPPED:
		f.launched--
		f.lost++
	default: // it goes on
	}
	if len(status.GetUuid()) == 0 {
		return nil
	}
	f.late = append(f.late, time.Since(time.UnixMicro(int64(status.GetTimestamp()*1e6))))
	return &schedulerv1.Call{Type: schedulerv1.Call_ACKNOWLEDGE.Enum(), Acknowledge: &schedulerv1.Call_Acknowledge{
		AgentId: status.GetAgentId(), TaskId: status.GetTaskId(), Uuid: status.GetUuid(),
	}}
}
