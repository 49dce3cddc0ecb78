package rdd

import (
	"bufio"
	"bytes"
	"context"
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
	collect(seq any) any                    // a slice
	seq(ctx context.Context, slice any) any // until ctx ends
	count(seq any) int
	take(seq any, n int) any
	lines(to io.Writer, seq any) error
	bytes(slice any) int64
	pairing() pairing // nil: the elements are not pairs
}

// kindOf is the kind for elements of type T.
type kindOf[T any] struct{}

func (kindOf[T]) of() reflect.Type { return reflect.TypeFor[T]() }

func (kindOf[T]) encode(to io.Writer, seq any) error {
	buffer := bufio.NewWriterSize(to, 64<<10)
	writer := &batchWriter[T]{to: buffer}
	for element := range seq.(iter.Seq[T]) {
		if err := writer.add(element); err != nil {
			return err
		}
	}
	if err := writer.flush(); err != nil {
		return err
	}
	return buffer.Flush()
}

func (kindOf[T]) decode(from io.Reader) any {
	return iter.Seq[T](func(yield func(T) bool) {
		next := batches[T](from)
		for batch := next(); batch != nil; batch = next() {
			for _, element := range batch {
				if !yield(element) {
					return
				}
			}
		}
	})
}

func (kindOf[T]) collect(seq any) any { return slices.Collect(seq.(iter.Seq[T])) }

func (kindOf[T]) seq(ctx context.Context, slice any) any {
	return iter.Seq[T](func(yield func(T) bool) {
		for part := range slices.Chunk(slice.([]T), heedEvery) {
			check(ctx.Err())
			for _, element := range part {
				if !yield(element) {
					return
				}
			}
		}
	})
}

func (kindOf[T]) count(seq any) (n int) {
	for range seq.(iter.Seq[T]) {
		n++
	}
	return n
}

func (kindOf[T]) take(seq any, n int) any {
	return iter.Seq[T](func(yield func(T) bool) {
		taken := 0
		for element := range seq.(iter.Seq[T]) {
			if taken++; taken > n || !yield(element) || taken == n {
				return
			}
		}
	})
}

func (kindOf[T]) lines(to io.Writer, seq any) error {
	buffer := bufio.NewWriterSize(to, 64<<10)
	for element := range seq.(iter.Seq[T]) {
		if _, err := fmt.Fprintln(buffer, element); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// bytes estimates how much memory a slice takes, from at most 32 of its elements: of each its own size, and what it
// points to, which is as long as its encoding.
func (kindOf[T]) bytes(slice any) int64 {
	all := slice.([]T)
	if len(all) == 0 {
		return 0
	}
	sum, looked := int64(0), int64(0)
	for i := 0; i < len(all); i += max(1, len(all)/32) {
		sum, looked = sum+bytesOf(all[i]), looked+1
	}
	return sum * int64(len(all)) / looked
}

func bytesOf[T any](value T) int64 {
	return int64(len(pack(value))) + int64(reflect.TypeFor[T]().Size())
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

// reading is what a function reads: how much, and the last of it.
type reading[A any] struct {
	elements int
	last     A
}

// watch notes in at what the reader of a sequence has read of it.
func watch[A any](in iter.Seq[A], at *reading[A]) iter.Seq[A] {
	return func(yield func(A) bool) {
		for element := range in {
			if at.elements, at.last = at.elements+1, element; !yield(element) {
				return
			}
		}
	}
}

// blame makes a panic within a sequence, which a declared function computes, an error that says which function it was,
// and where. What panics in what reads the sequence is not its fault.
func blame[B any](out iter.Seq[B], where func() string) iter.Seq[B] {
	return func(yield func(B) bool) {
		outside := false
		defer func() {
			if outside {
				return
			}
			switch thrown := recover().(type) {
			case nil:
			case failure:
				panic(thrown)
			default:
				check(fmt.Errorf("%s: panic: %v\n%s", where(), thrown, stack()))
			}
		}()
		for element := range out {
			outside = true
			if !yield(element) {
				return
			}
			outside = false
		}
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

// clip shortens what an element is printed as.
func clip(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
