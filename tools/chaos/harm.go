package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// harm says that a fault ended running tasks on an agent.
type harm struct {
	agent       string
	began, over time.Time
	ends        string // the state in which such a task ends
}

// harmed says whether a task ended because of a fault.
func (r *report) harmed(t *task) bool {
	return slices.ContainsFunc(r.harms, func(h harm) bool {
		return t.agent == h.agent && slices.Equal(t.ends, []string{h.ends}) && t.launched.Before(h.over) && !t.ended.Before(h.began)
	})
}

// busyAgent finds an agent on which a task runs, for faults that end tasks.
func (c *cluster) busyAgent(ctx context.Context) (busy *node, err error) {
	err = c.await(ctx, "an agent that runs a task", c.options.heal, func(context.Context) string {
		for _, a := range c.agents {
			if len(c.ledger.runningOn(a.name)) > 0 {
				busy = a
				return ""
			}
		}
		return "no task runs"
	})
	return busy, err
}

// runningOn returns the tasks on an agent that have not ended, as far as is known.
func (l *ledger) runningOn(agent string) (ids []string) {
	for _, id := range l.open() {
		if t := l.tasks[id]; t.agent == agent && !t.running.IsZero() {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaitStruck waits until all of the tasks have ended. Each must have ended because of the fault, or have finished just
// before it.
func (s *stage) awaitStruck(ids []string, f chaos.Fault, h harm) error {
	err := s.await(s.ctx, "the end of the tasks that were struck", s.options.heal, func(context.Context) string {
		open := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !s.ledger.tasks[id].ended.IsZero() })
		if len(open) > 0 {
			return "their frameworks have not heard of it: " + strings.Join(open, " ")
		}
		return ""
	})
	if err != nil {
		return err
	}
	h.over = time.Now()
	r := s.r
	r.harms = append(r.harms, h)
	for _, id := range ids {
		ends := strings.Join(s.ledger.tasks[id].ends, " and ")
		if ends != h.ends && ends != "FINISHED" {
			r.broken = append(r.broken, fmt.Sprintf("task %s ended %s after %s; %s would be right", id, ends, f.Do, h.ends))
		}
		if r.struck == nil {
			r.struck = map[chaos.FaultKind]map[string]int{}
		}
		if r.struck[f.Do] == nil {
			r.struck[f.Do] = map[string]int{}
		}
		r.struck[f.Do][ends]++
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
