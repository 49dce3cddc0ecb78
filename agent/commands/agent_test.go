package commands

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/wire"
)

// agent is an agent that the test plays, over a real unix socket, for one executor in this process. Tests do not run in
// parallel, because an executor waits for all children of its process.
type agent struct {
	apiv1.UnimplementedExecutorServiceServer
	t        testing.TB
	folder   string
	out      chan []protocol.ExecutorEvent
	statuses chan protocol.ExecutorStatus
	done     chan error
}

func start(t testing.TB) *agent { return startTold(t, "") }

// startTold starts the executor with what its agent tells it of control groups.
func startTold(t testing.TB, told string) *agent {
	folder, err := os.MkdirTemp("", "tender-") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{
		t: t, folder: folder,
		out: make(chan []protocol.ExecutorEvent, 1<<16), statuses: make(chan protocol.ExecutorStatus, 1<<16), done: make(chan error, 1),
	}
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	apiv1.RegisterExecutorServiceServer(server, a)
	go func() { _ = server.Serve(listener) }() // until Stop
	go func() {
		a.done <- Serve(context.Background(), executor.Config{Socket: socket, Framework: "framework-1", ID: api.CommandExecutor}, told)
	}()
	t.Cleanup(func() {
		a.send(protocol.ExecutorShutdown{})
		if err := hang.Receive(t, "the end of the executor", a.state, a.done); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		server.Stop()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *agent) Session(stream grpc.BidiStreamingServer[apiv1.ExecutorCalls, apiv1.ExecutorEvents]) error {
	_ = stream.Send(wire.ExecutorEventsToProto([]protocol.ExecutorEvent{protocol.ExecutorSubscribed{Agent: "agent-1", Hostname: "host"}}))
	go func() {
		for {
			select {
			case events := <-a.out:
				_ = stream.Send(wire.ExecutorEventsToProto(events))
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		message, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the executor is gone, and Serve has told how it ended
		}
		calls, err := wire.ExecutorCallsAfter(0, message)
		if err != nil {
			a.t.Errorf("the executor sent what an agent refuses: %v", err)
		}
		var acks []protocol.ExecutorEvent
		for _, call := range calls {
			if status, ok := call.(protocol.ExecutorStatus); ok {
				acks = append(acks, protocol.ExecutorAcknowledged{Task: status.Task, Number: status.Number})
				a.statuses <- status
			}
		}
		a.send(acks...)
	}
}

func (a *agent) send(events ...protocol.ExecutorEvent) { a.out <- events }

// sandbox makes a task's sandbox, and returns its path.
func (a *agent) sandbox(id api.TaskID) string {
	path := filepath.Join(a.folder, string(id))
	if err := os.MkdirAll(path, 0o755); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func (a *agent) launch(task api.Task) {
	a.send(protocol.ExecutorLaunch{Task: task, Sandbox: a.sandbox(task.ID)})
}

// shell launches a task that runs a line of a shell.
func (a *agent) shell(id api.TaskID, line string) {
	a.launch(api.Task{ID: id, Command: &api.Command{Shell: line}})
}

// want waits for the task's next status, which must have this state.
func (a *agent) want(id api.TaskID, state api.TaskState) protocol.ExecutorStatus {
	a.t.Helper()
	status := hang.Receive(a.t, fmt.Sprintf("%s %v", id, state), a.state, a.statuses)
	if status.Task != id || status.State != state {
		a.t.Fatalf("%s is %v %v (%s), want %s %v", status.Task, status.State, status.Reason, status.Message, id, state)
	}
	return status
}

// state describes what the tasks have written, and what the executor, which runs in this process, is doing.
func (a *agent) state() string {
	var text strings.Builder
	_ = filepath.WalkDir(a.folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			written, _ := os.ReadFile(path) // a task may have removed it
			fmt.Fprintf(&text, "%s: %.200q\n", strings.TrimPrefix(path, a.folder), written)
		}
		return nil
	})
	stacks := make([]byte, 1<<18)
	return text.String() + string(stacks[:runtime.Stack(stacks, true)])
}

// read returns the content of a file in the task's sandbox.
func (a *agent) read(id api.TaskID, name string) string {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.folder, string(id), name))
	if err != nil {
		a.t.Error(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}
