package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// slot is an index of a sub-job that has begun and has not ended. The fields that have names are stored.
type slot struct {
	work.Piece[*attempt]
	Index   int         `json:"i"`
	Tries   int         `json:"tries,omitempty"` // tasks that it has had so far, without those that never began
	Last    string      `json:"-"`               // how the latest ended, for people
	Pause   time.Time   `json:"pause,omitzero"`  // when it may ask for an agent again; zero: it does not pause
	Version int         `json:"version"`         // the version of the job that it runs, or will run next
	Queued  bool        `json:"-"`               // it waits for an agent
	Trial   bool        `json:"trial,omitempty"` // it was changed to the version, and has not proven itself
	Agent   api.AgentID `json:"bound,omitempty"` // the agent to which it belongs, in a sub-job on each agent
}

// attempt is one task of a slot. Of those that were missed a slot knows one.
type attempt struct {
	work.Attempt                   // its number is that in the part; it is a part of the task's ID
	Try          int               `json:"try"` // of the slot, from 1
	Version      int               `json:"version"`
	Hostname     string            `json:"hostname,omitempty"`
	Place        string            `json:"place,omitempty"`
	Ports        map[string]uint16 `json:"ports,omitempty"`
	Said         string            `json:"-"` // what its status says while it does not run well: which check fails
}

// live returns the slot's task; nil: it has none.
func (s *slot) live() *attempt {
	var second *attempt
	for _, a := range s.Attempts {
		switch {
		case a.Missed:
		case !a.IsCopy():
			return a
		default:
			second = a
		}
	}
	return second
}

// tasks returns the slot's task, its copy, and one that was missed, as far as there are any.
func (s *slot) tasks() (list []*attempt) {
	var missed []*attempt
	for _, a := range s.Attempts {
		if a.Missed {
			missed = append(missed, a)
		} else {
			list = append(list, a)
		}
	}
	return append(list, missed...)
}

// busy reports whether the slot has a task, or one that is being assigned.
func (s *slot) busy() bool { return s.live() != nil }

// up reports whether the slot's task runs and is healthy.
func (s *slot) up() bool {
	live := s.live()
	return live != nil && !live.Up.IsZero() && live.Kill == work.NotKilled
}

// waits reports whether the slot waits for an agent, to run this version.
func (s *slot) waits(version int) bool { return s.Queued && s.Version == version }
