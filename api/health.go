package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Check describes how the agent finds out whether a running task is healthy. Exactly one of Command, HTTP, TCP and GRPC
// is set. A task may have several checks; [Status.Healthy] tells whether it passes all of them.
type Check struct {
	// Readiness makes this a readiness check. A task that fails one keeps running, and only its Healthy becomes false,
	// so that nobody sends it work. A task that fails any other check is killed with its grace, and ends FAILED
	// (HEALTH_CHECK_FAILED).
	Readiness bool
	// Observing makes this a check of which only the result is told: whatever it finds, the task stays as healthy as it
	// is. A change of the result is a RUNNING status, and each status from the first RUNNING on has the latest one; see
	// [Status.Observed]. Only the built-in executor for commands makes such a check, at most one for each task.
	Observing bool

	// Command is run in the task's sandbox, with the task's environment and the variables in its own Env. The check
	// passes if the command's exit code is 0. Only the built-in executor for commands runs it.
	Command *Command
	HTTP    *HTTPCheck
	TCP     *TCPCheck
	GRPC    *GRPCCheck

	// Interval is the pause between two checks. Default 10 s; until the first success within
	// Grace it is no longer than a second.
	Interval time.Duration
	// Timeout is how long one check may take; after that it has failed and is ended. Default 5 s.
	Timeout time.Duration
	// Grace is how long after its first RUNNING a task may fail the check while it has never passed it. Default 15 s. An
	// observing check is made for the first time when it is over.
	Grace time.Duration
	// Failures is how many failures in a row make the task unhealthy. Default 3. A task that has never passed a
	// readiness check becomes unhealthy at the first failure.
	Failures int
}

// HTTPCheck sends a GET request for a path, over loopback. It passes if the status code is 200 to 399; redirections are
// not followed.
type HTTPCheck struct {
	Port string // one of the task's Ports, by its name
	Path string // default "/"
}

// TCPCheck opens a connection to a port, over loopback, and closes it at once. It passes if the connection is accepted.
type TCPCheck struct {
	Port string // one of the task's Ports, by its name
}

// GRPCCheck asks the service grpc.health.v1 at a port, over loopback and without TLS. It passes if the answer is
// SERVING.
type GRPCCheck struct {
	Port    string // one of the task's Ports, by its name
	Service string // default: the server as a whole
}

// CheckResult is what an observing check has found last.
type CheckResult struct {
	Kind string `json:"kind"` // how it is made: command, http, tcp or grpc
	// Known is false before the first check, and when the last one has found nothing: it took longer than its timeout, no
	// answer came over HTTP, or a signal ended the command.
	Known  bool `json:"known,omitempty"`
	Code   int  `json:"code,omitempty"`   // the exit code of a command, the status code of an answer over HTTP
	Passed bool `json:"passed,omitempty"` // as a check of another sort would judge it
	// Changed says that the status tells a change of the result.
	Changed bool `json:"changed,omitempty"`
}

// Observed returns what the task's observing check has found, as of this status; nil if it has no such check.
func (s *Status) Observed() *CheckResult {
	result := new(CheckResult)
	if s.Executor != CommandExecutor || len(s.Data) == 0 || json.Unmarshal(s.Data, result) != nil {
		return nil
	}
	return result
}

// Kind returns how the check is made: command, http, tcp or grpc.
func (c *Check) Kind() string {
	switch {
	case c.HTTP != nil:
		return "http"
	case c.TCP != nil:
		return "tcp"
	case c.GRPC != nil:
		return "grpc"
	}
	return "command"
}

// Defaults and bounds of [Check].
const (
	DefaultCheckInterval = 10 * time.Second
	DefaultCheckTimeout  = 5 * time.Second
	DefaultCheckGrace    = 15 * time.Second
	DefaultCheckFailures = 3

	ChecksMax        = 8 // of one task
	CheckIntervalMin = 100 * time.Millisecond
	checkFailuresMax = 1000
)

