package sim

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// A change that was decided by looking is made only while what was looked at is so (R49). The check here counts the
// changes that the quorum has made, and knows nothing of how the registry compares.

// fact is something that leaders and operators look at before they decide.
type fact struct{ what, of string }

// is returns what is so of it.
func (f fact) is(state *registry.State) string {
	switch agent := state.Agents[api.AgentID(f.of)]; f.what {
	case "marks":
		return fmt.Sprint(agent.Marks, agent.Maintenance, agent.Maintained)
	case "reserved":
		return agent.Reserved.String()
	}
	return fmt.Sprint(state.Frameworks[api.FrameworkID(f.of)].Session)
}

// looked returns what a change was decided by, other than what does not matter because somebody forces it, and what it
// may alter.
func looked(change registry.Change) (by, alters []fact) {
	look := func(saw uint64, at fact) {
		if alters = append(alters, at); saw != registry.Whatever {
			by = append(by, at)
		}
	}
	switch change := change.(type) {
	case registry.MarkAgent:
		look(change.Saw, fact{"marks", string(change.ID)})
	case registry.RemoveAgent:
		look(change.Saw, fact{"marks", string(change.ID)})
	case registry.BeginMaintenance:
		look(change.Saw, fact{"marks", string(change.ID)})
	case registry.SetMaintenance:
		for i, id := range change.Agents {
			look(change.Saw[i], fact{"marks", string(id)})
		}
	case registry.SetReserved:
		look(0, fact{"reserved", string(change.ID)})
	case registry.RemoveFramework:
		look(change.Session, fact{"session", string(change.ID)})
	default: // the others are right whatever has changed, or their writers compare
	}
	return by, alters
}

// looks says when each command was decided, and when each fact has changed, counted in changes of the registry.
type looks struct {
	count   uint64
	decided map[string]uint64
	changed map[fact]uint64
}

func newLooks() looks { return looks{decided: map[string]uint64{}, changed: map[fact]uint64{}} }

func identityOf(command registry.Command) string {
	return fmt.Sprint(command.Client, "#", command.Counter)
}

// proposed notes when a leader has decided on a command.
func (l *looks) proposed(command registry.Command) { l.decided[identityOf(command)] = l.count }

// checkLooked notes what a change has altered, and checks that it was still right. Call it before the change, and what it
// returns behind it.
func (t *truth) checkLooked(state *registry.State, command registry.Command) (behind func(registry.Result)) {
	l := &t.decided.looks
	by, alters := looked(command.Change)
	decided, ours := l.decided[identityOf(command)]
	before := make([]string, len(alters))
	for i, fact := range alters {
		before[i] = fact.is(state)
	}
	return func(result registry.Result) {
		if l.count++; result.Err != nil {
			return
		}
		for _, seen := range by {
			if ours && l.changed[seen] > decided {
				t.world.breakStory("%T of %s is done, though the %s have changed since it was decided (R49)", command.Change, seen.of, seen.what)
			}
		}
		for i, altered := range alters {
			if altered.is(state) != before[i] {
				l.changed[altered] = l.count
			}
		}
		if _, is := command.Change.(registry.Subscribe); is {
			l.changed[fact{"session", string(result.Framework)}] = l.count
		}
	}
}
