package main

import (
	"errors"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// story is a gang of a story: how often it has begun, and how it has ended.
type story struct {
	begun int
	ended []error
}

func start(c *frameworktest.Handle, s *story, size int, line string) *frameworktest.Framework {
	begin := func() (commands []string, err error) {
		s.begun++
		for range size {
			commands = append(commands, line)
		}
		return commands, nil
	}
	config := framework.Config{Name: "mpi", Suppressed: true}
	return c.Start(config, newGang(size, begin, func(err error) { s.ended = append(s.ended, err) }))
}

// TestAllOrNone: while there is room for three of four, none runs; and then all do, and end.
func TestAllOrNone(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.Scalars(1, 512)}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Machine: machine}, func(c *frameworktest.Handle) {
		var s story
		f := start(c, &s, 4, "sleep 60")
		c.Advance(2 * time.Minute)
		f.ExpectCount(0, api.TaskRunning, api.TaskStaging, api.TaskFinished)
		if s.begun != 0 {
			t.Error("mpiexec was started before there was room")
		}
		c.AddAgent(machine)
		f.AwaitCount(4, api.TaskRunning)
		f.AwaitCount(4, api.TaskFinished)
		if len(s.ended) != 1 || s.ended[0] != nil || s.begun != 1 {
			t.Errorf("it has begun %d times and ended with %v", s.begun, s.ended)
		}
	})
}

// TestAllEndTogether: when a machine dies all begin anew, elsewhere; when a process fails, the gang does.
func TestAllEndTogether(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.Scalars(2, 512)}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Machine: machine}, func(c *frameworktest.Handle) {
		var s story
		f := start(c, &s, 4, "sleep 1h")
		f.AwaitCount(4, api.TaskRunning)
		for _, agent := range c.Agents() {
			if len(agent.Tasks()) > 0 {
				agent.Reboot()
				agent.Start()
				break
			}
		}
		c.Await("another attempt", func() bool { return s.begun == 2 && f.Count(api.TaskRunning) == 4 })
		if n := f.Count(api.TaskKilled); n != 2 {
			t.Errorf("%d of the two that were left were killed", n)
		}
		f.EndTask("mpi-1.1", frameworktest.Play{ExitCode: 3})
		c.Await("the end", func() bool { return len(s.ended) > 0 })
		if s.ended[0] == nil || errors.Is(s.ended[0], nil) {
			t.Error("a gang of which one has failed has ended well")
		}
	})
}