// PortName returns the name of the port that the check connects to, or "" for a check by a command.
func (c *Check) PortName() string {
	switch {
	case c.HTTP != nil:
		return c.HTTP.Port
	case c.TCP != nil:
		return c.TCP.Port
	case c.GRPC != nil:
		return c.GRPC.Port
	}
	return ""
}

func (t *Task) checkChecks() error {
	if len(t.Checks) > ChecksMax {
		return fmt.Errorf("%d checks, at most %d are allowed", len(t.Checks), ChecksMax)
	}
	observing := 0
	for i := range t.Checks {
		if t.Checks[i].Observing {
			observing++
		}
		if err := t.checkOne(&t.Checks[i]); err != nil {
			return fmt.Errorf("check %d: %w", i+1, err)
		}
	}
	if observing > 1 {
		return fmt.Errorf("%d checks observe, at most one may", observing)
	}
	return nil
}

func (t *Task) checkOne(c *Check) error {
	if err := c.checkKind(); err != nil {
		return err
	}
	if c.Command != nil && t.Executor != nil {
		return errors.New("commands are run by the built-in executor only; check over a port, " +
			"or have your executor report Healthy itself")
	}
	switch {
	case c.Observing && c.Readiness:
		return errors.New("it observes and is for readiness; it can be one of them")
	case c.Observing && t.Executor != nil:
		return errors.New("observing checks are made by the built-in executor only; have your executor report what it finds as data")
	}
	if name := c.PortName(); c.Command == nil && t.Ports[name] == 0 {
		return fmt.Errorf("port %q is none of the task's; name one of its Ports", name)
	}
	for i, d := range []time.Duration{c.Interval, c.Timeout, c.Grace} {
		if err := checkDuration([...]string{"interval", "timeout", "grace"}[i], d); err != nil {
			return err
		}
	}
	switch {
	case c.Interval > 0 && c.Interval < CheckIntervalMin:
		return fmt.Errorf("interval is %v; it must be %v or more", c.Interval, CheckIntervalMin)
	case c.Failures < 0 || c.Failures > checkFailuresMax:
		return fmt.Errorf("failures is %d; it must be from 1 to %d, or 0 for %d", c.Failures, checkFailuresMax, DefaultCheckFailures)
	}
	return nil
}

// checkKind checks that exactly one kind of check is set, and that it is complete.
func (c *Check) checkKind() error {
	kinds := 0
	for _, is := range []bool{c.Command != nil, c.HTTP != nil, c.TCP != nil, c.GRPC != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("%d of command, http, tcp and grpc are set; set exactly one", kinds)
	case c.Command != nil && len(c.Command.URIs) > 0:
		return errors.New("the command of a check fetches nothing; give the URIs to the task's own command")
	case c.Command != nil && (c.Command.User != "" || c.Command.Dir != ""):
		return errors.New("the command of a check runs as its task's user and in its task's folder; give user and dir to the task's own command")
	case c.Command != nil:
		return c.Command.Check()
	case c.HTTP != nil && c.HTTP.Path != "" && !strings.HasPrefix(c.HTTP.Path, "/"):
		return fmt.Errorf("path %q does not begin with '/'", c.HTTP.Path)
	case c.HTTP != nil && strings.ContainsFunc(c.HTTP.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("path %q holds a space or a control character; write it in the form that URLs have, such as %%20", c.HTTP.Path)
	case c.HTTP != nil:
		return checkWord("path", c.HTTP.Path)
	case c.GRPC != nil:
		return checkWord("service", c.GRPC.Service)
	}
	return nil
}

func (c *Check) bytes() int {
	size := 64 + len(c.PortName())
	switch {
	case c.Command != nil:
		size += c.Command.bytes()
	case c.HTTP != nil:
		size += len(c.HTTP.Path)
	case c.GRPC != nil:
		size += len(c.GRPC.Service)
	}
	return size
}
