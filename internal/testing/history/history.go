// Package history judges what clients asked of a framework's store and were answered: a history is linearizable when a
// store that is a single copy, and does one thing after the other, could have given these answers (Herlihy and Wing,
// 1990). Only tests use it.
package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Op is an operation that was asked for.
type Op struct {
	Kind    Kind
	Key     string
	Value   string // of a put
	Version uint64 // of a write: the key must have this version; 0 = the key must not exist
}

// Kind is the kind of an operation.
type Kind string

// The kinds.
const (
	Get    Kind = "get"
	Put    Kind = "put"
	Delete Kind = "delete"
)

// Any is the version of a write without a condition.
const Any = math.MaxUint64

// Got is an answer: the entry (Version 0: there is none), that the condition of a write does not hold, or nothing that
// can be relied on.
type Got struct {
	Version uint64
	Value   string // the answer to a get
	Stale   bool
	Unknown bool // the write may have happened, at that time or later
}

// Event is an operation with its answer. Call and Return say when it was called and when it returned: an event that
// returned before another one was called came first.
type Event struct {
	Op
	Got
	Call, Return int64
}

// timeout is how long to look for an order of one key's events.
const timeout = time.Minute

// Judge returns an error that names the keys whose events no single copy could have answered, and those whose order was
// not found in time: an unknown result counts as a failure.
func Judge(events []Event) error {
	keys := map[string][]porcupine.Operation{}
	for _, e := range events {
		if e.Unknown && e.Kind == Get {
			continue // it says nothing
		}
		keys[e.Key] = append(keys[e.Key], porcupine.Operation{
			ClientId: len(keys[e.Key]), Input: e.Op, Output: e.Got, Call: e.Call, Return: e.Return,
		})
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		verdict := porcupine.CheckOperationsTimeout(model.ToModel(), keys[key], timeout)
		if verdict != porcupine.Ok {
			return fmt.Errorf("key %s: its %d operations are %s (Ok = linearizable)", key, len(keys[key]), verdict)
		}
	}
	return nil
}

// state is the state of one key. A write whose answer is not known leaves a version that nobody knows.
type state struct {
	version uint64 // 0: there is no such key
	value   string
	loose   bool
}

var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(now, input, output any) []any {
		var after []any
		for _, s := range now.(state).step(input.(Op), output.(Got)) {
			after = append(after, s)
		}
		return after
	},
}

// step returns the states in which an operation may have left the key; none: the answer is impossible.
func (now state) step(op Op, got Got) []state {
	if op.Kind == Get {
		return now.read(got)
	}
	met := op.Version == Any || op.Version == now.version || now.loose && op.Version != 0
	failed := op.Version != Any && (op.Version != now.version || now.loose)
	after := state{value: op.Value, version: got.Version, loose: got.Unknown}
	if op.Kind == Delete {
		after = state{}
	}
	switch {
	case got.Unknown && met:
		return []state{now, after}
	case got.Unknown, got.Stale && failed:
		return []state{now}
	case got.Stale || !met, op.Kind == Put && got.Version <= now.version:
		return nil
	}
	return []state{after}
}

func (now state) read(got Got) []state {
	absent := now.version == 0 && !now.loose
	if got.Value != now.value || (got.Version == 0) != absent || !now.loose && got.Version != now.version {
		return nil
	}
	return []state{{version: got.Version, value: got.Value}}
}
