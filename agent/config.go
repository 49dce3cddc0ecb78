package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/images"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// Config says what an agent is and where it works. Zero fields mean the documented defaults.
type Config struct {
	// Masters are gRPC addresses of masters; any of them will do. Default 127.0.0.1:5060.
	Masters []string
	// DataDir is the agent's folder: checkpoint, socket, sandboxes, volumes. Required. Two agents never share one.
	DataDir string

	// Token lets the agent join a cluster with certificates. It is used once: the certificate that the agent gets is
	// kept in DataDir. Default: none; without a certificate in DataDir nothing is encrypted.
	Token string

	// Hostname is the agent's name for people and constraints. Default: the machine's.
	Hostname string
	// Bind and Port are the address at which logs and metrics are served by HTTP. Default 127.0.0.1:5051; a negative
	// port serves none.
	Bind string
	Port int
	// Advertise is the host, or host:port, at which others reach the HTTP listener. Default: the address it is bound
	// to.
	Advertise string

	// Resources are what the agent offers. Default: what the machine has, less a reserve.
	Resources  api.Resources
	Attributes map[string]string
	Region     string
	Zone       string

	// Programs says which programs the agent starts.
	Programs
	// RecoveryTimeout is how long executors wait for an agent that went away. Default 15 min; negative: not at all, and
	// Run ends them before it returns.
	RecoveryTimeout time.Duration
	// ExecutorTimeout is how long an executor may take to subscribe. Default 1 min.
	ExecutorTimeout time.Duration
	// ExecutorIdle is how long a built-in executor stays without a task. Default 1 min.
	ExecutorIdle time.Duration
	// Keep limits what tasks leave on the disk.
	Keep
	// Walls isolate tasks and keep them within the resources that they asked for. Default: as well as this machine can.
	Walls walls.Config

	// Logger takes one line per decision. Default: discarded.
	Logger zerolog.Logger

	Users

	// World is for clusters in memory and for tests; its defaults are the real network, disk and processes.
	World
}

// Keep says how much of what tasks and executors write stays on the disk.
type Keep struct {
	// SandboxAge is how long the sandbox of an ended task is kept. Default 7 days.
	SandboxAge time.Duration
	// SandboxesMax is how many ended tasks, with their sandboxes, are kept. Default 1000.
	SandboxesMax int
	// SandboxBytesMax is how many bytes these sandboxes may take together. Default: as many as the disk has room for.
	SandboxBytesMax int64
	// OutputBytesMax is how many bytes are kept of each stdout and stderr, the newest. Default 64 MiB; negative: all.
	OutputBytesMax int64
}

// Programs says what an agent starts, where it finds it, and how it was started itself.
type Programs struct {
	// Flags are the flags that the agent was started with, by name, for people who look.
	Flags map[string]string
	// CommandExecutor is the command line of the built-in executor for commands: this very program and the word
	// "executor". Without it tasks of commands are FAILED.
	CommandExecutor []string
	// Path is where programs are looked for. It is also the PATH of executors and tasks that ask for none, because
	// nothing of the agent's own environment is passed on (R33). Default
	// /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin.
	Path string
	// Enter is the command line of the helper that enters a task: this very program and the word "enter". Without it no
	// commands are run inside tasks.
	Enter []string
	// ExecMax is how many commands may run inside tasks at the same time. Default 0: none.
	ExecMax int
	// AuditLog is the file to which a line of JSON is written for each of these commands, and for each request that was
	// denied to somebody whose identity is known. "-" is standard output, "off" means none. Default: audit.log in
	// DataDir.
	AuditLog string
}

// Users says which users tasks run as, and what is fetched for tasks.
type Users struct {
	// TaskUser is the user that tasks and executors of frameworks run as, if the agent runs as root. It is the name of
	// a user, or entry.Dynamic for a separate user for each framework. Default: the agent's own user, whatever that is.
	TaskUser string
	// TaskUsers are the users that commands may ask for; "*" stands for everybody but root. Default: only TaskUser.
	TaskUsers []string
	// FetchLocal lets files of tasks be fetched from link-local addresses, and lets servers redirect the agent to its
	// own machine.
	FetchLocal bool
	// Images says where images of tasks come from, and how much disk they may take. Their folder is in DataDir.
	Images images.Config
}

