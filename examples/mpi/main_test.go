package main

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// story is a gang of a story: how often it has begun, and how it has ended.
type story struct {
	mu    sync.Mutex // the scheduler's goroutine writes, the test reads
	begun int
	ended []error
}

func (s *story) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
}

func (s *story) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, err)
}

// so returns how often the gang has begun, and how it has ended.
func (s *story) so() (begun int, ended []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, slices.Clone(s.ended)
}

func start(c *frameworktest.Handle, s *story, size int, line string) *frameworktest.Framework {
	begin := func() (commands []string, err error) {
		s.begin()
		for range size {
			commands = append(commands, line)
		}
		return commands, nil
	}
	config := framework.Config{Name: "mpi", Suppressed: true}
	return c.Start(config, newGang(size, begin, s.end))
}

// TestAllOrNone: while there is room for three of four, none runs; and then all do, and end.
func TestAllOrNone(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.Scalars(1, 512)}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Machine: machine}, func(c *frameworktest.Handle) {
		var s story
		f := start(c, &s, 4, "sleep 60")
		c.Advance(2 * time.Minute)
		f.ExpectCount(0, api.TaskRunning, api.TaskStaging, api.TaskFinished)
		if begun, _ := s.so(); begun != 0 {
			t.Error("mpiexec was started before there was room")
		}
		c.AddAgent(machine)
		f.AwaitCount(4, api.TaskRunning)
		f.AwaitCount(4, api.TaskFinished)
		if begun, ended := s.so(); len(ended) != 1 || ended[0] != nil || begun != 1 {
			t.Errorf("it has begun %d times and ended with %v", begun, ended)
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
		c.Await("another attempt", func() bool {
			begun, _ := s.so()
			return begun == 2 && f.Count(api.TaskRunning) == 4
		})
		if n := f.Count(api.TaskKilled); n != 2 {
			t.Errorf("%d of the two that were left were killed", n)
		}
		f.EndTask("mpi-1.1", frameworktest.Play{ExitCode: 3})
		c.Await("the end", func() bool {
			_, ended := s.so()
			return len(ended) > 0
		})
		if _, ended := s.so(); ended[0] == nil {
			t.Error("a gang of which one has failed has ended well")
		}
	})
}
