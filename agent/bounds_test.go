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

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// While much waits for the disk, nothing more is read from executors; it goes on when the disk has taken it (R34).
func TestReadersWaitForTheDisk(t *testing.T) {
	w := newWriter(checkpoint.NewMemory())
	w.waitForRoom(t.Context()) // there is room at first
	record := core.TaskStatus{Status: api.Status{Data: make([]byte, api.StatusDataBytesMax)}}
	for number := range uint64(pendingBytesMax/api.StatusDataBytesMax + 1) {
		w.add(number+1, record)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.waitForRoom(over) // the stream has ended: what it still holds is read
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

// talker is the stream of an executor that always has more to say.
type talker struct {
	grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]
	ctx  context.Context
	said int
}

func (s *talker) Recv() (*apiv1.ExecutorCalls, error) {
	if s.ctx.Err() != nil {
		return nil, s.ctx.Err()
	}
	s.said++
	batches, err := wire.ExecutorCallBatches([]protocol.ExecutorCall{protocol.ExecutorMessage{Data: []byte("more")}})
	if err != nil {
		return nil, err
	}
	return batches[0], nil
}

// While a message of an executor waits for the loop, no other is read from its stream (R34).
func TestOneMessageOfAnExecutorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &Agent{inbox: make(chan item, inboxItemsMax), disk: newWriter(checkpoint.NewMemory()), core: core.New(core.Config{}, nil)}
		server := &executorServer{agent: a, ctx: ctx}
		stream := &talker{ctx: ctx}
		a.start(func() { server.read(ctx, cancel, 1, stream) })
		for taken := range 3 {
			synctest.Wait()
			if stream.said != taken+1 || len(a.inbox) != 1 {
				t.Fatalf("the loop took %d messages, %d were read and %d wait", taken, stream.said, len(a.inbox))
			}
			a.step(time.Now(), <-a.inbox)
		}
		cancel()
		a.work.Wait()
	})
}

// slowFetch is a launcher whose fetches end only when they are told to stop.
type slowFetch struct {
	*process.Launcher
	begun   chan string // the names of tasks
	ended   chan string
	under   atomic.Int64
	tooMany atomic.Bool // more were under way at once than may be
}

func (l *slowFetch) Prepare(ctx context.Context, sandbox string, uris []api.URI) error {
	if len(uris) == 0 {
		return l.Launcher.Prepare(ctx, sandbox, uris)
	}
	if l.under.Add(1) > fetchesMax {
		l.tooMany.Store(true)
	}
	l.begun <- filepath.Base(sandbox)
	<-ctx.Done()
	l.under.Add(-1)
	l.ended <- filepath.Base(sandbox)
	return ctx.Err()
}

// Of many tasks with files only so many fetch at once. The kill of a task ends its fetch, and another begins (R34).
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

// Whoever reaches the socket has few streams on a connection: one more waits until another ends (R34).
func TestStreamsOfAnExecutorsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.run()
		await(m.master, "registration", func(protocol.RegisterAgent) bool { return true })
		connection, err := grpc.NewClient("passthrough:///agent:1", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return m.net.From("executor").Dial(ctx, to) }))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := apiv1.NewExecutorServiceClient(connection)
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
