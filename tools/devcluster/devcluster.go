// Package devcluster runs `tender dev` as a child process for the demo and the
// benchmarks: it starts one, tells where its parts are, and ends it without a trace.
package devcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// Options say what to start. For zero fields `tender dev` chooses.
type Options struct {
	Binary    string // bin/tender
	Parent    string // the parent of the folder for all data; "" = the system's temporary folder
	Masters   int
	Agents    int
	Processes bool      // masters are processes of their own
	Insecure  bool      // without certificates
	Log       io.Writer // takes dev's output; nil = it is discarded
	Args      []string  // more flags
}

// Node is one master or agent as dev describes it.
type Node struct {
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	GRPC string `json:"grpc"`
	HTTP string `json:"http"`
}

// Cluster is a running `tender dev`.
type Cluster struct {
	Dir     string `json:"-"` // a reader of the description knows where it is
	Masters []Node `json:"masters"`
	Agents  []Node `json:"agents"`

	command *exec.Cmd
	ended   chan struct{} // closed when dev's output has ended
}

// Start starts dev and returns when it is ready.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	dir, err := os.MkdirTemp(options.Parent, "tender-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // the users of tasks must be able to pass through it
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, ended: make(chan struct{})}
	args := append([]string{
		"dev", "--free-ports", "--data-dir", filepath.Join(dir, "data"),
		"--masters", strconv.Itoa(max(options.Masters, 1)), "--agents", strconv.Itoa(max(options.Agents, 1)),
	}, options.Args...)
	if options.Processes {
		args = append(args, "--master-processes")
	}
	if options.Insecure {
		args = append(args, "--insecure")
	}
	c.command = exec.Command(options.Binary, args...)
	c.command.WaitDelay = time.Minute                           // in case something that dev left holds its output
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it does not get the terminal's Ctrl-C
	if err := c.start(ctx, options.Log); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, log io.Writer) error {
	read, write := io.Pipe()
	c.command.Stdout, c.command.Stderr = write, write
	if err := c.command.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.ended)
		_ = c.command.Wait() // Stop reports what matters
		_ = write.Close()
	}()
	ready := make(chan error, 1)
	go c.follow(read, log, ready)
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow copies dev's output until it ends. It reports when dev.json exists, which dev writes before it says that it is
// ready.
func (c *Cluster) follow(read io.Reader, log io.Writer, ready chan<- error) {
	if log == nil {
		log = io.Discard
	}
	var said []string
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		if ready == nil {
			continue
		}
		said = append(said, lines.Text())
		if c.load() == nil {
			ready <- nil
			ready = nil
		}
	}
	if ready != nil {
		ready <- fmt.Errorf("tender dev ended before it was ready:\n%s", strings.Join(said, "\n"))
	}
}

func (c *Cluster) load() error {
	data, err := os.ReadFile(filepath.Join(c.Dir, "data", "dev.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, c)
}

// PID returns dev's process ID.
func (c *Cluster) PID() int { return c.command.Process.Pid }

// MasterAddresses returns the gRPC addresses of the masters, joined by commas.
func (c *Cluster) MasterAddresses() string {
	addresses := make([]string, len(c.Masters))
	for i, master := range c.Masters {
		addresses[i] = master.GRPC
	}
	return strings.Join(addresses, ",")
}

// Connect connects to the first master with all rights, for less than a day, because nothing renews the certificate.
func (c *Cluster) Connect(ctx context.Context) (*grpc.ClientConn, error) {
	address := c.Masters[0].GRPC
	token := nearby.Token(nearby.UsersOf(func(string) (string, bool) { return "", false }), []string{address})
	how := joining.Config{Masters: []string{address}, Dial: transport.DialTCP}
	holder, _, err := joining.Member(ctx, how, token, trust.Person)
	if err != nil {
		return nil, err
	}
	return transport.Connect(address, holder.Dialer(transport.DialTCP, trust.Master))
}

// stopMax is how long dev may take to end. After that it is made to write what its goroutines wait for.
const stopMax = 4 * time.Minute

// Stop ends dev as Ctrl-C does, and removes its folder. The error says what dev has left.
func (c *Cluster) Stop() error {
	var err error
	if c.command.Process != nil {
		_ = c.command.Process.Signal(os.Interrupt) // it may have ended already
		late := time.AfterFunc(stopMax, func() { _ = c.command.Process.Signal(syscall.SIGQUIT) })
		<-c.ended
		if !late.Stop() {
			err = fmt.Errorf("tender dev has not ended for %v; its log says what it waited for", stopMax)
		} else if code := c.command.ProcessState.ExitCode(); code != 0 {
			err = fmt.Errorf("tender dev ended with code %d", code)
		}
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}
