package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// Check describes how it is found out whether a running task is healthy. Exactly one of Command, HTTP, TCP and GRPC is
// set.
type Check struct {
	// Command is a line for /bin/sh, run in the task's sandbox. The check passes if the exit code is 0.
	Command string `json:"command,omitempty" toml:"command"`
	// HTTP sends a GET request for a path. The check passes if the status code is 200 to 399.
	HTTP *HTTPCheck `json:"http,omitempty" toml:"http"`
	// TCP is the name of a port in Task.Ports. The check passes if a connection to it is accepted.
	TCP string `json:"tcp,omitempty" toml:"tcp"`
	// GRPC asks the service grpc.health.v1 at a port. The check passes if the answer is SERVING.
	GRPC *GRPCCheck `json:"grpc,omitempty" toml:"grpc"`
	// Readiness makes this a readiness check: a change waits until the task passes it, and a task that fails it keeps
	// running. A task that fails any other check is ended, and has failed.
	Readiness bool `json:"readiness,omitempty" toml:"readiness"`
	// Interval is the pause between two checks, default 10 s. Timeout is how long one check may take, default 5 s.
	// Grace is how long a task may fail the check while it has never passed it, default 15 s. Failures is how many
	// failures in a row make the task unhealthy, default 3.
	Interval Duration `json:"interval,omitempty" toml:"interval" rule:"positive"`
	Timeout  Duration `json:"timeout,omitempty" toml:"timeout" rule:"positive"`
	Grace    Duration `json:"grace,omitempty" toml:"grace" rule:"positive"`
	Failures int      `json:"failures,omitempty" toml:"failures" rule:"1..1000"`
}

// HTTPCheck is a GET request to one of the task's ports.
type HTTPCheck struct {
	Port string `json:"port" toml:"port" rule:"required"` // its name in Task.Ports
	Path string `json:"path,omitempty" toml:"path"`
}

// GRPCCheck asks for the health of a service; "" means the server as a whole.
type GRPCCheck struct {
	Port    string `json:"port" toml:"port" rule:"required"` // its name in Task.Ports
	Service string `json:"service,omitempty" toml:"service"`
}

func (c Check) apiCheck() api.Check {
	check := api.Check{Readiness: c.Readiness, Interval: time.Duration(c.Interval), Timeout: time.Duration(c.Timeout), Grace: time.Duration(c.Grace),
		Failures: c.Failures}
	if c.Command != "" {
		check.Command = &api.Command{Shell: c.Command}
	}
	if c.HTTP != nil {
		check.HTTP = &api.HTTPCheck{Port: c.HTTP.Port, Path: c.HTTP.Path}
	}
	if c.TCP != "" {
		check.TCP = &api.TCPCheck{Port: c.TCP}
	}
	if c.GRPC != nil {
		check.GRPC = &api.GRPCCheck{Port: c.GRPC.Port, Service: c.GRPC.Service}
	}
	return check
}

// timeToFail returns how long the checks of a task that has passed them need to find that it no longer does.
func (t Task) timeToFail() Duration { return Duration(work.TimeToFail(t.APITask().Checks)) }

// checkHealth checks each check of a task, as if the task had numbers for all its named ports.
func (t Task) checkHealth(field string, found *Problems) {
	if len(t.Checks) > api.ChecksMax {
		return
	}
	ports := make(map[string]uint16, len(t.Ports))
	for i, name := range t.Ports {
		ports[name] = uint16(i + 1)
	}
	for i, c := range t.Checks {
		check := c.apiCheck()
		name := check.PortName()
		place := fmt.Sprintf("%s.checks[%d]", field, i)
		if name != "" && !slices.Contains(t.Ports, name) {
			found.say(place, "port %q is none of the task's; name it in %s.ports", name, field)
			continue
		}
		probe := api.Task{ID: "task", Command: &api.Command{Shell: "true"}, Ports: ports, Checks: []api.Check{check}, Resources: api.Scalars(1, 1)}
		if len(ports) > 0 {
			probe.Resources = probe.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"},
				Ranges: api.NewRanges(api.Range{Begin: 1, End: uint64(len(ports))})}))
		}
		if err := probe.Check(); err != nil {
			found.say(place, "%s", strings.TrimPrefix(errors.Unwrap(err).Error(), "check 1: "))
		}
	}
}
