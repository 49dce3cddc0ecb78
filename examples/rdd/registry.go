package rdd

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// registry holds the functions and types that this program declares, by name. Driver and executors are the same binary
// and fill it before main begins, so a name that the driver puts into a dataset means the same to every executor.
type registry struct {
	mu      sync.Mutex
	started bool
	kinds   map[string]kind
	steps   map[string]*step
}

// step is the executor's side of a declared function: it turns a sequence of A into one of B.
type step struct {
	apply  func(partition int, given []byte, seq any) any
	reduce any  // func(T, T) T, if it is a reducer
	late   bool // it was declared after the start
}

var known = registry{kinds: map[string]kind{}, steps: map[string]*step{}}

// nameOf returns the name of a type, which is the same in driver and executors.
func nameOf[T any]() string { return reflect.TypeFor[T]().String() }

// registerKind makes a type known that a function takes or gives. It panics, which ends the program where the function
// is declared, if elements of the type can't be carried whole.
func registerKind[T any](function string) {
	t, name := reflect.TypeFor[T](), nameOf[T]()
	if err := carried(t, t.String()); err != nil {
		panic(fmt.Sprintf("rdd: %q can't take or give a %s: %v", function, name, err))
	}
	known.mu.Lock()
	other := known.kinds[name]
	known.kinds[name] = kindOf[T]{}
	known.mu.Unlock()
	if other != nil && other.of() != t {
		panic(fmt.Sprintf("rdd: %q takes or gives a %s, and there are two types of that name, one of %s and one of %s; rename one",
			function, name, other.of().PkgPath(), t.PkgPath()))
	}
	if other != nil {
		return
	}
	declareActions[T]()
	if pairs := (kindOf[T]{}).pairing(); pairs != nil {
		pairs.register(function)
	}
}

// register declares a function under its name.
func (r *registry) register(name string, function *step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		panic("rdd: a function needs a name by which driver and executors know it")
	}
	if r.steps[name] != nil {
		panic(fmt.Sprintf("rdd: two functions are called %q; each needs a name of its own", name))
	}
	function.late, r.steps[name] = r.started, function
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
	case r.steps[name] == nil:
		return fmt.Errorf("rdd: no function %q was declared", name)
	case r.steps[name].late:
		return fmt.Errorf("rdd: %q was declared after the start, so executors do not know it; declare it as a variable of its package", name)
	}
	return nil
}

// named returns a function by its name; executors call it.
func named(name string) *step { return lookUp(known.steps, "function", name) }

// kindNamed returns a kind by its name; executors call it.
func kindNamed(name string) kind { return lookUp(known.kinds, "type", name) }

func lookUp[V comparable](among map[string]V, what, name string) (found V) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if found = among[name]; found == *new(V) {
		check(fmt.Errorf("rdd: this executor knows no %s %s; is it another program than its driver?", what, name))
	}
	return found
}

// checkKind returns why a dataset can't have elements of type T, or nil.
func checkKind[T any]() error {
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.kinds[nameOf[T]()] == nil {
		return fmt.Errorf("rdd: no declared function takes or gives a %s, so executors do not know the type", nameOf[T]())
	}
	return nil
}
