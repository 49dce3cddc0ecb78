package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// DefaultRecoveryTimeout is how long an executor waits for its agent to come back, if neither the environment nor the
// agent says otherwise.
const DefaultRecoveryTimeout = 15 * time.Minute

// Config says which executor this is and where its agent listens. In a process that an agent has started, [Environment]
// fills it in.
type Config struct {
	// Socket is the path of the agent's unix socket.
	Socket string
	// Framework and ID identify the executor.
	Framework api.FrameworkID
	ID        api.ExecutorID
	// Token proves that the agent started this process (R32).
	Token string
	// Sandbox is the executor's own folder.
	Sandbox string
	// RecoveryTimeout is how long the agent may stay away before the executor kills its tasks. A value that the agent
	// itself has sent takes precedence. Default 15 min; negative: the tasks are killed at once.
	RecoveryTimeout time.Duration
	// Init is called once at the start. It may take long: the session with the agent goes on, and tasks that are
	// launched meanwhile wait for it. Its context ends when the executor has to end. If it returns an error, the
	// waiting tasks are FAILED with that error, and the executor ends.
	Init func(ctx context.Context) error
	// Idle is called when no task has run for IdleAfter, once until the next task ends, and never while a method of the
	// Handler runs. It does not end the executor; Client.Shutdown does.
	Idle func()
	// IdleAfter is how long no task must have run before Idle is called. Default 1 min.
	IdleAfter time.Duration
	// Probe makes one check of a running task; see [api.Task].Checks. nil means that the check has passed. Probe may
	// run at the same time as a Handler's method and as the checks of other tasks, but only once at a time for each
	// task. It must return when its context ends. Default: [ProbeChecks].
	Probe func(ctx context.Context, task *Task, check api.Check) (api.CheckResult, error)
	// Logger takes the SDK's log. Default: discarded.
	Logger *slog.Logger
	// Dialer opens the connection to the agent. Default: the unix socket.
	Dialer func(ctx context.Context) (net.Conn, error)
}

// Environment reads what the agent has put into the environment and into the inherited descriptor. It can be called
// only once, because it removes the token from the process.
func Environment() (Config, error) {
	c := Config{
		Socket:    os.Getenv(protocol.ExecutorSocketEnv),
		Framework: api.FrameworkID(os.Getenv(protocol.ExecutorFrameworkIDEnv)),
		ID:        api.ExecutorID(os.Getenv(protocol.ExecutorIDEnv)),
		Sandbox:   os.Getenv(protocol.ExecutorSandboxEnv),
	}
	if c.Socket == "" {
		return c, api.E("executor.run", api.Invalid, protocol.ExecutorSocketEnv, errors.New("the variable is not set; executors are started by an agent, not by hand"))
	}
	if text := os.Getenv(protocol.ExecutorRecoveryTimeoutEnv); text != "" {
		timeout, err := time.ParseDuration(text)
		if err != nil {
			return c, api.E("executor.run", api.Invalid, protocol.ExecutorRecoveryTimeoutEnv, err)
		}
		c.RecoveryTimeout = timeout
		if timeout == 0 {
			c.RecoveryTimeout = -1
		}
	}
	token, err := readToken(os.Getenv(protocol.ExecutorTokenFDEnv))
	if err != nil {
		return c, api.E("executor.run", api.Invalid, protocol.ExecutorTokenFDEnv, err)
	}
	c.Token = token
	return c, nil
}

// tokenBytesMax bounds how much is read as a token.
const tokenBytesMax = 4096

// readToken reads the token from the inherited descriptor and closes the descriptor, so that no task inherits it.
func readToken(number string) (string, error) {
	if number == "" {
		return "", nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return "", fmt.Errorf("%q is no inherited descriptor", number)
	}
	file := os.NewFile(uintptr(fd), "token")
	if file == nil {
		return "", fmt.Errorf("descriptor %d is not open", fd)
	}
	defer file.Close()
	token, err := io.ReadAll(io.LimitReader(file, tokenBytesMax))
	if err != nil {
		return "", fmt.Errorf("the token can't be read: %w", err)
	}
	return string(token), nil
}

func (c Config) complete() (Config, error) {
	if err := api.CheckID("executor", string(c.ID)); err != nil {
		return c, api.E("executor.run", api.Invalid, c.ID, err)
	}
	if err := api.CheckID("framework", string(c.Framework)); err != nil {
		return c, api.E("executor.run", api.Invalid, c.ID, err)
	}
	if c.RecoveryTimeout == 0 {
		c.RecoveryTimeout = DefaultRecoveryTimeout
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = DefaultIdleAfter
	}
	if c.Probe == nil {
		c.Probe = ProbeChecks
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dialer == nil {
		socket := c.Socket
		c.Dialer = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return c, nil
}
