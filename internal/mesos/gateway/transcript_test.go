package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/gateway"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
	"github.com/tenderhq/tender/internal/testing/memnet"
)

// TestCallsAndEvents plays the stories in testdata on a whole cluster in virtual time, in both encodings: what a
// framework of Mesos posts, and what it is answered and told. Lines:
//
//	post {JSON of the call}      the framework_id and the stream are added if the call names none; with the word kill, the
//	                             gateway is killed the moment it has answered; with quiet, the events are left out; with
//	                             elsewhere, it is posted to another gateway; with lost, it never reaches the master, which is killed
//	                             meanwhile and started again a second later
//	raw METHOD {headers} body    an HTTP request as it is
//	ack TASK                     acknowledges the task's latest status that has a uuid; "_" stands for a space
//	wait TIME                    lets time pass
//	hang-up                      closes the stream
//	restart                      kills the gateway, as kill -9 does, and starts another one
//	health TASK well|ill          whether a task passes its checks from now on
//	agent kill|start|drain|gone|maintain|cancel
//	master [kill|start]          kills the master and starts it again, or one of the two
//
// A uuid is told as the number of its first appearance; times are left out. Within a line, which goroutine runs first is
// not fixed, so events stand by their type, updates by their task, and the others in their order.
func TestCallsAndEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, encoding := range []codec.Encoding{codec.JSON, codec.Protobuf} {
			t.Run(name+"/"+strings.TrimPrefix(encoding.ContentType(), "application/"), func(t *testing.T) {
				executors := map[api.ExecutorID]frameworktest.ExecutorFunc{"own": runOwn}
				machine := frameworktest.Machine{Resources: api.MustParseResources("cpus:4;mem:4096;disk:1000;gpus:1;ports:[31000-31009]")}
				cluster := frameworktest.Cluster{Machine: machine, Executors: executors}
				if name == "killed" {
					cluster.Latency = 100 * time.Millisecond // so that what was sent is under way for a while
				}
				frameworktest.Run(t, cluster, func(h *frameworktest.Handle) {
					s := &story{h: h, encoding: encoding, starts: make(chan func()), uuids: make(map[string]string), latest: make(map[string]*mesosv1.TaskStatus)}
					s.start()
					defer s.stop()
					datadriven.RunTest(h.T(), file, func(_ *testing.T, d *datadriven.TestData) string { return s.play(d) })
				})
			})
		}
	}
}

// runOwn is the executor of a framework's own: it says what it is told, until it is killed.
func runOwn(ctx context.Context, task *executor.Task) error {
	if err := task.Message([]byte("hello from " + string(task.ID))); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// story is a framework of Mesos before a gateway.
type story struct {
	h        *frameworktest.Handle
	encoding codec.Encoding
	network  *memnet.Net
	gateways int
	end      func()
	client   *http.Client
	starts   chan func()
	other    *http.Client // of another gateway, which has the first one as its peer

	framework, stream string
	reply             *http.Response // of SUBSCRIBE
	reading           chan struct{}
	lost              bool // the next call never reaches the master
	uuids             map[string]string
	latest            map[string]*mesosv1.TaskStatus

	mu   sync.Mutex
	told []*schedulerv1.Event
}

func (s *story) start() {
	s.gateways++
	if s.network == nil {
		s.network = memnet.New()
	}
	address := fmt.Sprintf("gateway%d:5050", s.gateways)
	ctx, end := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	s.end = func() { end(); serving.Wait() }
	s.client = s.serve(ctx, &serving, address, "127.0.0.1:5050")
	s.other = s.serve(ctx, &serving, fmt.Sprintf("other%d:5050", s.gateways), "127.0.0.1:5051", "nobody:5050", address)
}

// run runs a framework for a gateway. The cluster is the story's goroutine's only, so that is asked to start it.
func (s *story) run(ctx context.Context, config framework.Config, scheduler framework.Scheduler) error {
	started := make(chan *frameworktest.Framework, 1)
	s.starts <- func() { started <- s.h.StartContext(ctx, config, scheduler) }
	f := <-started
	<-f.Ended()
	return f.Stop()
}

// do makes a request, and starts meanwhile what gateways ask for.
func (s *story) do(request *http.Request) *http.Response {
	var reply *http.Response
	var err error
	done := make(chan struct{})
	master := s.h.Masters()[0]
	if s.lost {
		master.Isolate()
	}
	go func() {
		defer close(done)
		reply, err = s.client.Do(request) //nolint:bodyclose // said and hangUp close it
	}()
	if s.lost {
		s.lost = false
		s.h.Advance(time.Second)
		master.Kill()
		master.Rejoin()
		master.Start()
	}
	for {
		select {
		case start := <-s.starts:
			start()
			continue
		case <-done:
		}
		break
	}
	if err != nil {
		s.h.T().Fatal(err)
	}
	return reply
}

// serve starts a gateway that has these peers, and returns a client of it.
func (s *story) serve(ctx context.Context, serving *sync.WaitGroup, listen, address string, peers ...string) *http.Client {
	listener, err := s.network.Listen(listen)
	if err != nil {
		s.h.T().Fatal(err)
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return s.network.Dial(ctx, address) }
	config := gateway.Config{
		Open: true, Address: address, Peers: peers, Dial: dial, Heartbeat: time.Hour, Adapter: api.Command{Argv: []string{"tender", "adapter"}},
		Lookup: func(context.Context, string) ([]net.IP, error) { return []net.IP{{10, 0, 0, 1}}, nil },
		Run:    s.run,
	}
	serving.Go(func() { _ = gateway.Serve(ctx, listener, config, nil, nil) })
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.network.Dial(ctx, listen) },
	}}
}

