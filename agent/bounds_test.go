package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/agent/life"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// While much waits for the disk, nothing more is read from executors. Reading goes on when the disk has taken it (R34).
func TestReadersWaitForTheDisk(t *testing.T) {
	w := newWriter(checkpoint.NewMemory(), nil, nil, zerolog.Nop(), nil)
	w.waitForRoom(t.Context()) // there is room at first
	record := core.TaskStatus{Status: api.Status{Data: make([]byte, api.StatusDataBytesMax)}}
	for number := range uint64(pendingBytesMax/api.StatusDataBytesMax + 1) {
		w.add(number+1, record)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.waitForRoom(over) // the stream has ended, so what it still holds is read
	w.mutex.Lock()
	room := w.room
	w.mutex.Unlock()
	if room == nil {
		t.Fatal("a reader did not wait, though more waits for the disk than may")
	}
	w.take()
	<-room
	w.waitForRoom(t.Context())
}

// talker is the stream of an executor that always sends more.
type talker struct {
	grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]
	ctx  context.Context
	said int
}

func (s *talker) RecvMsg(into any) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	s.said++
	batches, err := wire.ExecutorCallBatches([]protocol.ExecutorCall{protocol.ExecutorMessage{Data: []byte("more")}})
	if err != nil {
		return err
	}
	data, err := proto.Marshal(batches[0])
	if err != nil {
		return err
	}
	return wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into)
}

// newLoop returns as much of an agent as streams of executors need.
func newLoop() *Agent {
	a := build(&Config{})
	a.now.disk, a.now.core = newWriter(checkpoint.NewMemory(), nil, nil, zerolog.Nop(), nil), core.New(core.Config{}, nil)
	a.now.life = life.New(a.now.core, shell{a})
	return a
}

// While a message of an executor waits for the loop, no further one is read from its stream (R34).
func TestOneMessageOfAnExecutorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newLoop()
		server := &executorServer{executors: a.executors, ctx: ctx}
		stream := &talker{ctx: ctx}
		a.now.start(func() { server.read(ctx, cancel, 1, stream) })
		for taken := range 3 {
			synctest.Wait()
			if stream.said != taken+1 || len(a.inbox.items) != 1 {
				t.Fatalf("the loop took %d messages, %d were read and %d wait", taken, stream.said, len(a.inbox.items))
			}
			a.stepItem(time.Now(), <-a.inbox.items)
		}
		cancel()
		a.now.running.Wait()
	})
}

// shouter is the stream of an executor that sends large messages as fast as they are read.
type shouter struct{ talker }

func (s *shouter) RecvMsg(into any) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	s.said++
	data, err := proto.Marshal(&apiv1.ExecutorCalls{Calls: []*apiv1.ExecutorCall{{Call: &apiv1.ExecutorCall_Message{
		Message: &apiv1.ExecutorMessage{Data: make([]byte, 64<<10)}}}}})
	if err != nil {
		return err
	}
	return wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into)
}

// However fast the loop takes what an executor sends, it is read only at its allowed rate. A stream that has ended does
// not wait (R34).
func TestExecutorsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newLoop()
		stream := &shouter{talker{ctx: ctx}}
		server := &executorServer{executors: a.executors, ctx: t.Context()}
		a.now.start(func() { server.read(ctx, cancel, 1, stream) })
		const seconds = 10
		taken, over := 0, time.After(seconds*time.Second)
		for going := true; going; {
			select {
			case it := <-a.inbox.items:
				a.stepItem(time.Now(), it)
				taken++
			case <-over:
				going = false
			}
		}
		price := executorPrice([]protocol.ExecutorCall{protocol.ExecutorMessage{Data: make([]byte, 64<<10)}})
		most := (executorRate.First + seconds*executorRate.PerSecond) / price
		if least := most * 8 / 10; float64(taken) < least || float64(taken) > most+2 {
			t.Errorf("%d messages were read in %d s; about %.0f may be", taken, seconds, most)
		}
		if a.metrics.held.Load() == 0 {
			t.Error("nothing says that it was held")
		}
		began := time.Now()
		cancel()
		a.stepItem(time.Now(), <-a.inbox.items) // what the stream still held
		a.stepItem(time.Now(), <-a.inbox.items) // the end of the stream
		a.now.running.Wait()
		if held := time.Since(began); held != 0 {
			t.Errorf("a stream that has ended is held for %v", held)
		}
	})
}

