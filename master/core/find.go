package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// matchesShown bounds the list of matches in an error.
const matchesShown = 10

// choose picks the one ID that people mean: the exact one, else the only match.
func choose[K ~string](op, noun, said string, matches []K) (K, *api.Error) {
	switch len(matches) {
	case 0:
		return "", api.E(op, api.NotFound, said, fmt.Errorf("no such %s", noun))
	case 1:
		return matches[0], nil
	}
	slices.SortFunc(matches, func(a, b K) int { return compareNatural(string(a), string(b)) })
	var names []string
	for _, match := range matches[:min(len(matches), matchesShown)] {
		names = append(names, string(match))
	}
	more := ""
	if len(matches) > matchesShown {
		more = fmt.Sprintf(" and %d more", len(matches)-matchesShown)
	}
	return "", api.E(op, api.Invalid, said, fmt.Errorf("it means %d %ss: %s%s; say more of the ID", len(matches), noun, strings.Join(names, ", "), more))
}

// findAgent finds the agent that people mean: ID, unique prefix or hostname.
func (c *Core) findAgent(op, said string) (*agent, *api.Error) {
	if a := c.agents[api.AgentID(said)]; a != nil {
		return a, nil
	}
	var hosts, prefixes []api.AgentID
	for id, a := range c.agents { // order: irrelevant because choose sorts
		if a.info.Hostname == said {
			hosts = append(hosts, id)
		}
		if said != "" && strings.HasPrefix(string(id), said) {
			prefixes = append(prefixes, id)
		}
	}
	if len(hosts) == 0 {
		hosts = prefixes
	}
	id, err := choose(op, "agent", said, hosts)
	return c.agents[id], err
}

// findFramework finds the framework that people mean: ID, unique prefix or unique name.
func (c *Core) findFramework(op, said string) (*framework, *api.Error) {
	if fw := c.frameworks[api.FrameworkID(said)]; fw != nil {
		return fw, nil
	}
	var names, prefixes []api.FrameworkID
	for id, fw := range c.frameworks { // order: irrelevant because choose sorts
		if fw.info.Name == said && !fw.removed {
			names = append(names, id)
		}
		if said != "" && strings.HasPrefix(string(id), said) {
			prefixes = append(prefixes, id)
		}
	}
	if len(names) == 0 {
		names = prefixes
	}
	id, err := choose(op, "framework", said, names)
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

// findTask finds the task that people mean, FRAMEWORK/TASK, TASK or a unique prefix: one
// that lives, else one that has ended.
func (c *Core) findTask(said string) (*task, *protocol.TaskStub, *api.Error) {
	const op = "task.find"
	live := c.tasksLike(said)
	if len(live) > 0 {
		ref, err := choose(op, "task", said, sortedKeys(live))
		return live[ref], nil, err
	}
	ended := c.stubsLike(said)
	ref, err := choose(op, "task", said, sortedKeys(ended))
	if err != nil {
		return nil, nil, err
	}
	stub := ended[ref]
	return nil, &stub, nil
}

// tasksLike are the tasks that said may mean: those that it names in full, else those
// that it begins.
func (c *Core) tasksLike(said string) map[string]*task {
	full, begun := make(map[string]*task), make(map[string]*task)
	for _, fw := range c.frameworks { // order: irrelevant because it fills maps
		for _, t := range fw.tasks { // order: irrelevant because it fills maps
			switch names(t.ref, t.task.Name, said) {
			case namesFull:
				full[t.ref.String()] = t
			case namesBegin:
				begun[t.ref.String()] = t
			}
		}
	}
	if len(full) > 0 {
		return full
	}
	return begun
}

func (c *Core) stubsLike(said string) map[string]protocol.TaskStub {
	full, begun := make(map[string]protocol.TaskStub), make(map[string]protocol.TaskStub)
	for _, a := range c.agents { // order: irrelevant because it fills maps
		for _, stub := range a.stubs {
			switch names(stub.TaskRef, stub.Name, said) {
			case namesFull:
				full[stub.TaskRef.String()] = stub
			case namesBegin:
				begun[stub.TaskRef.String()] = stub
			}
		}
	}
	if len(full) > 0 {
		return full
	}
	return begun
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
