package rdd

import (
	"fmt"
	"iter"
)

// Step is a named function that makes a dataset of B from a dataset of A, one partition at a time. Declare steps as
// variables of a package, so that executors, which are the same binary, know them too. The functions below that declare
// one panic if A or B can't be carried whole to executors and disks: all fields must be exported, and none may be an
// interface, a function or a channel.
type Step[A, B any] struct {
	name  string
	given []byte // the parameter, packed
}

// step is the executor's side of a Step: it turns sequences of A into sequences of B.
type step struct {
	apply func(partition int, given []byte, seq any) any
}

// Map declares a step that turns each element into another.
func Map[A, B any](name string, f func(A) B) Step[A, B] {
	return Partitions(name, func(in iter.Seq[A]) iter.Seq[B] { return mapped(in, f) })
}

// Filter declares a step that keeps the elements for which f returns true.
func Filter[A any](name string, f func(A) bool) Step[A, A] {
	return Partitions(name, func(in iter.Seq[A]) iter.Seq[A] {
		return func(yield func(A) bool) {
			for element := range in {
				if f(element) && !yield(element) {
					return
				}
			}
		}
	})
}

// FlatMap declares a step that turns each element into any number of others.
func FlatMap[A, B any](name string, f func(A) []B) Step[A, B] {
	return Partitions(name, func(in iter.Seq[A]) iter.Seq[B] {
		return func(yield func(B) bool) {
			for element := range in {
				for _, other := range f(element) {
					if !yield(other) {
						return
					}
				}
			}
		}
	})
}

// KeyBy declares a step that makes pairs of the elements and their keys.
func KeyBy[T any, K ordered](name string, f func(T) K) Step[T, Pair[K, T]] {
	return Map(name, func(element T) Pair[K, T] { return Pair[K, T]{f(element), element} })
}

// Partitions declares a step that gets a whole partition: it can set something up once, or return one sum for a million
// elements.
func Partitions[A, B any](name string, f func(iter.Seq[A]) iter.Seq[B]) Step[A, B] {
	return PartitionsWith(name, func(_ struct{}, in iter.Seq[A]) iter.Seq[B] { return f(in) }).With(struct{}{})
}

// Parameterized is a step that needs a value first, such as the centers of a k-means. The value travels with each task.
type Parameterized[P, A, B any] struct{ name string }

// MapWith declares a Map with a parameter.
func MapWith[P, A, B any](name string, f func(P, A) B) Parameterized[P, A, B] {
	return PartitionsWith(name, func(given P, in iter.Seq[A]) iter.Seq[B] {
		return mapped(in, func(element A) B { return f(given, element) })
	})
}

// PartitionsWith declares a Partitions with a parameter. All other steps are made from it.
func PartitionsWith[P, A, B any](name string, f func(P, iter.Seq[A]) iter.Seq[B]) Parameterized[P, A, B] {
	registerKind[P](name)
	registerKind[A](name)
	registerKind[B](name)
	known.register(name, &step{func(partition int, given []byte, seq any) any {
		value, err := unpack[P](given)
		check(err)
		var at reading[A]
		out := func(yield func(B) bool) { f(value, watch(seq.(iter.Seq[A]), &at))(yield) }
		return blame(out, func() string {
			return fmt.Sprintf("step %q, at element %d of partition %d, %s", name, at.elements, partition, clip(fmt.Sprintf("%#v", at.last)))
		})
	}})
	return Parameterized[P, A, B]{name}
}

// With gives the step its parameter.
func (p Parameterized[P, A, B]) With(value P) Step[A, B] {
	return Step[A, B]{p.name, pack(value)}
}

// On applies the step to a dataset. Nothing is computed until an action needs it.
func (s Step[A, B]) On(d Dataset[A]) Dataset[B] {
	return derive[B](node{Op: opStep, Name: s.name, Given: s.given}, d.lineageOf(), known.usable(s.name))
}

func mapped[A, B any](in iter.Seq[A], f func(A) B) iter.Seq[B] {
	return func(yield func(B) bool) {
		for element := range in {
			if !yield(f(element)) {
				return
			}
		}
	}
}