// Only so many messages of all executors together are read and wait for the loop. The others wait in their order (R34).
func TestFewMessagesOfAllExecutorsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newLoop()
		server := &executorServer{executors: a.executors, ctx: ctx}
		for conn := range core.Conn(3 * executorReadsMax) {
			a.now.start(func() { server.read(ctx, cancel, conn, &talker{ctx: ctx}) })
		}
		heard := map[core.Conn]int{}
		for range 9 * executorReadsMax {
			synctest.Wait()
			if len(a.inbox.items) != executorReadsMax {
				t.Fatalf("%d messages wait for the loop", len(a.inbox.items))
			}
			it := <-a.inbox.items
			heard[it.what.(core.ExecutorCalled).Conn]++
			a.stepItem(time.Now(), it)
		}
		if len(heard) != 3*executorReadsMax {
			t.Errorf("%d of %d executors were heard", len(heard), 3*executorReadsMax)
		}
		cancel()
		a.now.running.Wait()
	})
}

// client returns a client that can reach the socket of the agent.
func client(t *testing.T, m *memory) apiv1.ExecutorServiceClient {
	connection, err := grpc.NewClient("passthrough:///agent:1", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return m.net.From("executor").Dial(ctx, to) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return apiv1.NewExecutorServiceClient(connection)
}

// silent is the stream of an executor that sends nothing.
type silent struct{ talker }

func (s *silent) RecvMsg(any) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

func (s *silent) Context() context.Context { return s.ctx }

// Streams on which nothing is sent keep no executor out: the one that has been silent for longest ends (R34).
func TestSilentStreamsKeepNoExecutorOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newLoop()
		server := &executorServer{executors: a.executors, ctx: ctx}
		open := func() <-chan error {
			ended := make(chan error, 1)
			a.now.start(func() {
				_, _, err := server.opening(&silent{talker{ctx: ctx}})
				ended <- err
			})
			synctest.Wait()
			return ended
		}
		longest, next := open(), open()
		for range strangersMax - 1 {
			open()
		}
		select {
		case err := <-longest:
			if !api.Is(err, api.Unavailable) {
				t.Errorf("the oldest was ended with %v", err)
			}
		default:
			t.Error("the oldest was not ended")
		}
		select {
		case err := <-next:
			t.Errorf("the next one was ended too: %v", err)
		default:
		}
		cancel()
		a.now.running.Wait()
	})
}

// An executor that reads nothing loses its stream when one message has waited for it for half a minute (R34).
func TestAnExecutorThatReadsNothingLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := newLoop()
		server := &executorServer{executors: a.executors, ctx: ctx}
		life, over := context.WithCancel(ctx) // the life of the stream, which ends when its handler returns
		deaf := &deafStream{ctx: life}
		ended := make(chan error, 1)
		go func() {
			err := server.Session(deaf)
			over()
			ended <- err
		}()
		opened := <-a.inbox.items
		link := opened.executor
		link.out.put(outgoing{event: protocol.ExecutorKill{Task: "t1"}})
		synctest.Wait() // the message is on its way
		for range 3 {
			link.out.putSpare(outgoing{event: protocol.ExecutorMessage{Data: make([]byte, largeBytes)}})
		}
		began := time.Now()
		err := wire.Error(<-ended)
		if err == nil || err.Kind != api.Limit || time.Since(began) != executorSendTimeMax {
			t.Errorf("after %v it was told %v", time.Since(began), err)
		}
		for len(a.inbox.items) > 0 {
			a.stepItem(time.Now(), <-a.inbox.items)
		}
		a.now.running.Wait()
		if left := a.executors.telling.left.Load(); left != executorsBytesMax {
			t.Errorf("%d of %d bytes are free when nothing waits", left, executorsBytesMax)
		}
	})
}

