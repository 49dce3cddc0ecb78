package rdd

import (
	"bytes"
	"encoding/gob"
	"errors"
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

// carried returns why values of a type can't be carried whole, or nil: encoding/gob leaves out what it can't carry, and
// a sum over a partition that was on a disk would be another one than over the same partition in memory. The path says
// how a programmer would name the value, and within are the types of which it is a part.
func carried(t reflect.Type, path string, within ...reflect.Type) error {
	if slices.Contains(within, t) {
		return nil // a slice or a map of itself
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.Pointer, reflect.UnsafePointer:
		return fmt.Errorf("%s is a %v, which can't be sent to executors or written to disk", path, t.Kind())
	case reflect.Struct:
		if t.NumField() == 0 {
			return fmt.Errorf("%s has no fields, so there is nothing to send to executors or to write to disk", path)
		}
		for i := range t.NumField() {
			field := t.Field(i)
			if !field.IsExported() {
				return fmt.Errorf("%s.%s is not exported, so it can't be sent to executors or written to disk", path, field.Name)
			}
			if err := carried(field.Type, path+"."+field.Name, within...); err != nil {
				return err
			}
		}
	case reflect.Map:
		if err := carried(t.Key(), path+"'s key", within...); err != nil {
			return err
		}
		return carried(t.Elem(), path+"[key]", within...)
	case reflect.Slice, reflect.Array:
		return carried(t.Elem(), path+"[i]", within...)
	}
	return nil
}

// pack and unpack encode single values for the way to executors and back.
func pack[T any](value T) []byte {
	var packed bytes.Buffer
	if err := gob.NewEncoder(&packed).Encode(&value); err != nil {
		panic(err) // carried has let a type through that gob refuses
	}
	return packed.Bytes()
}

func unpack[T any](data []byte) (value T, err error) {
	err = gob.NewDecoder(bytes.NewReader(data)).Decode(&value)
	return value, err
}

// batchElements is how many elements are encoded together in a stream.
const batchElements = 256

// writeElements writes a stream of elements.
func writeElements[T any](to io.Writer, seq iter.Seq[T]) error {
	encoder, batch := gob.NewEncoder(to), make([]T, 0, batchElements)
	for element := range seq {
		if batch = append(batch, element); len(batch) == batchElements {
			if err := encoder.Encode(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return encoder.Encode(batch)
}

// readElements reads a stream of elements, and fails the task when it can't.
func readElements[T any](from io.Reader) iter.Seq[T] {
	return func(yield func(T) bool) {
		for decoder := gob.NewDecoder(from); ; {
			var batch []T
			err := decoder.Decode(&batch)
			if errors.Is(err, io.EOF) {
				return
			}
			check(err)
			for _, element := range batch {
				if !yield(element) {
					return
				}
			}
		}
	}
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
