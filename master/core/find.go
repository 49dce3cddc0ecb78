package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// matchesShown bounds the list of matches in an error.
const matchesShown = 10

// extent is how much of an ID people must write to mean it.
type extent int

const (
	// orItsStart is enough to read: the start of an ID is taken when it begins only one.
	orItsStart extent = iota
	// whole is needed to change something: who misspells one of two agents must not drain
	// the other.
	whole
)

// matches are the IDs that people may mean by what they said.
type matches[K ~string] struct {
	op, noun, said string
	named          []K // in full: by a hostname or a name, as a whole ID is sole
	begun          []K // by the start of their ID
}

// choose picks the one ID that people mean.
func (m matches[K]) choose(needed extent) (K, *api.Error) {
	kind := api.Invalid
	var why string
	switch found := m.named; {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		why = fmt.Sprintf("it means %d %ss: %s; name one by its ID", len(found), m.noun, listed(found))
	case len(m.begun) == 0:
		kind, why = api.NotFound, fmt.Sprintf("no %s is called %q", m.noun, m.said)
	case needed == whole:
		kind, why = api.NotFound, fmt.Sprintf("no %s is called %q, which is only the start of %s; what changes something takes the whole of a name",
			m.noun, m.said, listed(m.begun))
	case len(m.begun) == 1:
		return m.begun[0], nil
	default:
		why = fmt.Sprintf("it means %d %ss: %s; say more of the ID", len(m.begun), m.noun, listed(m.begun))
	}
	return "", api.E(m.op, kind, m.said, errors.New(why))
}

// listed are the first of the IDs, in natural order.
func listed[K ~string](ids []K) string {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b K) int { return compareNatural(string(a), string(b)) })
	var names []string
	for _, id := range ids[:min(len(ids), matchesShown)] {
		names = append(names, string(id))
	}
	text := strings.Join(names, ", ")
	if len(ids) > matchesShown {
		text += fmt.Sprintf(" and %d more", len(ids)-matchesShown)
	}
	return text
}

// findAgent finds the agent that people mean: ID or hostname, or a unique prefix of the
// ID where that is enough.
func (c *Core) findAgent(op, said string, needed extent) (*agent, *api.Error) {
	if a := c.agents[api.AgentID(said)]; a != nil {
		return a, nil
	}
	found := matches[api.AgentID]{op: op, noun: "agent", said: said}
	for id, a := range c.agents { // order: irrelevant because choose sorts
		switch {
		case said == "":
		case a.info.Hostname == said:
			found.named = append(found.named, id)
		case strings.HasPrefix(string(id), said):
			found.begun = append(found.begun, id)
		}
	}
	id, err := found.choose(needed)
	return c.agents[id], err
}

// findFramework finds the framework that people mean: ID or unique name, or a unique
// prefix of the ID where that is enough.
func (c *Core) findFramework(op, said string, needed extent) (*framework, *api.Error) {
	if fw := c.frameworks[api.FrameworkID(said)]; fw != nil {
		return fw, nil
	}
	found := matches[api.FrameworkID]{op: op, noun: "framework", said: said}
	for id, fw := range c.frameworks { // order: irrelevant because choose sorts
		switch {
		case said == "":
		case fw.info.Name == said && !fw.removed:
			found.named = append(found.named, id)
		case strings.HasPrefix(string(id), said):
			found.begun = append(found.begun, id)
		}
	}
	id, err := found.choose(needed)
	return c.frameworks[id], err
}

// findTombstone finds a framework that was removed and of which nothing runs: by its ID,
// or its name if no other one was called so.
func (c *Core) findTombstone(said string) (found api.FrameworkID, known bool) {
	if old, ok := c.registry.Frameworks[api.FrameworkID(said)]; ok && !old.Removed.IsZero() {
		return api.FrameworkID(said), true
	}
	matches := 0
	for id, old := range c.registry.Frameworks { // order: irrelevant because only a sole match counts
		if said != "" && old.Framework.Name == said && !old.Removed.IsZero() {
			found, matches = id, matches+1
		}
	}
	return found, matches == 1
}

