package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
)

// Coverage counts what stories have led the leader into: each event, in the phase of whom it is about, while each kind
// of command waits for the quorum.
type Coverage map[Situation]int

// Situation is an event, the phase of the agent or scheduler that it is about, and a kind of command that the quorum has
// not answered.
type Situation struct{ Event, Phase, Pending string }

const (
	none = "-"   // a phase that nobody has, and no pending command
	some = "any" // any pending command, where one asks what is missing
)

func (c Coverage) add(more Coverage) {
	for situation, count := range more { // order: irrelevant because it is a sum
		c[situation] += count
	}
}

// countEvent notes an event of the leader, before it is handled.
func (l *leader) countEvent(what core.Happening) {
	pending := map[string]bool{}
	for _, command := range l.world.quorum.pending {
		pending[typeName(command.Change)] = true
	}
	if len(pending) == 0 {
		pending[none] = true
	}
	note := func(event any, phase string) {
		for kind := range pending { // order: irrelevant because it fills a map
			l.world.coverage[Situation{typeName(event), phase, kind}]++
		}
	}
	switch w := what.(type) {
	case core.AgentOpened:
		note(w.First, l.agentPhase(w.Conn))
	case core.AgentCalled:
		for _, call := range w.Calls {
			note(call, l.agentPhase(w.Conn))
		}
	case core.AgentClosed:
		note(w, l.agentPhase(w.Conn))
	case core.SchedulerCalled:
		for _, call := range w.Calls {
			note(call.Call, l.schedulerPhase(w.Conn))
		}
	case core.SchedulerClosed:
		note(w, l.schedulerPhase(w.Conn))
	case core.SchedulerOpened:
		note(protocol.Subscribe{}, none)
	case core.Requested:
		note(w.Action, none)
	case core.Committed:
		for _, command := range w.Commands {
			note(command.Change, none)
		}
	default:
		note(what, none)
	}
}

// agentPhase is the state in which the leader shows the agent of a stream.
func (l *leader) agentPhase(conn core.Conn) string {
	line, is := l.lines[conn].(*agentLine)
	if !is {
		return "unknown"
	}
	id := line.daemon.core.Identity().Agent
	view := l.core.View()
	if _, admitted := view.Registry.Agents[id]; !admitted || id == "" {
		return "unknown"
	}
	state := view.Leader.Agent(id).State
	if state == api.AgentUnspecified {
		return "unknown"
	}
	return state.String()
}

func (l *leader) schedulerPhase(conn core.Conn) string {
	line, is := l.lines[conn].(*schedulerLine)
	if !is {
		return "away"
	}
	return [...]string{"away", "standby", "active"}[line.scheduler.phase]
}

func typeName(of any) string {
	name := fmt.Sprintf("%T", of)
	return name[strings.LastIndex(name, ".")+1:]
}

// Table is the coverage as two tables for people: events by phase, and events by pending command.
func (c Coverage) Table() string {
	return c.table(func(s Situation) string { return s.Phase }) + "\n" + c.table(func(s Situation) string { return s.Pending })
}

func (c Coverage) table(column func(Situation) string) string {
	rows, columns := map[string]map[string]int{}, map[string]bool{}
	for situation, count := range c { // order: irrelevant because it is a sum
		if rows[situation.Event] == nil {
			rows[situation.Event] = map[string]int{}
		}
		rows[situation.Event][column(situation)] += count
		columns[column(situation)] = true
	}
	var text strings.Builder
	names := slices.Sorted(maps.Keys(columns))
	fmt.Fprintf(&text, "%-22s", "")
	for _, name := range names {
		fmt.Fprintf(&text, " %*s", max(8, len(name)), name)
	}
	for _, event := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&text, "\n%-22s", event)
		for _, name := range names {
			fmt.Fprintf(&text, " %*d", max(8, len(name)), rows[event][name])
		}
	}
	return text.String() + "\n"
}

// Missing lists the situations of two that never came together, other than those that can't.
func (c Coverage) Missing(events, phases, pending []string, impossible func(event, with string) bool) (missing []string) {
	byPhase, byPending := map[[2]string]bool{}, map[[2]string]bool{}
	for s := range c { // order: irrelevant because it fills maps
		byPhase[[2]string{s.Event, s.Phase}] = true
		byPending[[2]string{s.Event, s.Pending}] = true
		if s.Pending != none {
			byPending[[2]string{s.Event, some}] = true
		}
	}
	for _, event := range events {
		for _, phase := range phases {
			if !byPhase[[2]string{event, phase}] && !impossible(event, phase) {
				missing = append(missing, event+" while "+phase)
			}
		}
		for _, kind := range pending {
			if !byPending[[2]string{event, kind}] && !impossible(event, kind) {
				missing = append(missing, event+" while "+kind+" is pending")
			}
		}
	}
	return missing
}