// World holds what surrounds an agent: network, processes and disk.
type World struct {
	// Listener serves HTTP instead of Bind and Port.
	Listener net.Listener
	// ExecutorListener serves executors instead of the socket in DataDir.
	ExecutorListener net.Listener
	// LogWritten is what Logger writes to, for the metrics and for those who ask for the newest lines. Default: not
	// known.
	LogWritten *logging.Writer
	// LogLevel is the level of Logger. Default: it is not known, and can't be changed.
	LogLevel *logging.Level
	// Dial reaches masters. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Nearby are the users whose clusters of `tender dev` the agent may have joined. When another cluster has taken the
	// place of its own, the agent ends. Default: none.
	Nearby nearby.Users
	// Identify returns who makes a request by HTTP, from the request's context. Default: by the certificates of the
	// cluster, if the agent has one itself; otherwise nobody is identified, and anybody may do everything.
	Identify func(context.Context) trust.Identity
	// OpenHTTP admits by HTTP not only those who show a certificate, but also those who use plain text, and denies the
	// latter nothing. It is for a cluster that one person runs on one machine, and is refused where others can reach
	// it.
	OpenHTTP bool
	// Launcher starts executors. Default: as processes of this machine.
	Launcher executor.Launcher
	// Store is the checkpoint. Default: in DataDir, which is then not required.
	Store checkpoint.Store
	// Sampler measures usage. Default: the process table.
	Sampler usage.Sampler
	// BootID tells one boot of the machine from another. Default: the kernel's.
	BootID string
	// Random returns a new nonce or token. Default: random words of the system.
	Random func() string
}

// DefaultOutputBytesMax is the OutputBytesMax of agents that are given none.
const DefaultOutputBytesMax = 64 << 20

// withDefaults fills in the fields that are not set, and reports all errors together.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if len(c.Masters) == 0 {
		c.Masters = []string{"127.0.0.1:5060"}
	}
	for _, master := range c.Masters {
		if _, _, err := net.SplitHostPort(master); err != nil {
			wrong = append(wrong, fmt.Errorf("master %q is no address; write host:port, such as 127.0.0.1:5060", master))
		}
	}
	wrong = append(wrong, c.defaultPlace()...)
	if c.Hostname == "" {
		name, err := os.Hostname()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the machine does not know its name; set a hostname: %w", err))
		}
		c.Hostname = name
	}
	wrong = append(wrong, c.defaultWalls()...)
	c.Path = cmp.Or(c.Path, protocol.DefaultPath)
	if err := checkPath(c.Path); err != nil {
		wrong = append(wrong, err)
	}
	c.RecoveryTimeout = cmp.Or(c.RecoveryTimeout, 15*time.Minute)
	c.OutputBytesMax = cmp.Or(c.OutputBytesMax, DefaultOutputBytesMax)
	if c.BootID == "" {
		id, err := bootID()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the machine does not say when it was booted: %w", err))
		}
		c.BootID = id
	}
	if c.Random == nil {
		c.Random = rand.Text
	}
	if c.Dial == nil {
		c.Dial = transport.DialTCP
	}
	if err := c.Resources.Check(); err != nil {
		wrong = append(wrong, err)
	}
	if err := checkPorts(c.Resources); err != nil {
		wrong = append(wrong, err)
	}
	if revocable := c.Resources.Revocable(); !revocable.IsZero() {
		wrong = append(wrong, fmt.Errorf("%v can't be given to an agent; what is revocable is measured, from what tasks leave unused", revocable))
	}
	if c.Resources.IsZero() && len(wrong) == 0 {
		c.Resources = c.Walls.AddGPUs(Detect(c.DataDir))
	}
	if _, err := c.Walls.GPUIDs(c.Resources); err != nil {
		wrong = append(wrong, err)
	}
	return c, errors.Join(wrong...)
}

