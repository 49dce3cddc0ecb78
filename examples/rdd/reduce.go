package rdd

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
)

// Reducer is a named function that makes one element from two. It must be associative. The order of the elements is the
// same each time.
type Reducer[T any] struct{ name string }

// reducer is the executor's side of a Reducer.
type reducer struct {
	f    any // func(T, T) T
	fold func(partition int, seq any) any
}

// Reduce declares a reducer.
func Reduce[T any](name string, f func(T, T) T) Reducer[T] {
	registerKind[T](name)
	known.register(name, &reducer{f: f, fold: func(partition int, seq any) any {
		var at reading[T]
		return blame(folded(watch(seq.(iter.Seq[T]), &at), f), func() string {
			return fmt.Sprintf("reducer %q, at element %d of partition %d", name, at.elements, partition)
		})
	}})
	return Reducer[T]{name}
}

// folded reduces a sequence to one element, or to none if it is empty.
func folded[T any](in iter.Seq[T], f func(T, T) T) iter.Seq[T] {
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
}

// Grouper is a named function of all values that a key has in two datasets of pairs.
type Grouper[K ordered, V, W, U any] struct{ name string }

// grouper is the executor's side of a Grouper.
type grouper struct {
	join func(partition int, left, right any) any
}

// CoGroup declares a function of a key and all its values on the left and on the right; on one side there may be none.
func CoGroup[K ordered, V, W, U any](name string, f func(K, []V, []W) []U) Grouper[K, V, W, U] {
	registerKind[Pair[K, V]](name)
	registerKind[Pair[K, W]](name)
	registerKind[U](name)
	known.register(name, &grouper{func(partition int, left, right any) any {
		var at K
		joined := coGrouped(groupSorted(left.(iter.Seq[Pair[K, V]])), groupSorted(right.(iter.Seq[Pair[K, W]])), func(key K, vs []V, ws []W) []U {
			at = key
			return f(key, vs, ws)
		})
		return blame(joined, func() string {
			return fmt.Sprintf("join %q, at key %s of partition %d", name, clip(fmt.Sprint(at)), partition)
		})
	}})
	return Grouper[K, V, W, U]{name}
}

// Join declares a function of a key and one value from each side. It is called for every pair of such values.
func Join[K ordered, V, W, U any](name string, f func(K, V, W) U) Grouper[K, V, W, U] {
	return CoGroup(name, func(key K, left []V, right []W) []U {
		var all []U
		for _, v := range left {
			for _, w := range right {
				all = append(all, f(key, v, w))
			}
		}
		return all
	})
}

// coGrouped walks through two sorted sequences in step.
func coGrouped[K ordered, V, W, U any](left iter.Seq[Group[K, V]], right iter.Seq[Group[K, W]],
	f func(K, []V, []W) []U) iter.Seq[U] {
	return func(yield func(U) bool) {
		nextLeft, stopLeft := iter.Pull(left)
		defer stopLeft()
		nextRight, stopRight := iter.Pull(right)
		defer stopRight()
		l, inLeft := nextLeft()
		r, inRight := nextRight()
		for inLeft || inRight {
			var key K
			var vs []V
			var ws []W
			order := side(inLeft, inRight, l.Key, r.Key)
			if order <= 0 {
				key, vs = l.Key, l.Values
				l, inLeft = nextLeft()
			}
			if order >= 0 {
				key, ws = r.Key, r.Values
				r, inRight = nextRight()
			}
			for _, element := range f(key, vs, ws) {
				if !yield(element) {
					return
				}
			}
		}
	}
}

// side says which side has the next key: negative the left, positive the right, 0 both.
func side[K ordered](inLeft, inRight bool, left, right K) int {
	switch {
	case !inRight:
		return -1
	case !inLeft:
		return 1
	default:
		return cmp.Compare(left, right)
	}
}

// On applies the function to two datasets; both are shuffled, so that equal keys meet.
func (g Grouper[K, V, W, U]) On(left Dataset[Pair[K, V]], right Dataset[Pair[K, W]]) Dataset[U] {
	err := known.usable(g.name)
	if left.context != right.context {
		err = errors.New("rdd: a join of datasets of two contexts")
	}
	l, r := shuffled(left, shuffle{}), shuffled(right, shuffle{})
	l.shuffles, l.err = append(l.shuffles, r.shuffles...), cmp.Or(l.err, r.err)
	return derive[U](node{Op: opJoined, Name: g.name}, l, err)
}
