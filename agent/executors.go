package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/allowance"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/strangers"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// executorEventsMax and executorBytesMax limit what waits for an executor. An executor that reads too slowly loses
	// its stream; it comes back and is told again. There is room for an answer to each of the tasks that a subscription
	// may name, and for as many launches.
	executorEventsMax = 2 * subscribeTasksMax
	executorBytesMax  = 64 << 20
	// executorStreamsMax is how many streams one connection may have. An executor needs one, and a second one when it
	// comes back before the end of the first is noticed. Further ones wait.
	executorStreamsMax = 4
	// subscribeTimeout is how long an executor may take to send its first call.
	subscribeTimeout = 30 * time.Second
	// subscribeTasksMax is how many tasks an executor may name in a subscription: as many as an agent holds, and as
	// many ends that are not acknowledged. An executor that names more is refused.
	subscribeTasksMax = 200_000
	subscribePagesMax = 1024
	// executorReadsMax is how many messages of all executors may be read and wait for the loop. Further ones are read
	// in the order in which they came.
	executorReadsMax = 16
	// executorsBytesMax limits the messages that wait for all executors together. A message beyond it is dropped and
	// counted.
	executorsBytesMax = 128 << 20
	// executorSendTimeMax is how long one message may wait for its executor to read it. After that the executor loses
	// its stream; it comes back and is told again.
	executorSendTimeMax = 30 * time.Second
)

// outgoing is an event for an executor. If folder or shared is set, it is a launch. Its folders are made first, by the
// stream's writer, so that neither the loop nor other executors wait.
type outgoing struct {
	event  protocol.ExecutorEvent
	task   core.TaskLaunch
	folder string
	as     executor.As
	// shared is the folder of the task's group, which is in the folder of one of its tasks.
	shared string
	// builtin says that the executor is the agent's own for commands.
	builtin bool
}

// bytes returns what the event adds to memory while it waits: the data of a message. All other events are small, or
// hold what the core keeps anyway.
func (o outgoing) bytes() int {
	if message, is := o.event.(protocol.ExecutorMessage); is {
		return len(message.Data)
	}
	return 0
}

// executorStream is an executor's stream as gRPC has it.
type executorStream = grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]

// executorLink is an executor's stream as the loop has it.
type executorLink struct {
	conn    core.Conn
	builtin bool // it is the agent's own for commands
	out     *outbox[outgoing]
	cancel  context.CancelFunc // ends the stream, even while a write waits for the executor to read
}

// executorStreams are the streams of all executors: who may open one, how much is read from it, and what waits for it.
type executorStreams struct {
	config    *Config
	log       zerolog.Logger
	folder    *dataFolder
	inbox     *inbox
	metrics   *metrics
	now       *lifetime
	walls     *isolation
	listeners *listeners
	runs      *runs

	links     map[core.Conn]*executorLink // the loop's goroutine only
	strangers *strangers.Room             // streams that have not subscribed yet
	reading   chan struct{}               // has one element for each message that is read and waits for the loop
	telling   *commonRoom                 // limits what waits for all executors together
}

// beginReading waits until a message of an executor may be read. It returns false if the context ends first.
func (e *executorStreams) beginReading(ctx context.Context) bool {
	select {
	case e.reading <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *executorStreams) endReading() { <-e.reading }

// executorServer serves the sessions of executors.
type executorServer struct {
	apiv1.UnimplementedExecutorServiceServer
	executors *executorStreams
	ctx       context.Context // the context of the agent's life
}

// serve serves the executors' socket until the context ends.
func (e *executorStreams) serve(ctx context.Context) {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(api.MessageBytesMax+messageSlackBytes),
		grpc.InitialWindowSize(wire.StreamWindowBytes),
		grpc.InitialConnWindowSize(wire.ConnWindowBytes),
		grpc.WaitForHandlers(true),
		grpc.MaxConcurrentStreams(executorStreamsMax),
		grpc.ForceServerCodecV2(wire.Codec()),
	)
	apiv1.RegisterExecutorServiceServer(server, &executorServer{executors: e, ctx: ctx})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(e.listeners.sockets.during(ctx)); err != nil && ctx.Err() == nil {
		e.inbox.fail(api.E("agent.executors", api.Internal, e.listeners.socket, err))
	}
	server.Stop()
}

