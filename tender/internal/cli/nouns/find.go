package nouns

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/master/view"
)

// wrong marks an error as a mistake in the words of the caller.
func wrong(err error) error { return api.E("nouns", api.Invalid, "", err) }

// NamedMax is how many of several matches an error lists.
const NamedMax = 8

// Find returns the one item of the kind that a word means. A whole ID or name goes before the beginning of one. Several
// matches are an error that lists them, and so is one that agents have yet to report (R75).
func (k Kind) Find(ctx context.Context, c *client.Client, word string) (Item, error) {
	if k.Name == Tasks.Name {
		task, err := Task(ctx, c, word)
		if err != nil {
			return Item{}, err
		}
		return k.Item(task), nil
	}
	query := Query{Prefix: word, All: true}
	l, err := k.List(ctx, c, &query)
	if err != nil {
		return Item{}, err
	}
	matches := l.Items
	if exact := soleMatch(matches, word); exact != nil {
		return *exact, nil
	}
	if query.Incomplete != nil {
		return Item{}, query.Incomplete
	}
	switch len(matches) {
	case 0:
		return Item{}, k.Nobody(Query{Prefix: word})
	case 1:
		return matches[0], nil
	}
	var ids []string
	for _, match := range matches[:min(NamedMax, len(matches))] {
		ids = append(ids, match.ID)
	}
	if len(matches) > NamedMax {
		ids = append(ids, "…")
	}
	return Item{}, wrong(fmt.Errorf("%q is the start of %d %s: %s; write more of it", word, len(matches), k.Name, strings.Join(ids, ", ")))
}

// WhereListed adds to a NotFound error the command that lists the names of this kind.
func (k Kind) WhereListed(err error) error {
	if !api.Is(err, api.NotFound) {
		return err
	}
	return fmt.Errorf("%w; 'tender get %s' lists them", err, k.Name+orAll(k))
}

// Nobody returns the error that nothing has this name, or that the other filters left nothing.
func (k Kind) Nobody(q Query) error {
	if len(q.States)+len(q.Agent)+len(q.Framework)+len(q.Role) > 0 {
		return fmt.Errorf("no %s that is asked for is called %q; leave out some of the flags", k.singular(), q.Prefix)
	}
	return fmt.Errorf("no %s is called %q; 'tender get %s' lists them", k.singular(), q.Prefix, k.Name+orAll(k))
}

func orAll(k Kind) string {
	if k.Name == "tasks" {
		return " --all"
	}
	return ""
}

// soleMatch returns the only item whose ID, last part of the ID, or name is the word. Of a word with several parts, as
// FRAMEWORK/TASK with the name of a framework, the last one counts: the master has matched the others. A name that
// several have means the one that is still there.
func soleMatch(items []Item, word string) *Item {
	for _, is := range []func(Item) bool{
		func(i Item) bool { return i.ID == word },
		func(i Item) bool { return lastPart(i.ID) == lastPart(word) },
		func(i Item) bool { return i.Name == word },
		func(i Item) bool { return i.Name == word && !isPast(i) },
	} {
		var found []Item
		for _, one := range items {
			if is(one) {
				found = append(found, one)
			}
		}
		if len(found) == 1 {
			return &found[0]
		}
	}
	return nil
}

// isPast reports whether an item is only the memory of an agent that was marked gone, or of a framework that was removed:
// its host, or its scheduler, may have come back under the same name.
func isPast(i Item) bool {
	switch thing := i.Message.(type) {
	case *apiv1.AgentView:
		return slices.Contains(thing.GetMarks(), api.MarkGone.Strings()[0])
	case *apiv1.FrameworkView:
		return thing.GetState() == view.Removed
	}
	return false
}

func lastPart(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// Task returns the one task that a word means: FRAMEWORK/TASK, where FRAMEWORK is an ID or a name, or any unique start of
// that or of the task's own ID.
func Task(ctx context.Context, c *client.Client, word string) (*apiv1.TaskView, error) {
	task, err := c.Operator().GetTask(ctx, &apiv1.GetTaskRequest{Task: word})
	return task, Tasks.WhereListed(err)
}

// Resolve replaces the names of an agent and a framework by their IDs. One that does not exist is an error and not an
// empty list.
func (q *Query) Resolve(ctx context.Context, c *client.Client) error {
	for _, asked := range []struct {
		kind Kind
		word *string
	}{{Agents, &q.Agent}, {Frameworks, &q.Framework}} {
		if *asked.word == "" {
			continue
		}
		found, err := asked.kind.Find(ctx, c, *asked.word)
		if err != nil {
			return err
		}
		*asked.word = found.ID
	}
	return nil
}
