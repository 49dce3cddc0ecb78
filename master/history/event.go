package history

import (
	"slices"
	"strings"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// The kinds of things, as far as this package must know them; the others are like names to it.
const (
	frameworkKind = "framework"
	taskKind      = "task"
	principalKind = "principal"
	ownerKind     = "owner" // in Event.about: the principal for whom a framework has a task
)

// shareOf tells whose room an event takes: a framework's, or that which all others share.
func shareOf(e *wire.Event) key {
	switch e.Kind {
	case frameworkKind:
		return keyOf(frameworkKind, "/", e.Name)
	case taskKind, "executor":
		framework, _, _ := strings.Cut(e.Name, "/")
		return keyOf(frameworkKind, "/", framework)
	case "offer", "operation", "job":
		for _, thing := range e.About {
			if strings.HasPrefix(thing, frameworkKind+"/") {
				return keyOf(thing)
			}
		}
	}
	return 0
}

// gapKey finds gaps; no event has it but by chance.
var gapKey = keyOf("gap")

// kindKey finds all events of a kind.
func kindKey(kind string) key { return keyOf("kind ", kind) }

// keysOf appends the keys by which an event is found, each once.
func keysOf(keys []key, e *wire.Event) []key {
	add := func(k key) {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	add(kindKey(e.Kind))
	add(keyOf(e.Kind, "/", e.Name))
	if e.Kind == taskKind {
		add(bareKey(e.Name))
	}
	for _, thing := range e.About {
		add(keyOf(thing))
		switch kind, name, _ := strings.Cut(thing, "/"); kind {
		case taskKind:
			add(bareKey(name))
		case ownerKind:
			add(keyOf(principalKind, "/", name))
		}
	}
	if kind, name := causeOf(e.By); kind != "" {
		add(keyOf(kind, "/", name))
	}
	return keys
}

// bareKey finds a task by its own name alone, for who does not know its framework.
func bareKey(name string) key {
	_, task, _ := strings.Cut(name, "/")
	return keyOf(taskKind, "/", task)
}

// causeOf returns the thing that Event.by names: a person is a principal, and a leader a master.
func causeOf(by string) (kind, name string) {
	kind, name, _ = strings.Cut(by, " ")
	switch kind {
	case "person":
		return principalKind, name
	case "leader":
		return "master", name
	}
	return kind, name
}

// concerns reports whether an event is of a thing, or concerns it.
func concerns(e *apiv1.Event, kind, name string) bool {
	if is(e.GetKind(), e.GetName(), kind, name) {
		return true
	}
	for _, thing := range e.GetAbout() {
		aboutKind, aboutName, _ := strings.Cut(thing, "/")
		if aboutKind == ownerKind {
			aboutKind = principalKind
		}
		if is(aboutKind, aboutName, kind, name) {
			return true
		}
	}
	causeKind, cause := causeOf(e.GetBy())
	return causeKind == kind && cause == name
}

// is compares two things. A task that is looked for may lack its framework.
func is(kind, name, wantedKind, wanted string) bool {
	if kind != wantedKind {
		return false
	}
	if name == wanted {
		return true
	}
	_, task, whole := strings.Cut(name, "/")
	return kind == taskKind && whole && task == wanted
}