// Session serves one stream from its first call to its end.
func (s *executorServer) Session(stream executorStream) error {
	first, calls, err := s.opening(stream)
	if err != nil {
		return wire.Status(err)
	}
	if err := s.executors.runs.checkPeer(stream.Context(), first.ExecutorRef); err != nil {
		return wire.Status(err)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	end := func() { cancel(nil) }
	defer context.AfterFunc(s.ctx, end)()
	link := &executorLink{
		conn: s.executors.inbox.nextConn(), builtin: first.Executor == api.CommandExecutor, cancel: end,
		out: newOutbox(outboxLimits{executorEventsMax, executorBytesMax}, outgoing.bytes),
	}
	link.out.common = s.executors.telling
	defer link.out.discard()
	if !s.executors.inbox.post(ctx, item{what: core.ExecutorOpened{Conn: link.conn, Subscribe: first}, executor: link}) {
		return wire.Status(ctx.Err())
	}
	if len(calls) > 0 {
		s.executors.inbox.postEvent(ctx, core.ExecutorCalled{Conn: link.conn, Calls: calls})
	}
	// The reader ends with the stream, which ends when this handler returns. So does the writer, because nothing else
	// ends a Send to an executor that does not read.
	s.executors.now.start(func() { s.read(ctx, end, link.conn, stream) })
	wrote := make(chan error, 1)
	s.executors.now.start(func() { wrote <- s.write(ctx, cancel, link, stream) })
	select {
	case err = <-wrote:
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = s.ending(ctx, link)
		}
	}
	return wire.Status(err)
}

// opening waits for the whole first call and returns it, with the calls that follow it in the same message.
func (s *executorServer) opening(stream executorStream) (protocol.SubscribeExecutor, []protocol.ExecutorCall, error) {
	type opened struct {
		first protocol.SubscribeExecutor
		calls []protocol.ExecutorCall
		err   error
	}
	evicted := make(chan struct{})
	defer s.executors.strangers.Enter(func() { close(evicted) })()
	said := make(chan opened, 1)
	s.executors.now.start(func() { // this goroutine ends with the stream, which ends when the handler returns
		first, calls, err := s.subscription(stream)
		said <- opened{first, calls, err}
	})
	late := time.NewTimer(subscribeTimeout)
	defer late.Stop()
	why := fmt.Errorf("the first call of a session, SubscribeExecutor, did not come within %v", subscribeTimeout)
	select {
	case o := <-said:
		return o.first, o.calls, o.err
	case <-evicted:
		why = errors.New("very many streams have not said whose they are, this one for longest; come back")
	case <-late.C:
	case <-s.ctx.Done():
	}
	return protocol.SubscribeExecutor{}, nil, api.E("executor.subscribe", api.Unavailable, "", why)
}

// subscription reads SubscribeExecutor, in as many pages as it has. The first page shows who subscribes: a stranger is
// refused before further pages are read.
func (s *executorServer) subscription(stream executorStream) (all protocol.SubscribeExecutor, rest []protocol.ExecutorCall, err error) {
	refuse := func(kind api.Kind, why string) error {
		return api.E("executor.subscribe", kind, all.ExecutorRef.String(), errors.New(why))
	}
	for pages := 0; ; {
		calls, err := s.receive(stream)
		if err != nil {
			return all, nil, err
		}
		for i, call := range calls {
			page, is := call.(protocol.SubscribeExecutor)
			switch {
			case !is:
				return all, nil, refuse(api.Invalid, "the first call of a session is SubscribeExecutor, with all its pages")
			case pages > 0 && page.ExecutorRef != all.ExecutorRef:
				return all, nil, refuse(api.Invalid, "a page is of another executor")
			case page.More && len(page.Unacknowledged) > 0:
				return all, nil, refuse(api.Invalid, "statuses stand on the last page, or follow it")
			case pages >= subscribePagesMax || len(all.Tasks)+len(page.Tasks) > subscribeTasksMax:
				return all, nil, refuse(api.Limit,
					fmt.Sprintf("it names more than %d tasks, or on more than %d pages", subscribeTasksMax, subscribePagesMax))
			}
			if pages == 0 && page.More {
				if err := s.stranger(page); err != nil {
					return all, nil, err
				}
			}
			page.Tasks = append(all.Tasks, page.Tasks...)
			all, pages = page, pages+1
			if !page.More {
				return all, calls[i+1:], nil
			}
		}
	}
}

