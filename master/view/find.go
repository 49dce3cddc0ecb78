package view

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/words"
)

// matchesShown bounds the matches that an error lists.
const matchesShown = 10

// Extent says how much of an ID people must write.
type Extent int

const (
	// OrItsStart is enough for reading: the start of an ID, if only one ID begins with it.
	OrItsStart Extent = iota
	// Whole is needed to change something, so that somebody who mistypes the ID of one agent does not drain another
	// one.
	Whole
)

// matches are the IDs that people may mean by what they wrote.
type matches[K ~string] struct {
	op, noun, said string
	named          []K // named in full, by hostname or name (a whole ID is found before)
	begun          []K // named by the start of their ID
}

// choose returns the one ID that people mean, or an error.
func (m matches[K]) choose(needed Extent) (K, *api.Error) {
	kind := api.Invalid
	var why string
	switch found := m.named; {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		why = fmt.Sprintf("%q means %d %ss: %s; name one by its ID", m.said, len(found), m.noun, listed(found))
	case len(m.begun) == 0:
		kind, why = api.NotFound, fmt.Sprintf("no %s is called %q", m.noun, m.said)
	case needed == Whole:
		kind, why = api.NotFound, fmt.Sprintf("no %s is called %q, which is only the start of %s; what changes something takes the whole of a name",
			m.noun, m.said, listed(m.begun))
	case len(m.begun) == 1:
		return m.begun[0], nil
	default:
		why = fmt.Sprintf("%q means %d %ss: %s; say more of the ID", m.said, len(m.begun), m.noun, listed(m.begun))
	}
	return "", api.E(m.op, kind, m.said, errors.New(why))
}

// listed returns the first of the IDs as text, in natural order.
func listed[K ~string](ids []K) string {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b K) int { return words.CompareNatural(string(a), string(b)) })
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

// FindAgent finds the agent that people mean by its ID or hostname, or by a unique prefix of the ID where that is
// enough. A hostname means agents that are gone only if no other has it: the host comes back as another agent.
func (c Cluster) FindAgent(op, said string, needed Extent) (api.AgentID, *api.Error) {
	if _, known := c.Registry.Agents[api.AgentID(said)]; known {
		return api.AgentID(said), nil
	}
	found := matches[api.AgentID]{op: op, noun: "agent", said: said}
	var gone []api.AgentID
	for a := range c.agents() {
		switch {
		case said == "":
		case a.Hostname == said && c.Registry.Agents[a.ID].Marks.Has(api.MarkGone):
			gone = append(gone, a.ID)
		case a.Hostname == said:
			found.named = append(found.named, a.ID)
		case strings.HasPrefix(string(a.ID), said):
			found.begun = append(found.begun, a.ID)
		}
	}
	if len(found.named) == 0 {
		found.named = gone
	}
	return found.choose(needed)
}

// FindFramework finds the framework that people mean by its ID or unique name, or by a unique prefix of the ID where
// that is enough. A removed framework is found by its ID while something of it runs.
func (c Cluster) FindFramework(op, said string, needed Extent) (api.FrameworkID, *api.Error) {
	found := matches[api.FrameworkID]{op: op, noun: "framework", said: said}
	for f := range c.frameworks() {
		switch {
		case said == "" || !c.seesFramework(f.ID):
		case string(f.ID) == said:
			return f.ID, nil
		case f.Name == said && f.State != Removed:
			found.named = append(found.named, f.ID)
		case strings.HasPrefix(string(f.ID), said):
			found.begun = append(found.begun, f.ID)
		}
	}
	return found.choose(needed)
}

