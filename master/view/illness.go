package view

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Illness is what an operator should look at, of an agent beside its state; the names are labels of a metric.
type Illness string

// The illnesses.
const (
	// IllOvercommitted: its tasks hold more than it has, so it is not offered. It came back with less.
	IllOvercommitted Illness = "overcommitted"
	// IllAnotherID: it is away, and an agent of the same host has registered as a new one since.
	IllAnotherID Illness = "another_id"
	// IllVersion: it comes with a version that this leader does not take.
	IllVersion Illness = "version"
	// IllUnable: it can start nothing, as its disk is full or broken. Its state's WHY says so.
	IllUnable Illness = "unable"
	// IllNotMarkedGone: it is away for too long, and so are too many.
	IllNotMarkedGone Illness = "not_marked_gone"
)

// Illnesses in the order in which they are told.
var Illnesses = []Illness{IllOvercommitted, IllAnotherID, IllVersion, IllUnable, IllNotMarkedGone}

// Health is what the leader has found of an agent. Zero fields are well.
type Health struct {
	Over      api.Resources // what its tasks hold beyond what it has; counts only while IsOver
	IsOver    bool
	BackAs    api.AgentID // which other agent its host has become
	Refused   string      // why its version is
	Unable    string      // why it can start nothing
	Overdue   bool        // it is away for too long, and waits to be marked gone
	NotMarked string      // why it is not marked gone all the same
}

// has says whether the agent has the illness.
func (h Health) has(illness Illness) bool {
	switch illness {
	case IllOvercommitted:
		return h.IsOver
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

// words say how the agent is ill.
func (h Health) words(illness Illness) string {
	switch illness {
	case IllOvercommitted:
		return fmt.Sprintf("its tasks hold more than it has, by %v, so it is not offered", h.Over)
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

// why is why the agent is in its state, and what else of it an operator should look at.
func (h Health) why(state string) string {
	var all []string
	if state != "" {
		all = append(all, state)
	}
	for _, illness := range Illnesses {
		if h.has(illness) && illness != IllUnable { // the state says that already
			all = append(all, h.words(illness))
		}
	}
	return strings.Join(all, "; ")
}
