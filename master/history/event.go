package history

import (
	"strings"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// The kinds of things, as far as this package must know them; the others are like names to it.
const (
	frameworkKind = "framework"
	taskKind      = "task"
	principalKind = "principal"
	ownerKind     = "owner" // in Event.about: the principal for whom a framework has a task
)

// sharesOf is by kind how to tell whose room an event takes; events of other kinds share one room.
func shareOf(e *apiv1.Event) key {
	switch e.GetKind() {
	case frameworkKind:
		return keyOf(frameworkKind, "/", e.GetName())
	case taskKind, "executor":
		framework, _, _ := strings.Cut(e.GetName(), "/")
		return keyOf(frameworkKind, "/", framework)
	case "offer", "operation":
		for _, thing := range e.GetAbout() {
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

// keysOf appends the keys by which an event is found.
func keysOf(keys []key, e *apiv1.Event) []key {
	keys = append(keys, kindKey(e.GetKind()), keyOf(e.GetKind(), "/", e.GetName()))
	if e.GetKind() == taskKind {
		keys = appendBare(keys, e.GetName())
	}
	for _, thing := range e.GetAbout() {
		keys = append(keys, keyOf(thing))
		switch kind, name, _ := strings.Cut(thing, "/"); kind {
		case taskKind:
			keys = appendBare(keys, name)
		case ownerKind:
			keys = append(keys, keyOf(principalKind, "/", name))
		}
	}
	if kind, name := causeOf(e); kind != "" {
		keys = append(keys, keyOf(kind, "/", name))
	}
	return keys
}

// appendBare adds a task by its own name alone, for who does not know its framework.
func appendBare(keys []key, name string) []key {
	if _, task, whole := strings.Cut(name, "/"); whole {
		return append(keys, keyOf(taskKind, "/", task))
	}
	return keys
}

// causeOf returns the thing that has caused an event: a person is a principal, and a leader a master.
func causeOf(e *apiv1.Event) (kind, name string) {
	kind, name, _ = strings.Cut(e.GetBy(), " ")
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
	causeKind, cause := causeOf(e)
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

// weightOf returns at least how many bytes an event takes on the disk.
func weightOf(e *apiv1.Event) int {
	bytes := 256 + len(e.GetKind()) + len(e.GetName()) + len(e.GetWhat()) + len(e.GetWhy()) + len(e.GetBy())
	for _, thing := range e.GetAbout() {
		bytes += 4 + len(thing)
	}
	return bytes
}
