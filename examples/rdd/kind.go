package rdd

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
)

// kind is what an executor can do with the elements of a dataset, whatever their type. Between the steps of a task,
// sequences and slices of elements are passed as any; each kind knows their type.
type kind interface {
	of() reflect.Type
	// encode writes a sequence as a stream; decode reads it again, and fails the task when it can't.
	encode(to io.Writer, seq any) error
	decode(from io.Reader) any
	collect(seq any) any // a slice
	seq(slice any) any
	bytes(slice any) int64
	pairing() pairing // nil: the elements are not pairs
}

// kindOf is the kind for elements of type T.
type kindOf[T any] struct{}

func (kindOf[T]) of() reflect.Type { return reflect.TypeFor[T]() }

func (kindOf[T]) encode(to io.Writer, seq any) error { return writeElements(to, seq.(iter.Seq[T])) }

func (kindOf[T]) decode(from io.Reader) any { return readElements[T](from) }

func (kindOf[T]) collect(seq any) any { return slices.Collect(seq.(iter.Seq[T])) }

func (kindOf[T]) seq(slice any) any { return slices.Values(slice.([]T)) }

// bytes estimates how much memory a slice takes, from at most 32 of its elements: of each its own size, and what it
// points to, which is about as long as its encoding.
func (kindOf[T]) bytes(slice any) int64 {
	all := slice.([]T)
	var some []T
	for i := 0; i < len(all); i += max(1, len(all)/32) {
		some = append(some, all[i])
	}
	if len(some) == 0 {
		return 0
	}
	var encoded bytes.Buffer
	check(writeElements(&encoded, slices.Values(some)))
	return int64(len(all)) * (int64(encoded.Len()/len(some)) + int64(reflect.TypeFor[T]().Size()))
}

func (kindOf[T]) pairing() pairing {
	if pair, ok := any(*new(T)).(paired); ok {
		return pair.pairing()
	}
	return nil
}

// failure carries an error from inside a sequence to the edge of the task, by a panic, because sequences can't return
// errors.
type failure struct{ error }

// check fails the task if err is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// caught turns what check has thrown back into an error. Other panics become errors too: if a function panics, its task
// fails, not its executor.
func caught(err *error) {
	switch thrown := recover().(type) {
	case nil:
	case failure:
		*err = thrown.error
	default:
		*err = fmt.Errorf("panic: %v\n%s", thrown, stack())
	}
}

// stackLines is how many lines of a stack are told: two for each call.
const stackLines = 16

// stack returns where this goroutine has panicked, without the calls that handle the panic.
func stack() string {
	_, at, _ := bytes.Cut(debug.Stack(), []byte("\npanic("))
	lines := strings.Split(strings.TrimSpace(string(at)), "\n")
	lines = lines[min(2, len(lines)):]
	return strings.Join(lines[:min(stackLines, len(lines))], "\n")
}