// FindTombstone finds a removed framework of which nothing runs, by its ID, or by its name if no other removed one had
// that name.
func (c Cluster) FindTombstone(said string) (found api.FrameworkID, known bool) {
	if old, ok := c.Registry.Frameworks[api.FrameworkID(said)]; ok && !old.Removed.IsZero() {
		return api.FrameworkID(said), true
	}
	matches := 0
	for id, old := range c.Registry.Frameworks { // order: irrelevant because only a sole match counts
		if said != "" && old.Framework.Name == said && !old.Removed.IsZero() {
			found, matches = id, matches+1
		}
	}
	return found, matches == 1
}

// FoundTask is a task that people mean. It has not ended unless Ended is set.
type FoundTask struct {
	TaskBrief
	Ended  *protocol.TaskStub // what is remembered of a task that has ended; nil: it has not
	Untold bool               // only its framework has named it, because its agent is not back: its role is not known
}

// FindTask finds the task that people mean by FRAMEWORK/TASK (see taskWord), TASK or the task's name, in full, or by the
// start of an ID where that is enough. It prefers tasks that have not ended. Tasks that the caller may not see are as if
// they were not there. While agents may still report another one that is meant, the answer is that of [Cluster.NotYet].
func (c Cluster) FindTask(op, said string, needed Extent) (FoundTask, *api.Error) {
	if t, lives := c.Leader.FindTask(wholeRef(said)); lives && c.seesTask(&t) { // no other one is meant
		return FoundTask{TaskBrief: t}, nil
	}
	word := c.taskWord(said)
	full, begun := c.tasksCalled(&word, needed)
	found := matches[string]{op: op, noun: "task", said: said, named: slices.Sorted(maps.Keys(full)), begun: slices.Sorted(maps.Keys(begun))}
	if len(full) == 0 || needed == Whole && word.frameworks == nil {
		if err := c.NotYet(op, said, ""); err != nil {
			return FoundTask{}, err
		}
	}
	ref, err := found.choose(needed)
	if err != nil && len(full)+len(begun) == 0 {
		err = c.Absent(op, said, "", err.Err)
	}
	if one, is := full[ref]; is {
		return one, err
	}
	return begun[ref], err
}

// wholeRef reads FRAMEWORK/TASK, both in full.
func wholeRef(said string) api.TaskRef {
	framework, task, _ := strings.Cut(said, "/")
	return api.TaskRef{Framework: api.FrameworkID(framework), Task: api.TaskID(task)}
}

// tasksCalled returns the tasks that a word names in full, and those of which it is the start. If any is named in full
// that has not ended, those that have are not looked at.
func (c Cluster) tasksCalled(word *taskWord, needed Extent) (full, begun map[string]FoundTask) {
	full, begun = make(map[string]FoundTask), make(map[string]FoundTask)
	note := func(one FoundTask) {
		match, ref := word.names(one.Ref, one.Name), one.Ref.String()
		if match == namesNot || !c.seesTask(&one.TaskBrief) {
			return
		}
		into := full
		if match == namesBegin {
			into = begun
		}
		if _, known := into[ref]; !known { // the first one of an ID counts
			into[ref] = one
		}
	}
	untold := func(agent api.AgentID, ref api.TaskRef) {
		note(FoundTask{TaskBrief: TaskBrief{Ref: ref, Agent: agent, State: api.TaskUnreachable}, Untold: true})
	}
	for agent, ref := range c.Leader.Untold() {
		untold(agent, ref)
	}
	for t := range c.Leader.Tasks("") {
		note(FoundTask{TaskBrief: t})
	}
	over := []iter.Seq2[api.AgentID, *protocol.TaskStub]{c.Leader.Ended()}
	if needed == OrItsStart {
		over = append(over, c.Leader.Apart())
		lost, _ := c.Leader.LostAgents()
		for agent, refs := range lost { // order: irrelevant because a task is on one agent
			for _, ref := range refs {
				untold(agent, ref)
			}
		}
	}
	if len(full) > 0 {
		return full, begun
	}
	for _, stubs := range over {
		for agent, stub := range stubs {
			if needed == OrItsStart || word.names(stub.TaskRef, stub.Name) == namesFull {
				note(FoundTask{TaskBrief: endedBrief(agent, stub), Ended: stub})
			}
		}
	}
	return full, begun
}

