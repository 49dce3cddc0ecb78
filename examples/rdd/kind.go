package rdd

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
)

// kind is what an executor can do with the elements of a dataset, whatever their type. Between the steps of a task,
// sequences and slices of elements are passed as any; each kind knows their type.
type kind interface {
	// encode writes a sequence in batches; decode reads it again, and fails the task when it can't.
	encode(to io.Writer, seq any) error
	decode(from io.Reader) any
	collect(seq any) any                    // a slice
	seq(ctx context.Context, slice any) any // until ctx ends
	count(seq any) int
	take(seq any, n int) any
	sample(seq any, fraction float64, seed uint64) any
	deal(seq any, to []*gob.Encoder)
	concat(pieces []io.Reader) any
	lines(to io.Writer, seq any) error
	bytes(slice any) int64
	pairing() pairing // nil: the elements are not pairs
}

// kindOf is the kind for elements of type T.
type kindOf[T any] struct{}

// nameOf returns the name of a type, which is the same in driver and executors.
func nameOf[T any]() string { return reflect.TypeFor[T]().String() }

// batchElements is how many elements are encoded at once: gob is fast with slices, and slow with single elements.
const batchElements = 256

func (kindOf[T]) encode(to io.Writer, seq any) error {
	buffer := bufio.NewWriterSize(to, 64<<10)
	encoder, batch := gob.NewEncoder(buffer), make([]T, 0, batchElements)
	for element := range seq.(iter.Seq[T]) {
		if batch = append(batch, element); len(batch) == batchElements {
			if err := encoder.Encode(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		if err := encoder.Encode(batch); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// batches returns a function that reads what encode has written, one batch at a time.
func batches[T any](from io.Reader) func() ([]T, error) {
	decoder := gob.NewDecoder(bufio.NewReaderSize(from, 16<<10))
	return func() (batch []T, err error) {
		if err = decoder.Decode(&batch); errors.Is(err, io.EOF) {
			return nil, nil
		}
		return batch, err
	}
}

func (kindOf[T]) decode(from io.Reader) any {
	return iter.Seq[T](func(yield func(T) bool) {
		next := batches[T](from)
		for {
			batch, err := next()
			check(err)
			if batch == nil {
				return
			}
			for _, element := range batch {
				if !yield(element) {
					return
				}
			}
		}
	})
}

func (kindOf[T]) collect(seq any) any {
	var all []T
	for element := range seq.(iter.Seq[T]) {
		all = append(all, element)
	}
	return all
}

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

// sample takes each element with the same probability. The choice is made by a hash of the seed and the element's
// number, so a partition that is computed again has the same sample.
func (kindOf[T]) sample(seq any, fraction float64, seed uint64) any {
	return iter.Seq[T](func(yield func(T) bool) {
		number := seed
		for element := range seq.(iter.Seq[T]) {
			number++
			if float64(mix(number)>>11)/(1<<53) < fraction && !yield(element) {
				return
			}
		}
	})
}

// mix spreads the bits of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// deal gives the elements to the encoders in turn.
func (kindOf[T]) deal(seq any, to []*gob.Encoder) {
	held, turn := make([][]T, len(to)), 0
	send := func(i int) {
		if len(held[i]) > 0 {
			check(to[i].Encode(held[i]))
		}
		held[i] = held[i][:0]
	}
	for element := range seq.(iter.Seq[T]) {
		if held[turn] = append(held[turn], element); len(held[turn]) == batchElements {
			send(turn)
		}
		turn = (turn + 1) % len(to)
	}
	for i := range held {
		send(i)
	}
}

// concat reads one piece after the other.
func (k kindOf[T]) concat(pieces []io.Reader) any {
	return iter.Seq[T](func(yield func(T) bool) {
		for _, piece := range pieces {
			for element := range k.decode(piece).(iter.Seq[T]) {
				if !yield(element) {
					return
				}
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

// bytes estimates how much memory a slice takes, from at most 32 of its elements.
func (kindOf[T]) bytes(slice any) int64 {
	all := slice.([]T)
	if len(all) == 0 {
		return 0
	}
	step := max(1, len(all)/32)
	sum, looked := int64(0), int64(0)
	for i := 0; i < len(all); i += step {
		sum, looked = sum+bytesOf(reflect.ValueOf(&all[i]).Elem()), looked+1
	}
	return sum * int64(len(all)) / looked
}

// bytesOf returns how much memory a value takes, with everything that it points to.
func bytesOf(value reflect.Value) int64 {
	size := int64(value.Type().Size())
	switch value.Kind() {
	case reflect.String:
		size += int64(value.Len())
	case reflect.Slice:
		size += bytesOfElements(value)
	case reflect.Array:
		size = bytesOfElements(value)
	case reflect.Struct:
		size = 0
		for i := range value.NumField() {
			size += bytesOf(value.Field(i))
		}
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			size += bytesOf(value.Elem())
		}
	case reflect.Map:
		for each := value.MapRange(); each.Next(); {
			size += bytesOf(each.Key()) + bytesOf(each.Value()) + 16
		}
	default: // numbers have no more than their size
	}
	return size
}

func bytesOfElements(value reflect.Value) (size int64) {
	if value.Len() == 0 {
		return 0
	}
	switch element := value.Type().Elem(); element.Kind() {
	case reflect.String, reflect.Slice, reflect.Struct, reflect.Pointer, reflect.Map, reflect.Interface, reflect.Array:
		for i := range value.Len() {
			size += bytesOf(value.Index(i))
		}
		return size
	default:
		return int64(value.Len()) * int64(element.Size())
	}
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
