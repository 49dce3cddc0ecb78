package rdd

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"
)

// registry holds the functions and types that this program declares, by name. Driver and executors are the same binary
// and fill it before main begins, so a name that the driver puts into a dataset means the same to every executor.
type registry struct {
	mu      sync.Mutex
	started bool
	kinds   map[string]kind
	steps   map[string]any // *step, *reducer or *grouper
	late    map[string]bool
}

var known = registry{kinds: map[string]kind{}, steps: map[string]any{}, late: map[string]bool{}}

// Every executor can read text and count.
func init() {
	registerKind[string]()
	registerKind[int]()
	registerKind[float64]()
}

func registerKind[T any]() {
	known.mu.Lock()
	_, there := known.kinds[nameOf[T]()]
	known.kinds[nameOf[T]()] = kindOf[T]{}
	known.mu.Unlock()
	if pairs := (kindOf[T]{}).pairing(); pairs != nil && !there {
		pairs.register()
	}
}

// register declares a function under its name.
func (r *registry) register(name string, function any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		panic("rdd: a function needs a name by which driver and executors know it")
	}
	if r.steps[name] != nil {
		panic(fmt.Sprintf("rdd: two functions are called %q; each needs a name of its own", name))
	}
	r.steps[name], r.late[name] = function, r.started
}

// start ends the time in which functions may be declared.
func (r *registry) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

// usable returns why a function can't be part of a dataset, or nil.
func (r *registry) usable(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return errors.New("rdd: a function without a name; declare it with rdd.Map and its like, as a variable of its package")
	case r.late[name]:
		return fmt.Errorf("rdd: %q was declared after the start, so executors do not know it; "+
			"declare it as a variable of its package", name)
	default:
		return nil
	}
}

func (r *registry) function(name string) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[name]
}

func (r *registry) kind(name string) (kind, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.kinds[name]
	return k, ok
}

// named returns a function of this type by its name; executors call it.
func named[F any](name string) F {
	function, ok := known.function(name).(F)
	if !ok {
		check(fmt.Errorf("rdd: this executor knows no function %q; is it another program than its driver?", name))
	}
	return function
}

// kindNamed returns a kind by its name; executors call it.
func kindNamed(name string) kind {
	k, ok := known.kind(name)
	if !ok {
		check(fmt.Errorf("rdd: this executor knows no type %s; is it another program than its driver?", name))
	}
	return k
}

// checkKind returns why a dataset can't have elements of type T, or nil.
func checkKind[T any]() error {
	if _, ok := known.kind(nameOf[T]()); !ok {
		return fmt.Errorf("rdd: no declared function takes or gives a %s, so executors do not know the type", nameOf[T]())
	}
	return nil
}

// pack and unpack encode values for the way to executors and back.
func pack(value any) ([]byte, error) {
	var buffer bytes.Buffer
	err := gob.NewEncoder(&buffer).Encode(value)
	return buffer.Bytes(), err
}

func unpack[T any](data []byte) (value T, err error) {
	if len(data) > 0 {
		err = gob.NewDecoder(bytes.NewReader(data)).Decode(&value)
	}
	return value, err
}

// ordered is what keys can be: strings and numbers.
type ordered = cmp.Ordered