func (s *story) stop() {
	s.hangUp()
	s.client.CloseIdleConnections()
	s.other.CloseIdleConnections()
	s.end()
}

func (s *story) restart() {
	for _, f := range s.h.Frameworks() {
		f.Kill()
	}
	s.stop()
	s.told = nil // what it said while it was killed
	s.start()
}

func (s *story) hangUp() {
	if s.reply != nil {
		_ = s.reply.Body.Close()
		<-s.reading
		s.reply = nil
	}
}

func (s *story) play(d *datadriven.TestData) string {
	var out strings.Builder
	switch words := strings.Fields(d.Input); d.Cmd {
	case "post":
		if d.HasArg("elsewhere") {
			s.client, s.other = s.other, s.client
		}
		s.lost = d.HasArg("lost")
		out.WriteString(s.post(d.Input))
		if d.HasArg("elsewhere") {
			s.client, s.other = s.other, s.client
		}
		if d.HasArg("kill") {
			s.restart()
		}
	case "raw":
		out.WriteString(s.raw(d))
	case "ack":
		out.WriteString(s.acknowledge(strings.ReplaceAll(d.CmdArgs[0].Key, "_", " ")))
	case "wait":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(s.h.T(), "%v", err)
		}
		s.h.Advance(pause)
	case "hang-up":
		s.hangUp()
	case "restart":
		s.restart()
	case "health":
		s.h.Frameworks()[0].SetHealth(api.TaskID(d.CmdArgs[0].Key), d.CmdArgs[1].Key == "well")
	case "agent":
		agent := s.h.Agent(1)
		map[string]func(){
			"kill": agent.Kill, "start": agent.Start, "gone": agent.MarkGone, "cancel": agent.CancelMaintenance,
			"drain": func() { agent.Drain(time.Minute) }, "maintain": func() { agent.Maintain(time.Hour, time.Hour) },
		}[d.CmdArgs[0].Key]()
	case "master":
		if !d.HasArg("start") {
			s.h.Masters()[0].Kill()
		}
		if !d.HasArg("kill") {
			s.h.Masters()[0].Start()
		}
	default:
		d.Fatalf(s.h.T(), "no such line: %s %v", d.Cmd, words)
	}
	s.h.Advance(3500 * time.Millisecond)
	if heard := s.heard(); !d.HasArg("quiet") {
		out.WriteString(heard)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

// post posts a call, and answers with the code of the reply and what it says.
func (s *story) post(text string) string {
	call := new(schedulerv1.Call)
	if err := codec.JSON.Unmarshal([]byte(text), call); err != nil {
		s.h.T().Fatal(err)
	}
	if call.GetType() == schedulerv1.Call_SUBSCRIBE {
		s.hangUp()
	} else if call.FrameworkId == nil && s.framework != "" {
		call.FrameworkId = &mesosv1.FrameworkID{Value: proto.String(s.framework)}
	}
	return s.send(call)
}

func (s *story) send(call *schedulerv1.Call) string {
	body, err := s.encoding.Marshal(call)
	if err != nil {
		s.h.T().Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://gateway/api/v1/scheduler", bytes.NewReader(body))
	if err != nil {
		s.h.T().Fatal(err)
	}
	request.Header.Set("Content-Type", s.encoding.ContentType())
	request.Header.Set("Accept", s.encoding.ContentType())
	subscribes := call.GetType() == schedulerv1.Call_SUBSCRIBE
	if !subscribes && s.stream != "" {
		request.Header.Set("Mesos-Stream-Id", s.stream)
	}
	reply := s.do(request)
	if subscribes && reply.StatusCode == http.StatusOK {
		s.stream = reply.Header.Get("Mesos-Stream-Id")
		if got := reply.Header.Get("Content-Type"); got != s.encoding.ContentType() || reply.ContentLength >= 0 || s.stream == "" {
			s.h.T().Errorf("the stream has the type %q, the length %d and the ID %q", got, reply.ContentLength, s.stream)
		}
		s.read(reply)
		return "200\n"
	}
	return said(reply)
}

func said(reply *http.Response) string {
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err.Error() + "\n"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", reply.StatusCode, text)) + "\n"
}

// raw makes the request "METHOD PATH Header=value...".
func (s *story) raw(d *datadriven.TestData) string {
	request, err := http.NewRequestWithContext(context.Background(), d.CmdArgs[0].Key, "http://gateway"+d.CmdArgs[1].Key, strings.NewReader(d.Input))
	if err != nil {
		s.h.T().Fatal(err)
	}
	for _, arg := range d.CmdArgs[2:] {
		request.Header.Add(arg.Key, arg.Vals[0])
	}
	reply := s.do(request) //nolint:bodyclose // said and hangUp close it
	return said(reply)
}

// read takes in the events of a stream until it ends.
func (s *story) read(reply *http.Response) {
	reading := make(chan struct{})
	s.reply, s.reading = reply, reading
	go func() {
		defer close(reading)
		records := codec.NewRecordReader(reply.Body, 4<<20)
		for {
			record, err := records.Next()
			if err != nil {
				return
			}
			event := new(schedulerv1.Event)
			if err := s.encoding.Unmarshal(record, event); err != nil {
				s.h.T().Errorf("%v in %q", err, record)
			}
			s.mu.Lock()
			s.told = append(s.told, event)
			s.mu.Unlock()
		}
	}()
}

func taskOf(event *schedulerv1.Event) string {
	return event.GetUpdate().GetStatus().GetTaskId().GetValue()
}

var times = regexp.MustCompile(`,?"timestamp":[0-9.e+]+|"start":{"nanoseconds":[0-9]+}`)

// heard tells the events since its last call.
func (s *story) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.told, func(a, b *schedulerv1.Event) int {
		return cmp.Or(int(a.GetType())-int(b.GetType()), cmp.Compare(taskOf(a), taskOf(b)))
	})
	var out strings.Builder
	for _, event := range s.told {
		if id := event.GetSubscribed().GetFrameworkId().GetValue(); id != "" {
			s.framework = id
		}
		text, err := codec.JSON.Marshal(event)
		if err != nil {
			s.h.T().Error(err)
		}
		line := times.ReplaceAllString(string(text), "")
		if status := event.GetUpdate().GetStatus(); len(status.GetUuid()) > 0 {
			s.latest[status.GetTaskId().GetValue()] = status
			uuid := base64.StdEncoding.EncodeToString(status.GetUuid())
			if s.uuids[uuid] == "" {
				s.uuids[uuid] = fmt.Sprint(len(s.uuids) + 1)
			}
			line = strings.ReplaceAll(line, uuid, s.uuids[uuid])
		}
		out.WriteString(line + "\n")
	}
	s.told = nil
	return out.String()
}

func (s *story) acknowledge(task string) string {
	status := s.latest[task]
	if status == nil {
		s.h.T().Fatalf("nothing is to be acknowledged of %s", task)
	}
	return s.send(&schedulerv1.Call{
		FrameworkId: &mesosv1.FrameworkID{Value: proto.String(s.framework)}, Type: schedulerv1.Call_ACKNOWLEDGE.Enum(),
		Acknowledge: &schedulerv1.Call_Acknowledge{AgentId: status.GetAgentId(), TaskId: status.GetTaskId(), Uuid: status.GetUuid()},
	})
}