// An executor whose queue is full loses its stream, even while a message is on its way to it (R34).
func TestAFullQueueEndsAStreamThatSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := newLoop()
		server := &executorServer{executors: a.executors, ctx: ctx}
		life, over := context.WithCancel(ctx)
		deaf := &deafStream{ctx: life}
		ended := make(chan error, 1)
		go func() {
			err := server.Session(deaf)
			over()
			ended <- err
		}()
		opened := <-a.inbox.items
		a.executors.links[1] = opened.executor
		began := time.Now()
		a.executors.send(1, outgoing{event: protocol.ExecutorKill{Task: "t1"}})
		synctest.Wait() // the message is on its way
		for range executorEventsMax + 1 {
			a.executors.send(1, outgoing{event: protocol.ExecutorKill{Task: "t1"}})
		}
		if err := <-ended; err == nil || time.Since(began) != 0 {
			t.Errorf("after %v it ended with %v", time.Since(began), err)
		}
		a.now.running.Wait()
	})
}

// deafStream subscribes and reads nothing: each Send waits until the stream ends.
type deafStream struct {
	grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]
	ctx  context.Context
	said bool
}

func (s *deafStream) Context() context.Context { return s.ctx }

func (s *deafStream) RecvMsg(into any) error {
	if s.said {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	s.said = true
	subscribe := protocol.SubscribeExecutor{ExecutorRef: api.ExecutorRef{Framework: "f1", Executor: "x"}, Token: "t", Version: "1.0.0"}
	data, err := proto.Marshal(wire.ExecutorCallsToProto([]protocol.ExecutorCall{subscribe}))
	if err != nil {
		return err
	}
	return wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into)
}

func (s *deafStream) Send(*apiv1.ExecutorEvents) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

// slowFetch is a launcher whose fetches end only when they are told to stop.
type slowFetch struct {
	*process.Launcher
	begun   chan string // names of tasks whose fetch has begun
	ended   chan string
	under   atomic.Int64
	tooMany atomic.Bool // more were under way at once than are allowed
}

func (l *slowFetch) Prepare(ctx context.Context, place executor.Place, uris []api.URI) error {
	if len(uris) == 0 {
		return l.Launcher.Prepare(ctx, place, uris)
	}
	if l.under.Add(1) > fetchesMax {
		l.tooMany.Store(true)
	}
	l.begun <- filepath.Base(place.Task)
	<-ctx.Done()
	l.under.Add(-1)
	l.ended <- filepath.Base(place.Task)
	return ctx.Err()
}

// Of many tasks with files only so many fetch at once. Killing a task ends its fetch, and another begins (R34).
func TestFetchesAreBoundedAndEndWithTheirTask(t *testing.T) {
	const tasks = fetchesMax + 2
	slow := &slowFetch{begun: make(chan string, tasks), ended: make(chan string, tasks)}
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Resources = api.Scalars(2*tasks, 64*tasks)
	slow.Launcher = &process.Launcher{Trash: filepath.Join(config.DataDir, "trash")}
	config.Launcher = executor.Launcher(slow)
	run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	for i := range tasks {
		task := command(api.TaskID(fmt.Sprintf("t%d", i)), "exit 0")
		task.Command.URIs = []api.URI{{Source: "/nowhere/file"}}
		master.launch(task)
	}
	for range fetchesMax {
		<-slow.begun
	}
	for id := range tasks {
		ref := api.TaskRef{Framework: "f1", Task: api.TaskID(fmt.Sprintf("t%d", id))}
		master.say(protocol.KillTask{TaskRef: ref, Reason: api.ReasonKilledByFramework})
		master.status(ref.Task, api.TaskKilled)
	}
	for range fetchesMax {
		<-slow.ended
	}
	if slow.tooMany.Load() {
		t.Errorf("more than %d fetches were under way at once", fetchesMax)
	}
}

// A client of the socket has only a few streams on a connection: a further one waits until another ends (R34).
func TestStreamsOfAnExecutorsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.run()
		await(m.master, "registration", func(protocol.RegisterAgent) bool { return true })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := client(t, m)
		first, end := context.WithCancel(ctx)
		for i := range executorStreamsMax {
			of := ctx
			if i == 0 {
				of = first
			}
			if _, err := client.Session(of); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		opened := make(chan error, 1)
		go func() {
			_, err := client.Session(ctx)
			opened <- err
		}()
		synctest.Wait()
		if len(opened) != 0 {
			t.Errorf("more than %d streams were opened on one connection", executorStreamsMax)
		}
		end()
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
}
