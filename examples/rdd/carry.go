package rdd

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"unsafe"
)

// carried returns why values of a type can't be carried whole, or nil: a sum over a partition that was on a disk would be
// another one than over the same partition in memory. The path says how a programmer would name the value, and within are
// the types of which it is a part.
func carried(t reflect.Type, path string, within ...reflect.Type) error {
	if slices.Contains(within, t) {
		return nil // a slice or a map of itself
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.Pointer, reflect.UnsafePointer, reflect.Uintptr:
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
	}
	return nil
}

// cargo is values on their way to another process or a disk, or back. One walk both writes and reads them, so that the
// two agree. Every bit is carried, also -0, what a NaN says, and whether a slice or a map without elements is nil;
// encoding/gob carries none of these. Both ends are the same binary, so numbers travel as they are in memory.
type cargo struct {
	move   func(held []byte) // writes what is held, or reads as much in its place
	reads  bool
	length int // the last length that was moved
}

// walk moves a value, which is addressable. One that is read must be zero before.
func (c *cargo) walk(v reflect.Value) {
	switch t := v.Type(); t.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			c.walk(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			c.walk(v.Index(i))
		}
	case reflect.Slice:
		if n := c.walkLength(v); n >= 0 && c.reads {
			v.Set(reflect.MakeSlice(t, n, n))
		}
		if kind := t.Elem().Kind(); kind < reflect.Array { // all numbers at once
			c.move(unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*int(t.Elem().Size())))
			return
		}
		for i := range v.Len() {
			c.walk(v.Index(i))
		}
	case reflect.Map:
		c.walkMap(v, t)
	case reflect.String:
		held := unsafe.Slice(unsafe.StringData(v.String()), v.Len())
		if n := c.walkLength(v); c.reads {
			held = make([]byte, n)
		}
		if c.move(held); c.reads {
			v.SetString(unsafe.String(unsafe.SliceData(held), len(held)))
		}
	default: // a number, or a bool
		c.move(unsafe.Slice((*byte)(v.Addr().UnsafePointer()), t.Size()))
	}
}

// walkMap moves a map.
func (c *cargo) walkMap(v reflect.Value, t reflect.Type) {
	n, entries := c.walkLength(v), v.MapRange()
	if n >= 0 && c.reads {
		v.Set(reflect.MakeMapWithSize(t, n))
	}
	for range n {
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if !c.reads {
			entries.Next()
			key.SetIterKey(entries)
			value.SetIterValue(entries)
		}
		c.walk(key)
		if c.walk(value); c.reads {
			v.SetMapIndex(key, value)
		}
	}
}

// walkLength moves the length of a string, a slice or a map, and returns it: -1 if it is nil.
func (c *cargo) walkLength(v reflect.Value) int {
	c.length = -1
	if v.Kind() == reflect.String || !v.IsNil() {
		c.length = v.Len()
	}
	c.move(unsafe.Slice((*byte)(unsafe.Pointer(&c.length)), unsafe.Sizeof(c.length)))
	return c.length
}

// writeElements writes a stream of elements, each behind a byte that says that there is one more.
func writeElements[T any](to io.Writer, seq iter.Seq[T]) error {
	var element T
	out, v := bufio.NewWriter(to), reflect.ValueOf(&element).Elem()
	c := cargo{move: func(held []byte) { _, _ = out.Write(held) }} // an error is returned by what follows
	for element = range seq {
		if err := out.WriteByte(1); err != nil {
			return err
		}
		c.walk(v)
	}
	return out.Flush()
}

// readElements reads a stream of elements, and fails the task when it can't.
func readElements[T any](from io.Reader) iter.Seq[T] {
	return func(yield func(T) bool) {
		var element T
		in, v := bufio.NewReader(from), reflect.ValueOf(&element).Elem()
		c := cargo{reads: true, move: func(held []byte) {
			_, err := io.ReadFull(in, held)
			check(err)
		}}
		for {
			_, err := in.ReadByte()
			if errors.Is(err, io.EOF) {
				return
			}
			check(err)
			v.SetZero()
			if c.walk(v); !yield(element) {
				return
			}
		}
	}
}

// pack and unpack carry single values to executors and back.
func pack[T any](value T) []byte {
	var packed bytes.Buffer
	check(writeElements(&packed, slices.Values([]T{value})))
	return packed.Bytes()
}

func unpack[T any](data []byte) (value T, err error) {
	defer caught(&err)
	for value = range readElements[T](bytes.NewReader(data)) {
		return value, nil
	}
	return value, io.ErrUnexpectedEOF
}