// findTaskToKill finds the task that people mean by FRAMEWORK/TASK, TASK or the task's
// name: one that lives, else one that has ended. One that only its framework knows of has but its reference.
func (c *Core) findTaskToKill(said string) (taskRow, *api.Error) {
	live, begun := c.tasksLike(said)
	untold, more := c.untoldLike(said)
	found := matches[string]{op: "task.kill", noun: "task", said: said, named: append(sortedKeys(live), sortedKeys(untold)...), begun: append(begun, more...)}
	var ended map[string]protocol.TaskStub
	if len(found.named) == 0 {
		ended = c.stubsNamed(said)
		found.named = sortedKeys(ended)
	}
	ref, err := found.choose(whole)
	if err != nil {
		return taskRow{}, err
	}
	if t := live[ref]; t != nil {
		return taskRow{ref: t.ref, live: t, agent: t.agent}, nil
	}
	if row, is := untold[ref]; is {
		return row, nil
	}
	stub := ended[ref]
	return taskRow{ref: stub.TaskRef, stub: &stub}, nil
}

// untoldLike are the tasks that only their frameworks know of, and that said names in full or only begins.
func (c *Core) untoldLike(said string) (named map[string]taskRow, begun []string) {
	named = make(map[string]taskRow)
	for _, a := range c.agents { // order: irrelevant because it fills a map, and choose sorts
		for _, ref := range c.untold(a) {
			switch names(ref, "", said) {
			case namesFull:
				named[ref.String()] = taskRow{ref: ref, agent: a}
			case namesBegin:
				begun = append(begun, ref.String())
			}
		}
	}
	return named, begun
}

// tasksLike are the tasks that said names in full, and those that it only begins.
func (c *Core) tasksLike(said string) (named map[string]*task, begun []string) {
	named = make(map[string]*task)
	for _, fw := range c.frameworks { // order: irrelevant because it fills a map, and choose sorts
		for _, t := range fw.tasks { // order: irrelevant because it fills a map, and choose sorts
			switch names(t.ref, t.task.Name, said) {
			case namesFull:
				named[t.ref.String()] = t
			case namesBegin:
				begun = append(begun, t.ref.String())
			}
		}
	}
	return named, begun
}

// stubsNamed are the ended tasks that said names in full.
func (c *Core) stubsNamed(said string) map[string]protocol.TaskStub {
	named := make(map[string]protocol.TaskStub)
	for _, a := range c.agents { // order: irrelevant because it fills a map
		for _, stub := range a.stubs {
			if names(stub.TaskRef, stub.Name, said) == namesFull {
				named[stub.TaskRef.String()] = stub
			}
		}
	}
	return named
}

// How well said names a task.
const (
	namesNot = iota
	namesBegin
	namesFull
)

func names(ref api.TaskRef, name, said string) int {
	framework, rest, both := strings.Cut(said, "/")
	switch {
	case said == "":
		return namesNot
	case both && framework == string(ref.Framework) && rest == string(ref.Task), !both && (said == string(ref.Task) || said == name):
		return namesFull
	case both && framework == string(ref.Framework) && strings.HasPrefix(string(ref.Task), rest), !both && strings.HasPrefix(string(ref.Task), said):
		return namesBegin
	}
	return namesNot
}

// compareNatural orders names as people do: agent-2 before agent-10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x > 0 && y > 0 {
			if order := compareNumbers(a[:x], b[:y]); order != 0 {
				return order
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// compareNumbers compares digits by value; of equal ones the shorter comes first, so
// that different names are never equal.
func compareNumbers(a, b string) int {
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	if order := strings.Compare(x, y); order != 0 {
		return order
	}
	return len(a) - len(b)
}