// checkPorts refuses ports that no task could listen on.
func checkPorts(resources api.Resources) error {
	for _, item := range resources.Items() {
		for _, ports := range item.Ranges {
			if item.Name == "ports" && (ports.Begin < 1 || ports.End > 65535) {
				return fmt.Errorf("resources %q: there are no ports but 1 to 65535", api.NewResources(item))
			}
		}
	}
	return nil
}

// checkPath refuses relative folders, because they would be other folders for each task.
func checkPath(path string) error {
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			return fmt.Errorf("path %q: programs can't be looked for in %q, which is another folder for each task; write all of them from / on", path, folder)
		}
	}
	return nil
}

// defaultWalls fills in and checks the fields about the isolation of tasks.
func (c *Config) defaultWalls() (wrong []error) {
	var err error
	if c.Walls, err = c.Walls.WithDefaults(); err != nil {
		wrong = append(wrong, err)
	}
	if len(c.Walls.GPUs.Each) == 0 && c.Launcher == nil {
		c.Walls.GPUs = walls.FindGPUs("/")
	}
	if named, is := c.Attributes[walls.Attribute]; is {
		wrong = append(wrong, fmt.Errorf("attribute %s=%s can't be given to an agent; it is what the agent finds on its machine", walls.Attribute, named))
	}
	return wrong
}

// defaultPlace fills in and checks the fields about the data folder and the listeners.
func (c *Config) defaultPlace() (wrong []error) {
	if c.DataDir == "" && (c.Store == nil || c.Launcher == nil || c.ExecutorListener == nil) {
		wrong = append(wrong, errors.New("no data folder is named; it keeps what the agent must remember"))
	}
	if c.DataDir != "" {
		absolute, err := filepath.Abs(c.DataDir)
		if err != nil {
			wrong = append(wrong, err)
		}
		c.DataDir = absolute
	}
	if c.reachedNowhere() && !datafolder.HasBegun(c.DataDir, datafolder.Agent) {
		wrong = append(wrong, errors.New(transport.HowToAdvertise))
	}
	if err := c.checkAdvertised(); err != nil {
		wrong = append(wrong, fmt.Errorf("advertised address: %w", err))
	}
	if ip := net.ParseIP(c.Bind); c.OpenHTTP && c.Bind != "" && !ip.IsLoopback() {
		wrong = append(wrong, fmt.Errorf("HTTP without certificates is for this machine alone, and %s can be reached by others", c.Bind))
	}
	c.Bind = cmp.Or(c.Bind, "127.0.0.1")
	c.Port = cmp.Or(c.Port, 5051)
	if c.Port > 65535 {
		wrong = append(wrong, fmt.Errorf("port %d does not exist; the highest is 65535", c.Port))
	}
	return wrong
}

// reachedNowhere says whether others would be told that the agent is at an unspecified address such as 0.0.0.0, at
// which each of them would reach itself.
func (c Config) reachedNowhere() bool {
	return c.Advertise == "" && c.Port >= 0 && c.Listener == nil && net.ParseIP(c.Bind).IsUnspecified()
}

// checkAdvertised refuses an address that nobody can reach.
func (c Config) checkAdvertised() error {
	if c.Advertise == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		return transport.CheckAdvertised(c.Advertise)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%q is neither HOST nor HOST:PORT with a port from 1 to 65535; write one such as node7.example", c.Advertise)
	}
	return transport.CheckAdvertised(host)
}

// address returns what the agent tells others as the address of its HTTP listener.
func (c Config) address(listener net.Addr) string {
	bound := listener.String()
	if c.Advertise == "" {
		return bound
	}
	if _, _, err := net.SplitHostPort(c.Advertise); err == nil {
		return c.Advertise
	}
	_, port, err := net.SplitHostPort(bound)
	if err != nil {
		port = strconv.Itoa(c.Port)
	}
	return net.JoinHostPort(c.Advertise, port)
}
