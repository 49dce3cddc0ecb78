package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/tools/bench/hostile"
	"github.com/tenderhq/tender/tools/devcluster"
	"github.com/tenderhq/tender/tools/loopback"
)

// letLoose starts the process of the hostile peers, which ends with ctx; sent is how many
// messages it says that it sent.
func letLoose(ctx context.Context, leader devcluster.Node, o options) (sent func() string, err error) {
	child, in, err := again(yieldingTo(), "-only", "hostiles", "-binary", o.binary, "-masters", leader.GRPC+","+leader.HTTP, "-peer", o.peer)
	if err != nil {
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = in.Close() })
	return func() string {
		said, _ := bufio.NewReader(out).ReadString('\n')
		_ = child.Wait() // it has said what it had to
		return strings.TrimSpace(said)
	}, nil
}

// hostilesMain is that process: it ends with its standard input.
func hostilesMain(ctx context.Context, o options) error {
	ctx, cancel := untilInputEnds(ctx)
	defer cancel()
	grpcAddress, httpAddress, _ := strings.Cut(o.masters, ",")
	flooded := make(chan error, 1)
	go func() {
		if strings.Contains(floodName, o.peer) {
			flooded <- flood(ctx, grpcAddress)
			return
		}
		flooded <- nil
	}()
	sent := hostile.Run(ctx, hostile.Target{GRPC: grpcAddress, HTTP: httpAddress}, o.peer)
	fmt.Println(sent)
	return <-flooded
}

// floodName is what the framework is called whose executors are hostile.
const floodName = "executors that flood, read nothing and guess tokens"

// flood runs a framework whose executor sends messages and reports without end.
func flood(ctx context.Context, master string) error {
	self, err := executor.Self("flooder")
	if err != nil {
		return err
	}
	self.Command.Argv = yieldingTo(self.Command.Argv...) // its agent is on another machine than the leader
	own := loopback.Dialer(hostile.AddressBeside)
	config := framework.Config{
		Name: "flooder", Masters: []string{master}, Roles: []api.Role{hostile.Role}, TeardownAtEnd: true,
		Dialer: func(ctx context.Context, address string) (net.Conn, error) {
			return own.DialContext(ctx, "tcp", address)
		},
	}
	if err := framework.Run(ctx, config, &flooder{self: self}); ctx.Err() == nil {
		return err
	}
	return nil // its removal may come too late, as it has said too much
}

// flooder runs two executors: one on the SDK that sends as much as it may, and one that keeps to no rule. To the
// second it sends messages, which that one does not read.
type flooder struct {
	self   *api.Executor
	client *framework.Client
	next   int
}

func (f *flooder) Subscribed(_ context.Context, client *framework.Client) error {
	f.client = client
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(0.1, 32), Count: 2, Constraint: notOfFlock}}})
}

func (f *flooder) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		self := *f.self
		if f.next++; f.next%2 == 0 {
			self.ID = ruleless
		}
		answers = append(answers, api.Launch(offer, api.Task{
			ID: api.TaskID(fmt.Sprint("flood-", f.next)), Resources: api.Scalars(0.1, 32), Executor: &self, Data: []byte(floodWord),
		}))
	}
	return answers
}

// Update sends messages to where something has happened.
func (f *flooder) Update(_ context.Context, status api.Status) error {
	for range 100 {
		_ = f.client.Message(status.Agent, ruleless, make([]byte, 32<<10)) // it may come to nothing
	}
	return nil
}

// Message takes what its executor sends, and sends some back.
func (f *flooder) Message(_ context.Context, agent api.AgentID, _ api.ExecutorID, _ []byte) {
	_ = f.client.Message(agent, ruleless, make([]byte, 32<<10)) // it may come to nothing
}

// notOfFlock leaves out the agents that are only sessions: no executor runs there.
const notOfFlock = `attributes.?rack.orValue("") == ""`

// ruleless is the executor that keeps to no rule.
const ruleless = "ruleless"

// hostileExecutor says whether this process is that one, and if so ends with ctx.
func hostileExecutor(ctx context.Context) (is bool, err error) {
	if os.Getenv(protocol.ExecutorIDEnv) != ruleless {
		return false, nil
	}
	descriptor, err := strconv.Atoi(os.Getenv(protocol.ExecutorTokenFDEnv))
	if err != nil {
		return true, err
	}
	token, err := io.ReadAll(os.NewFile(uintptr(descriptor), "token"))
	if err != nil {
		return true, err
	}
	hostile.RunExecutor(ctx, hostile.Socket{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", os.Getenv(protocol.ExecutorSocketEnv))
		},
		Framework: os.Getenv(protocol.ExecutorFrameworkIDEnv), Executor: ruleless, Token: string(token),
	})
	return true, nil
}

// floodWord is what the executor is told that floods.
const floodWord = "flood"

// floodTask sends as much as it is let.
func floodTask(ctx context.Context, task *executor.Task) error {
	data := make([]byte, 32<<10)
	for i := 0; ctx.Err() == nil; i++ {
		if err := task.Message(data); err != nil && !pause.For(ctx, 10*time.Millisecond) {
			return nil
		}
		task.Progress(data[:1024], fmt.Sprint("report ", i))
		pause.For(ctx, time.Millisecond) // what is not limited at the agent must not fill its disk
	}
	return nil
}

// yieldingTo returns a command that yields the processors to all others: by Linux's idle policy, or else only by its
// priority, with which it still gets some milliseconds now and then.
func yieldingTo(argv ...string) []string {
	command := []string{"nice", "-n", "19"}
	if _, err := exec.LookPath("chrt"); err == nil {
		command = append(command, "chrt", "--idle", "0")
	}
	return append(command, argv...)
}

// again returns this program as a child process of ours, behind the words of another command if there are any. It ends
// with its input.
func again(behind []string, args ...string) (child *exec.Cmd, in io.Closer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	argv := slices.Concat(behind, []string{self}, args)
	child = exec.Command(argv[0], argv[1:]...)
	child.SysProcAttr, child.Stderr = ofOurs(), os.Stderr
	in, err = child.StdinPipe()
	return child, in, err
}

// untilInputEnds returns a context that ends with the standard input of this process.
func untilInputEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	return ctx, cancel
}
