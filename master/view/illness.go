package view

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Illness is something about an agent, besides its state, that an operator should look at. The names are labels of a
// metric.
type Illness string

// The illnesses.
const (
	// IllOvercommitted: its tasks hold more than it has, so it is not offered. It came back with less than before.
	IllOvercommitted Illness = "overcommitted"
	// IllUncovered: it has less than is reserved on it. It came back with less than before.
	IllUncovered Illness = "uncovered"
	// IllAnotherID: it is away, and an agent of the same host has registered as a new one since.
	IllAnotherID Illness = "another_id"
	// IllVersion: this leader has refused its version.
	IllVersion Illness = "version"
	// IllUnable: it can start nothing, because its disk is full or broken. The reason for its state says so.
	IllUnable Illness = "unable"
	// IllNotMarkedGone: it has been away for too long, and it is not marked gone because too many are away.
	IllNotMarkedGone Illness = "not_marked_gone"
)

// Illnesses lists them in the order in which they are told.
var Illnesses = []Illness{IllOvercommitted, IllUncovered, IllAnotherID, IllVersion, IllUnable, IllNotMarkedGone}

// Health is what the leader has found out about an agent. Zero fields mean that it is well.
type Health struct {
	Over      api.Resources // what its tasks hold beyond what it has; only valid with IsOver
	IsOver    bool
	Uncovered api.Resources // what is reserved on it and is not there
	BackAs    api.AgentID   // the agent that its host has come back as
	Refused   string        // why its version is refused
	Unable    string        // why it can start nothing
	Overdue   bool          // it has been away for too long, and waits to be marked gone
	NotMarked string        // why it is not marked gone yet
}

// has reports whether the agent has the illness.
func (h Health) has(illness Illness) bool {
	switch illness {
	case IllOvercommitted:
		return h.IsOver
	case IllUncovered:
		return !h.Uncovered.IsZero()
	case IllAnotherID:
		return h.BackAs != ""
	case IllVersion:
		return h.Refused != ""
	case IllUnable:
		return h.Unable != ""
	case IllNotMarkedGone:
		return h.NotMarked != ""
	}
	return false
}

// words says in what way the agent is ill.
func (h Health) words(illness Illness) string {
	switch illness {
	case IllOvercommitted:
		return fmt.Sprintf("its tasks hold more than it has, by %v, so it is not offered", h.Over)
	case IllUncovered:
		return fmt.Sprintf("it has less than is reserved on it: %v is not there and not offered; it stays reserved", h.Uncovered)
	case IllAnotherID:
		return fmt.Sprintf("its host has come back as agent %s: if its folder is lost, mark it gone", h.BackAs)
	case IllVersion:
		return "it is refused: " + h.Refused
	case IllUnable:
		return "it can start nothing: " + h.Unable
	case IllNotMarkedGone:
		return "it is not marked gone: " + h.NotMarked
	}
	return ""
}

// why returns the reason for the agent's state, and what else an operator should look at.
func (h Health) why(state string) string {
	var all []string
	if state != "" {
		all = append(all, state)
	}
	for _, illness := range h.ills() {
		if illness != IllUnable { // the reason for the state says that already
			all = append(all, h.words(illness))
		}
	}
	return strings.Join(all, "; ")
}

// ills returns what an operator should look at.
func (h Health) ills() (all []Illness) {
	for _, illness := range Illnesses {
		if h.has(illness) {
			all = append(all, illness)
		}
	}
	return all
}
