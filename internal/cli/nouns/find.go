package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
)

// namedMax is how many of several matches an error lists.
const namedMax = 8

// find returns the one item of the kind that word means: a whole ID or name before the start of one. Several matches
// are an error that lists them.
func (k kind) find(ctx context.Context, c *client.Client, word string) (item, error) {
	l, err := k.list(ctx, c, &query{prefix: word, all: true})
	if err != nil {
		return item{}, err
	}
	matches := l.items
	if exact := soleMatch(matches, word); exact != nil {
		return *exact, nil
	}
	switch len(matches) {
	case 0:
		return item{}, k.nobody(query{prefix: word})
	case 1:
		return matches[0], nil
	}
	var ids []string
	for _, match := range matches[:min(namedMax, len(matches))] {
		ids = append(ids, match.id)
	}
	if len(matches) > namedMax {
		ids = append(ids, "…")
	}
	return item{}, usagef("%q is the start of %d %s: %s; write more of it", word, len(matches), k.name, strings.Join(ids, ", "))
}

// lookUp adds to the refusal of a name where the names are found.
func lookUp(kinds string, err error) error {
	if !api.Is(err, api.NotFound) {
		return err
	}
	k, unknown := kindNamed(kinds)
	if unknown != nil {
		return unknown
	}
	return fmt.Errorf("%w; 'tender get %s' lists them", err, k.name+orAll(k))
}

// nobody says that none is called so, or that the other filters left none.
func (k kind) nobody(q query) error {
	if len(q.states)+len(q.agent)+len(q.framework)+len(q.role) > 0 {
		return fmt.Errorf("no %s that is asked for is called %q; leave out some of the flags", k.singular(), q.prefix)
	}
	return fmt.Errorf("no %s is called %q; 'tender get %s' lists them", k.singular(), q.prefix, k.name+orAll(k))
}

func orAll(k kind) string {
	if k.name == "tasks" {
		return " --all"
	}
	return ""
}

// soleMatch is the only item whose ID, last part of the ID, or name is the word.
func soleMatch(items []item, word string) *item {
	for _, same := range []func(item) string{
		func(i item) string { return i.id },
		func(i item) string { return i.id[strings.LastIndexByte(i.id, '/')+1:] },
		func(i item) string { return i.name },
	} {
		var found []item
		for _, one := range items {
			if same(one) == word {
				found = append(found, one)
			}
		}
		if len(found) == 1 {
			return &found[0]
		}
	}
	return nil
}

// findTask returns the one task that word means.
func findTask(ctx context.Context, c *client.Client, word string) (*apiv1.TaskView, error) {
	tasks, err := kindNamed("tasks")
	if err != nil {
		return nil, err
	}
	found, err := tasks.find(ctx, c, word)
	if err != nil {
		return nil, err
	}
	return found.message.(*apiv1.TaskView), nil
}
