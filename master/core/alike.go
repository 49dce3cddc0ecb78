package core

import (
	"maps"
	"reflect"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/launching"
)

// alike remembers what some of a framework's latest tasks consist of. Most tasks of a framework differ only by their
// names, so the leader has in memory once what many of them have in common. Nobody edits these values.
type alike struct {
	resources shared[api.Resources]
	command   shared[*api.Command]
	executor  shared[*api.Executor]
	labels    shared[map[string]string]
	tasks     shared[*api.Task]
}

// share describes the task by what an earlier one has, as far as the two are equal.
func (a *alike) share(t *task, wish api.Task) {
	a.resources.share(&t.resources, api.Resources.Equal)
	a.resources.share(&wish.Resources, api.Resources.Equal)
	if wish.Command != nil {
		a.command.share(&wish.Command, func(one, other *api.Command) bool {
			return one == other || launching.SameCommand(*one, *other) && slices.Equal(one.URIs, other.URIs)
		})
	}
	if wish.Executor != nil {
		a.executor.share(&wish.Executor, func(one, other *api.Executor) bool {
			return one == other || launching.SameExecutor(*one, *other) && slices.Equal(one.Command.URIs, other.Command.URIs)
		})
	}
	if len(wish.Labels) > 0 {
		a.labels.share(&wish.Labels, maps.Equal)
	}
	wish.ID, wish.Name = "", ""
	t.task = &wish
	if len(wish.Data) == 0 { // hardly two have the same
		a.tasks.share(&t.task, func(one, other *api.Task) bool { return reflect.DeepEqual(one, other) })
	}
}

// sharedMax is how many different values are remembered of a kind. The oldest is forgotten.
const sharedMax = 8

// shared holds the latest different values of a kind.
type shared[T any] struct {
	latest []T
	oldest int
}

// share replaces the value by an equal one that is remembered, or remembers it.
func (s *shared[T]) share(value *T, equal func(T, T) bool) {
	for _, one := range s.latest {
		if equal(one, *value) {
			*value = one
			return
		}
	}
	if len(s.latest) < sharedMax {
		s.latest = append(s.latest, *value)
		return
	}
	s.latest[s.oldest] = *value
	s.oldest = (s.oldest + 1) % sharedMax
}
