package rdd

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
)

// Elements travel to executors, into files and back with every bit of them, so that a partition that was spilled is
// equal to one that was kept. encoding/gob drops fields that are not exported and makes empty slices nil; so the
// elements have an encoding of their own, and types that can't be carried whole are refused, by name.

// carried returns why values of a type can't be carried whole, or nil. The path says how a programmer would name the
// value, and within are the types of which it is a part.
func carried(t reflect.Type, path string, within ...reflect.Type) error {
	if t.Kind() == reflect.Pointer && slices.Contains(within, t.Elem()) {
		return fmt.Errorf("%s points to a %v, of which it is a part: such values may form rings, which have no end", path, t.Elem())
	}
	if slices.Contains(within, t) {
		return nil // a slice or a map of itself
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%s is a %v, which can't be sent to executors or written to disk", path, t.Kind())
	case reflect.Struct:
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
		return cmp.Or(carried(t.Key(), path+"'s key", within...), carried(t.Elem(), path+"[key]", within...))
	case reflect.Slice, reflect.Array:
		return carried(t.Elem(), path+"[i]", within...)
	case reflect.Pointer:
		return carried(t.Elem(), "*"+path, within...)
	}
	return nil
}

// appendValue appends the encoding of a value. A number takes eight bytes, so that the length of an encoding is about
// the memory that the value takes. Slices, maps and pointers begin with their length plus one; 0 is nil.
func appendValue(to []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(to, 1)
		}
		return append(to, 0)
	case reflect.String:
		return append(binary.AppendUvarint(to, uint64(v.Len())), v.String()...)
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(v.Float()))
	case reflect.Float32: // Float would turn a signaling NaN into a quiet one
		return binary.LittleEndian.AppendUint64(to, uint64(math.Float32bits(v.Convert(reflect.TypeFor[float32]()).Interface().(float32))))
	case reflect.Struct:
		for i := range v.NumField() {
			to = appendValue(to, v.Field(i))
		}
		return to
	case reflect.Pointer:
		if v.IsNil() {
			return append(to, 0)
		}
		return appendValue(append(to, 1), v.Elem())
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			return append(to, 0)
		}
		to = binary.AppendUvarint(to, uint64(v.Len())+1)
		if v.Kind() == reflect.Map {
			for each := v.MapRange(); each.Next(); {
				to = appendValue(appendValue(to, each.Key()), each.Value())
			}
			return to
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			to = appendValue(to, v.Index(i))
		}
		return to
	default:
		if v.CanInt() {
			return binary.LittleEndian.AppendUint64(to, uint64(v.Int()))
		}
		return binary.LittleEndian.AppendUint64(to, v.Uint())
	}
}

// readValue reads what appendValue has written into v, which is zero. It fails the task where the bytes end early.
func readValue(from *bufio.Reader, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(readLength(from) == 1)
	case reflect.String:
		text := make([]byte, readLength(from))
		_, err := io.ReadFull(from, text)
		check(err)
		v.SetString(string(text))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(readNumber(from)))
	case reflect.Float32:
		v.Set(reflect.ValueOf(math.Float32frombits(uint32(readNumber(from)))).Convert(v.Type()))
	case reflect.Struct:
		for i := range v.NumField() {
			readValue(from, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			readValue(from, v.Index(i))
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if n := readLength(from); n > 0 {
			readMany(from, v, n-1)
		}
	default:
		if n := readNumber(from); v.CanInt() {
			v.SetInt(int64(n))
		} else {
			v.SetUint(n)
		}
	}
}

// readMany reads what a pointer points to, or n elements of a slice or a map.
func readMany(from *bufio.Reader, v reflect.Value, n int) {
	switch t := v.Type(); t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		readValue(from, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			readValue(from, v.Index(i))
		}
	default:
		v.Set(reflect.MakeMap(t))
		for range n {
			key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			readValue(from, key)
			readValue(from, value)
			v.SetMapIndex(key, value)
		}
	}
}

func readNumber(from *bufio.Reader) uint64 {
	data, err := from.Peek(8)
	check(err)
	n := binary.LittleEndian.Uint64(data)
	_, _ = from.Discard(len(data)) // they are in the buffer
	return n
}

func readLength(from *bufio.Reader) int {
	n, err := binary.ReadUvarint(from)
	check(err)
	return int(n)
}

// pack and unpack encode values for the way to executors and back.
func pack[T any](value T) []byte { return appendValue(nil, reflect.ValueOf(&value).Elem()) }

func unpack[T any](data []byte) (value T, err error) {
	defer caught(&err)
	readValue(bufio.NewReader(bytes.NewReader(data)), reflect.ValueOf(&value).Elem())
	return value, nil
}

// batchElements is how many elements stand together in a stream: behind their number.
const batchElements = 256

// batchWriter writes a stream of elements.
type batchWriter[T any] struct {
	to   io.Writer
	held []T
	data []byte
}

func (w *batchWriter[T]) add(element T) error {
	if w.held = append(w.held, element); len(w.held) == batchElements {
		return w.flush()
	}
	return nil
}

func (w *batchWriter[T]) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	w.data = binary.AppendUvarint(w.data[:0], uint64(len(w.held)))
	for i, elements := 0, reflect.ValueOf(w.held); i < len(w.held); i++ {
		w.data = appendValue(w.data, elements.Index(i))
	}
	w.held = w.held[:0]
	_, err := w.to.Write(w.data)
	return err
}

// batches returns a function that reads a stream, one batch at a time; it returns nil when there is no more.
func batches[T any](from io.Reader) func() []T {
	reader := bufio.NewReaderSize(from, 16<<10)
	return func() []T {
		if _, err := reader.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		batch := make([]T, readLength(reader))
		for i, elements := 0, reflect.ValueOf(batch); i < len(batch); i++ {
			readValue(reader, elements.Index(i))
		}
		return batch
	}
}
