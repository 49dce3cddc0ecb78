// Package value clones and prints values of any type, with all their unexported fields. It is used to copy and print
// whole cores, whose state is plain data. Functions, channels and unsafe pointers can be neither copied nor compared. A
// value that holds one is refused by a panic that names the place.
//
// Cloning never calls a method of the value. The package needs no function for equality: reflect.DeepEqual compares two
// values, and finds a clone equal to its original as long as no map is keyed by pointers.
package value

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// Clone copies a value and everything that it refers to. Pointers, maps or slices that are the same in the original are
// the same in the clone too. The clone and the original share nothing that can be changed.
func Clone[T any](original T) T {
	var clone T
	from := reflect.ValueOf(&original).Elem()
	c := cloner{done: map[reference]reflect.Value{}}
	c.copy(reflect.ValueOf(&clone).Elem(), from, from.Type().String())
	return clone
}

// reference identifies something that two places of a value may share.
type reference struct {
	at   unsafe.Pointer
	kind reflect.Type
	size int // of a slice
}

type cloner struct {
	done map[reference]reflect.Value
}

// shared calls fresh and fill at the first place that refers to something, and sets all other places to the same
// result.
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

// copy sets to, which must be addressable and zero, to a copy of from.
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
			to.Set(from) // the location is shared, and never changes
			return
		}
		for i := range from.NumField() {
			c.copy(opened(to.Field(i)), opened(from.Field(i)), path+"."+from.Type().Field(i).Name)
		}
	default:
		if !from.IsZero() { // a nil function or channel does no harm
			refuse(from.Kind(), path)
			to.Set(from)
		}
	}
}

// copied returns a copy of a value that is not addressable: a key or value of a map, or what an interface holds.
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

// plain reports whether values of this kind hold nothing that could be shared.
func plain(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Complex128 || kind == reflect.String
}

// opened returns an addressable field as if it were exported.
func opened(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}

func refuse(kind reflect.Kind, path string) {
	if kind == reflect.Func || kind == reflect.Chan || kind == reflect.UnsafePointer {
		panic(fmt.Sprintf("%s is a %s: what is to be cloned, compared and printed holds data alone", path, kind))
	}
}
