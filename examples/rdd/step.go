package rdd

import (
	"fmt"
	"iter"
)

// Step is a named function that makes a dataset of B from a dataset of A, one partition at a time. Declare steps as
// variables of a package, so that executors, which are the same binary, know them too. The functions below that declare
// one panic if A or B can't be carried whole to executors and disks: all fields must be exported, and none may be a
// pointer, an interface, a function or a channel.
type Step[A, B any] struct {
	name  string
	given []byte // the parameter, packed
}

// Map declares a step that turns each element into another.
func Map[A, B any](name string, f func(A) B) Step[A, B] {
	return each(name, func(element A, yield func(B) bool) bool { return yield(f(element)) })
}

// Filter declares a step that keeps the elements for which f returns true.
func Filter[A any](name string, f func(A) bool) Step[A, A] {
	return each(name, func(element A, yield func(A) bool) bool { return !f(element) || yield(element) })
}

// FlatMap declares a step that turns each element into any number of others.
func FlatMap[A, B any](name string, f func(A) []B) Step[A, B] {
	return each(name, func(element A, yield func(B) bool) bool {
		for _, other := range f(element) {
			if !yield(other) {
				return false
			}
		}
		return true
	})
}

// each declares a step that does something for each element, until it returns false.
func each[A, B any](name string, do func(element A, yield func(B) bool) bool) Step[A, B] {
	return Partitions(name, func(in iter.Seq[A]) iter.Seq[B] {
		return func(yield func(B) bool) {
			for element := range in {
				if !do(element, yield) {
					return
				}
			}
		}
	})
}

// Partitions declares a step that gets a whole partition: it can set something up once, or return one sum for a million
// elements.
func Partitions[A, B any](name string, f func(iter.Seq[A]) iter.Seq[B]) Step[A, B] {
	return PartitionsWith(name, func(_ bool, in iter.Seq[A]) iter.Seq[B] { return f(in) }).With(false)
}

// Parameterized is a step that needs a value first, such as the centers of a k-means. The value travels with each task.
type Parameterized[P, A, B any] struct{ name string }

// PartitionsWith declares a Partitions with a parameter.
func PartitionsWith[P, A, B any](name string, f func(P, iter.Seq[A]) iter.Seq[B]) Parameterized[P, A, B] {
	registerKind[P](name)
	registerKind[A](name)
	registerKind[B](name)
	return declare(name, func(_ int, given P, in iter.Seq[A]) iter.Seq[B] { return f(given, in) })
}

// declare makes executors know a function under its name. All steps are made from it.
func declare[P, A, B any](name string, f func(partition int, given P, in iter.Seq[A]) iter.Seq[B]) Parameterized[P, A, B] {
	known.register(name, &step{apply: func(partition int, given []byte, seq any) any {
		value, err := unpack[P](given)
		check(err)
		at := &progress[A]{step: name, partition: partition}
		defer at.blame(new(bool))
		return blamed(f(partition, value, at.watched(seq.(iter.Seq[A]))), at)
	}})
	return Parameterized[P, A, B]{name}
}

// progress is where a step is in its input.
type progress[A any] struct {
	step      string
	partition int
	elements  int // how many it has got
	latest    A
}

// watched is a sequence of which the progress follows what was taken.
func (p *progress[A]) watched(in iter.Seq[A]) iter.Seq[A] {
	return func(yield func(A) bool) {
		for element := range in {
			p.elements++
			if p.latest = element; !yield(element) {
				return
			}
		}
	}
}

// placeTextMax bounds the text of the element in an error.
const placeTextMax = 200

// blame, which is deferred, has a panic of the step's function say where it was, unless the panic is of somebody else.
func (p *progress[A]) blame(elsewhere *bool) {
	if *elsewhere {
		return
	}
	switch thrown := recover().(type) {
	case nil:
	case failure:
		panic(thrown)
	default:
		at := ""
		if p.elements > 0 {
			at = fmt.Sprintf(" at element %d, %.*s", p.elements, placeTextMax, fmt.Sprint(p.latest))
		}
		panic(failure{fmt.Errorf("step %q in partition %d%s: panic: %v\n%s", p.step, p.partition, at, thrown, stack())})
	}
}

// blamed is the output of a step whose panics say where the step was.
func blamed[A, B any](out iter.Seq[B], at *progress[A]) iter.Seq[B] {
	return func(yield func(B) bool) {
		elsewhere := false // in what follows the step
		defer at.blame(&elsewhere)
		for element := range out {
			elsewhere = true
			more := yield(element)
			if elsewhere = false; !more {
				return
			}
		}
	}
}

// With gives the step its parameter.
func (p Parameterized[P, A, B]) With(value P) Step[A, B] {
	return Step[A, B]{p.name, pack(value)}
}

// On applies the step to a dataset. Nothing is computed until an action needs it.
func (s Step[A, B]) On(d Dataset[A]) Dataset[B] {
	return derive[B](node{Op: opStep, Name: s.name, Given: s.given}, d.lineageOf(), known.usable(s.name))
}

// Reducer is a named function that makes one element from two. It must be associative. The order of the elements is the
// same each time.
type Reducer[T any] struct{ Step[T, T] }

// Reduce declares a reducer. As a step it reduces each partition to one element, or to none if it is empty.
func Reduce[T any](name string, f func(T, T) T) Reducer[T] {
	fold := Partitions(name, func(in iter.Seq[T]) iter.Seq[T] {
		return func(yield func(T) bool) {
			var sum T
			begun := false
			for element := range in {
				if begun {
					sum = f(sum, element)
				} else {
					sum, begun = element, true
				}
			}
			if begun {
				yield(sum)
			}
		}
	})
	named(name).reduce = f
	return Reducer[T]{fold}
}