// stranger asks the core whether the executor that subscribes is known, and returns its refusal.
func (s *executorServer) stranger(page protocol.SubscribeExecutor) error {
	var refused *api.Error
	if !s.executors.inbox.ask(s.ctx, func(c *core.Core) { refused = c.Stranger(page) }) {
		return api.E("executor.subscribe", api.Unavailable, "", errors.New("the agent goes away; come back when it is there again"))
	}
	if refused != nil {
		return refused
	}
	return nil
}

// receive reads the first message of a stream, or a further page of the subscription.
func (s *executorServer) receive(stream grpc.ServerStream) (calls []protocol.ExecutorCall, err error) {
	frame := new(wire.Frame)
	if err := stream.RecvMsg(frame); err != nil {
		return nil, err
	}
	defer frame.Free()
	parts, err := frame.ExecutorParts()
	if err != nil {
		return nil, err
	}
	if !s.executors.beginReading(s.ctx) {
		return nil, s.ctx.Err()
	}
	defer s.executors.endReading()
	for _, part := range parts {
		some, err := executorCalls(len(calls), part.Bytes)
		if calls = append(calls, some...); err != nil {
			return calls, err
		}
	}
	return calls, nil
}

func executorCalls(before int, part []byte) ([]protocol.ExecutorCall, error) {
	m := new(apiv1.ExecutorCalls)
	if err := proto.Unmarshal(part, m); err != nil {
		return nil, wire.Unreadable("wire.executor")
	}
	return wire.ExecutorCallsAfter(before, m)
}

// read brings everything that the executor sends to the loop, and ExecutorClosed at the end. At most one message of a
// stream waits for the loop; nothing more is read meanwhile (R34).
func (s *executorServer) read(ctx context.Context, end func(), conn core.Conn, stream grpc.ServerStream) {
	defer end()
	defer s.executors.inbox.postEvent(s.ctx, core.ExecutorClosed{Conn: conn})
	allowed := allowance.New(executorRate, time.Now())
	for {
		s.executors.now.disk.waitForRoom(ctx)
		frame := new(wire.Frame)
		if stream.RecvMsg(frame) != nil {
			return
		}
		if err := s.bringMessage(ctx, conn, frame, &allowed); err != nil {
			if ctx.Err() == nil && api.KindOf(err) != api.Unavailable {
				s.executors.log.Warn().Err(err).Msg("an executor's call is wrong; its stream is closed")
			}
			return
		}
	}
}

// bringMessage reads a message part by part, and brings each part to the loop before the next one is read. It frees the frame.
func (s *executorServer) bringMessage(ctx context.Context, conn core.Conn, frame *wire.Frame, allowed *allowance.Allowance) error {
	defer frame.Free()
	parts, err := frame.ExecutorParts()
	if err != nil {
		return err
	}
	before := 0
	for _, part := range parts {
		s.hold(ctx, allowed, float64(part.Weight))
		if err := s.bringPart(conn, before, part.Bytes, allowed); err != nil {
			return err
		}
		before += part.Calls
	}
	return nil
}

func (s *executorServer) bringPart(conn core.Conn, before int, part []byte, allowed *allowance.Allowance) error {
	ends := api.E("executor.session", api.Unavailable, "", errors.New("the agent goes away"))
	if !s.executors.beginReading(s.ctx) {
		return ends
	}
	defer s.executors.endReading()
	calls, err := executorCalls(before, part)
	if len(calls) == 0 {
		return err
	}
	allowed.Take(time.Now(), executorPrice(calls)) // the next part waits until this is paid for
	taken := make(chan struct{}, 1)
	if !s.executors.inbox.post(s.ctx, item{what: core.ExecutorCalled{Conn: conn, Calls: calls}, taken: taken}) {
		return ends
	}
	select {
	case <-taken:
	case <-s.ctx.Done():
		return ends
	}
	return err
}