// TaskCalled returns everything about the task that people mean, also by the start of its ID; exactly: about the one with
// this FRAMEWORK/TASK. (Protocol rule R75.)
func (c Cluster) TaskCalled(op, said string, exactly bool) (Task, *api.Error) {
	found, err := c.FindTask(op, said, OrItsStart)
	if exactly && found.Ref != wholeRef(said) && (err == nil || err.Kind != api.Unavailable) {
		err = c.Absent(op, said, "", errors.New("there is no such task (any more)"))
	}
	if err != nil {
		return Task{}, err
	}
	return c.task(taskRow{ref: found.Ref, agent: found.Agent, ended: found.Ended, untold: found.Untold}), nil
}

// How well the text that people wrote names a task.
const (
	namesNot = iota
	namesBegin
	namesFull
)

// taskWord is a text that names a task: FRAMEWORK/TASK, where FRAMEWORK is an ID or a name, TASK, or the task's name. Who
// may see the task need not be allowed to see its framework.
type taskWord struct {
	said, rest string
	frameworks map[api.FrameworkID]bool // that its first part names; nil: it has only one part
}

func (c Cluster) taskWord(said string) taskWord {
	framework, rest, both := strings.Cut(said, "/")
	word := taskWord{said: said, rest: rest}
	if !both {
		return word
	}
	word.frameworks = map[api.FrameworkID]bool{api.FrameworkID(framework): true}
	for id, known := range c.Registry.Frameworks { // order: irrelevant because a set is made
		if framework != "" && known.Framework.Name == framework {
			word.frameworks[id] = true
		}
	}
	return word
}

// names says how well the word names a task.
func (w *taskWord) names(ref api.TaskRef, name string) int {
	both, task := w.frameworks[ref.Framework], string(ref.Task)
	switch {
	case w.said == "":
		return namesNot
	case both && w.rest == task, w.frameworks == nil && (w.said == task || w.said == name):
		return namesFull
	case both && strings.HasPrefix(task, w.rest), w.frameworks == nil && strings.HasPrefix(task, w.said):
		return namesBegin
	}
	return namesNot
}

// Inside returns what somebody wants to look into at an agent, as the object of a grant: a task, even one that has
// ended; without a task ID, everything of a framework on the agent; and without a framework, the agent itself. Without
// an agent it is the agent of the task. It returns false when that is not known.
func (c Cluster) Inside(ref api.TaskRef, agent api.AgentID) (rights.Object, bool) {
	if ref.Task == "" {
		_, known := c.Registry.Agents[agent]
		return c.on(agent, c.object(ref.Framework, "")), known
	}
	where, known := c.whereIs(ref, agent)
	return c.on(where.Agent, c.taskObject(ref.Framework, where.Role, where.Owner)), known
}

// whereIs returns the agent, the role and the owner of a task, even of one that has ended. A task that was on several
// agents is found on the one that is named. The role of a task that only its framework has named is not known.
func (c Cluster) whereIs(ref api.TaskRef, named api.AgentID) (TaskBrief, bool) {
	if t, lives := c.Leader.FindTask(ref); lives && (named == "" || named == t.Agent) {
		return t, true
	}
	for _, stubs := range []iter.Seq2[api.AgentID, *protocol.TaskStub]{c.Leader.Ended(), c.Leader.Apart()} {
		for agent, stub := range stubs {
			if stub.TaskRef == ref && (named == "" || named == agent) {
				return TaskBrief{Agent: agent, Role: stub.Role, Owner: stub.Owner}, true
			}
		}
	}
	for agent, untold := range c.Leader.Untold() {
		if untold == ref && (named == "" || named == agent) {
			return TaskBrief{Agent: agent}, true
		}
	}
	return TaskBrief{}, false
}
