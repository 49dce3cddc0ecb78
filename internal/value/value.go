// Package value clones and prints values of any type, with all their unexported fields. It is used to copy and print
// whole cores, whose state is plain data. Functions, channels and unsafe pointers can be neither copied nor compared,
// so they are refused by a panic that names the place: nothing that holds one is a value.
//
// It never calls a method of what it clones. Equality needs no function here: reflect.DeepEqual says of two values
// whether they are the same, and of a clone and its original that they are, as long as no map is keyed by pointers.
package value

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// Clone copies a value and all that it refers to. What two of its pointers, maps or slices share they share in the
// clone as well; with the original the clone shares nothing that can be changed.
func Clone[T any](original T) T {
	var clone T
	from := reflect.ValueOf(&original).Elem()
	c := cloner{done: map[reference]reflect.Value{}}
	c.copy(reflect.ValueOf(&clone).Elem(), from, from.Type().String())
	return clone
}

// reference is what two places may share.
type reference struct {
	at   unsafe.Pointer
	kind reflect.Type
	size int // of a slice
}

type cloner struct {
	done map[reference]reflect.Value
}

// shared calls make for the first place that refers to something, and gives what it made to all others.
func (c cloner) shared(to, from reflect.Value, size int, fill func(fresh reflect.Value), fresh func() reflect.Value) {
	if from.IsNil() {
		return
	}
	key := reference{from.UnsafePointer(), from.Type(), size}
	known, is := c.done[key]
	if !is {
		known = fresh()
		c.done[key] = known
		fill(known)
	}
	to.Set(known)
}

// copy sets to, which is addressable and zero.
func (c cloner) copy(to, from reflect.Value, path string) {
	switch from.Kind() {
	case reflect.Pointer:
		c.shared(to, from, 0, func(fresh reflect.Value) { c.copy(fresh.Elem(), from.Elem(), path) },
			func() reflect.Value { return reflect.New(from.Type().Elem()) })
	case reflect.Map:
		c.shared(to, from, 0, func(fresh reflect.Value) { c.copyEntries(fresh, from, path) },
			func() reflect.Value { return reflect.MakeMapWithSize(from.Type(), from.Len()) })
	case reflect.Slice:
		c.shared(to, from, from.Len(), func(fresh reflect.Value) { c.copyItems(fresh, from, path) },
			func() reflect.Value { return reflect.MakeSlice(from.Type(), from.Len(), from.Len()) })
	case reflect.Array:
		c.copyItems(to, from, path)
	case reflect.Interface:
		if !from.IsNil() {
			to.Set(c.copied(from.Elem(), path+"."+from.Elem().Type().String()))
		}
	case reflect.Struct:
		if from.Type() == timeType {
			to.Set(from) // its location is shared by all and never changes
			return
		}
		for i := range from.NumField() {
			c.copy(opened(to.Field(i)), opened(from.Field(i)), path+"."+from.Type().Field(i).Name)
		}
	default:
		if !from.IsZero() { // a place for a function that has none is no harm
			refuse(from.Kind(), path)
			to.Set(from)
		}
	}
}

// copied is a copy of what can't be addressed: an item of a map or what an interface holds.
func (c cloner) copied(from reflect.Value, path string) reflect.Value {
	place, fresh := reflect.New(from.Type()).Elem(), reflect.New(from.Type()).Elem()
	place.Set(from)
	c.copy(fresh, place, path)
	return fresh
}

func (c cloner) copyEntries(to, from reflect.Value, path string) {
	for entries := from.MapRange(); entries.Next(); {
		to.SetMapIndex(c.copied(entries.Key(), path+".key"), c.copied(entries.Value(), path+"[]"))
	}
}

func (c cloner) copyItems(to, from reflect.Value, path string) {
	if plain(from.Type().Elem().Kind()) {
		reflect.Copy(to, from)
		return
	}
	for i := range from.Len() {
		c.copy(to.Index(i), from.Index(i), path+"[]")
	}
}

var timeType = reflect.TypeFor[time.Time]()

// plain values hold nothing that could be shared.
func plain(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Complex128 || kind == reflect.String
}

// opened is an addressable field as if it were exported.
func opened(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}

func refuse(kind reflect.Kind, path string) {
	if kind == reflect.Func || kind == reflect.Chan || kind == reflect.UnsafePointer {
		panic(fmt.Sprintf("%s is a %s: what is to be cloned, compared and printed holds data alone", path, kind))
	}
}