// write sends what is queued, in batches, until the outbox is closed or the stream ends. A message that waits too long
// to be read ends the stream.
func (s *executorServer) write(ctx context.Context, cancel context.CancelCauseFunc, link *executorLink, stream executorStream) error {
	for {
		items, more := link.out.take(ctx)
		events := make([]protocol.ExecutorEvent, 0, len(items))
		s.holdRoom(items)
		for _, out := range items {
			if out.folder == "" && out.shared == "" || s.prepared(ctx, out) {
				events = append(events, out.event)
			}
		}
		batches, err := wire.ExecutorEventBatches(events)
		if err != nil {
			s.executors.log.Error().Err(err).Msg("dropped an event for an executor that is too large for a message")
		}
		for _, batch := range batches {
			late := time.AfterFunc(executorSendTimeMax, func() {
				cancel(api.E("executor.session", api.Limit, "", errors.New("nothing was read for "+executorSendTimeMax.String()+"; come back")))
			})
			err := stream.Send(batch)
			late.Stop()
			if err != nil {
				return err
			}
		}
		if !more {
			return s.ending(ctx, link)
		}
	}
}

// ending returns the stream's status: the error that the core gave, or that the agent is stopping.
func (s *executorServer) ending(ctx context.Context, link *executorLink) error {
	if err := link.out.reason(); err != nil {
		return err
	}
	if s.ctx.Err() != nil || ctx.Err() != nil {
		return api.E("executor.session", api.Unavailable, "", errors.New("the agent goes away; come back when it is there again"))
	}
	return nil
}

// holdRoom adjusts the limits of an executor's walls to include all tasks that it is about to be handed, at once.
func (s *executorServer) holdRoom(items []outgoing) {
	var ref api.ExecutorRef
	var tasks []*api.Task
	gpus := map[api.TaskID][]uint32{}
	for i := range items {
		if launch, is := items[i].event.(protocol.ExecutorLaunch); is {
			ref = api.ExecutorRef{Framework: items[i].task.Framework, Executor: launch.Task.ExecutorID()} // the same for all
			tasks = append(tasks, &launch.Task)
			if len(launch.GPUs) > 0 {
				gpus[launch.Task.ID] = protocol.GPUIndices(launch.GPUs)
			}
		}
	}
	if len(tasks) == 0 {
		return
	}
	if err := s.executors.walls.cells.Mend(ref, s.executors.runs.living); err != nil {
		s.executors.log.Warn().Err(err).Stringer("executor", ref).Msg("an executor runs without its control group")
	}
	if err := s.executors.walls.cells.Hold(ref, tasks, gpus); err != nil {
		s.executors.log.Warn().Err(err).Stringer("executor", ref).Msg("the control group of an executor was not enlarged for its tasks")
	}
}

// prepared makes the folders of a task. If that fails, the task ends.
func (s *executorServer) prepared(ctx context.Context, out outgoing) bool {
	var err error
	if out.folder != "" {
		err = s.executors.config.Launcher.Prepare(ctx, executor.TaskPlace(out.folder, out.builtin, out.as), nil)
	}
	if err == nil && out.shared != "" {
		err = s.executors.folder.makeShared(ctx, out)
	}
	if err == nil {
		return true
	}
	s.executors.inbox.postEvent(s.ctx, core.TaskPrepared{
		Task: out.task, Reason: executor.Reason(err), Message: fmt.Sprintf("its folder can't be made: %v", err),
	})
	return false
}

func (e *executorStreams) send(conn core.Conn, out outgoing) {
	link := e.links[conn]
	if link == nil {
		return
	}
	if _, is := out.event.(protocol.ExecutorMessage); is {
		if !link.out.putSpare(out) {
			e.metrics.dropped.Add(1)
		}
		return
	}
	put := link.out.put
	if _, is := out.event.(protocol.ExecutorAcknowledged); is && link.builtin { // those of frameworks may wait for it: Task.Flush
		put = link.out.putLater
	}
	if !put(out) {
		link.cancel()
	}
}
