// Package health makes the checks of a task: when which one is due, what its result means for the task, and the probes
// over HTTP, TCP and gRPC themselves.
//
// A Watch is a plain value without a clock: it is told the time. It makes no check, and ends no task; the caller that
// runs the task does. Checks by command are not made here either, because only the process that started the task can
// start commands inside its isolation.
package health

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
)

// quick is the longest pause between two checks of a task that is in its grace and has not passed yet, so that its
// readiness is noticed soon.
const quick = time.Second

// Watch is what the checks have shown about a task.
type Watch struct {
	began  time.Time
	checks []watched
	failed string
}

// watched is one check with its state.
type watched struct {
	api.Check
	next     time.Time // when it is due
	state    state
	passed   bool // it has passed at least once
	failures int  // how many in a row
	why      string
}

type state uint8

const (
	unknown state = iota
	well
	ill
)

// New begins to watch a task that has begun to run.
func New(checks []api.Check, began time.Time) *Watch {
	w := &Watch{began: began}
	for _, check := range checks {
		one := watched{Check: withDefaults(check), next: began}
		if check.Observing {
			one.next = began.Add(one.Grace)
		}
		w.checks = append(w.checks, one)
	}
	return w
}

func withDefaults(c api.Check) api.Check {
	c.Interval = cmp.Or(c.Interval, api.DefaultCheckInterval)
	c.Timeout = cmp.Or(c.Timeout, api.DefaultCheckTimeout)
	c.Grace = cmp.Or(c.Grace, api.DefaultCheckGrace)
	c.Failures = cmp.Or(c.Failures, api.DefaultCheckFailures)
	return c
}

// Next returns the check that is due first, and when. There must be at least one check.
func (w *Watch) Next() (number int, check api.Check, due time.Time) {
	for i := range w.checks {
		if w.checks[i].next.Before(w.checks[number].next) {
			number = i
		}
	}
	return number, w.checks[number].Check, w.checks[number].next
}

// Take takes the result of a check that has just been made; nil means that it passed.
func (w *Watch) Take(number int, now time.Time, result error) {
	c := &w.checks[number]
	if c.Observing {
		c.next = now.Add(c.Interval)
		return
	}
	starting := !c.passed && now.Before(w.began.Add(c.Grace))
	switch {
	case result == nil:
		c.state, c.passed, c.failures, c.why = well, true, 0, ""
	case c.Readiness && !c.passed:
		c.state, c.why = ill, result.Error()
	case starting: // a task that is starting may fail
	default:
		if c.failures++; c.failures >= c.Failures {
			c.state, c.why = ill, result.Error()
		}
	}
	pause := c.Interval
	if starting && !c.passed {
		pause = min(pause, quick)
	}
	c.next = now.Add(pause)
	if c.state == ill && !c.Readiness && w.failed == "" {
		w.failed = fmt.Sprintf("its check (%s) failed %s: %s", Describe(c.Check), times(c.failures), c.why)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

// Healthy returns whether the task passes all its checks, and if not, why; nil as long as that is not known.
func (w *Watch) Healthy() (healthy *bool, why string) {
	all, some := true, false
	for i := range w.checks {
		c := &w.checks[i]
		if c.Observing {
			continue
		}
		some = true
		switch c.state {
		case ill:
			no := false
			return &no, fmt.Sprintf("it does not pass its check (%s): %s", Describe(c.Check), c.why)
		case unknown:
			all = false
		case well:
		}
	}
	if !all || !some {
		return nil, ""
	}
	return &all, ""
}

// Failed returns why the task has to end; "" if it need not.
func (w *Watch) Failed() string { return w.failed }

// Describe names a check in a few words.
func Describe(c api.Check) string {
	switch {
	case c.Command != nil:
		return "command"
	case c.HTTP != nil:
		return fmt.Sprintf("GET %s at port %s", cmp.Or(c.HTTP.Path, "/"), c.HTTP.Port)
	case c.GRPC != nil && c.GRPC.Service != "":
		return fmt.Sprintf("gRPC health of %s at port %s", c.GRPC.Service, c.GRPC.Port)
	case c.GRPC != nil:
		return "gRPC health at port " + c.GRPC.Port
	case c.TCP != nil:
		return "TCP at port " + c.TCP.Port
	}
	return "nothing"
}
