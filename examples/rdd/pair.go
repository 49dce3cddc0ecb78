package rdd

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
)

// Pair is an element with a key. Datasets of pairs can be shuffled: all pairs of a key meet in one partition.
type Pair[K ordered, V any] struct {
	Key   K
	Value V
}

// String returns the line that Save writes.
func (p Pair[K, V]) String() string { return fmt.Sprintf("%v\t%v", p.Key, p.Value) }

// Group is a key with all its values, in their order in the dataset.
type Group[K ordered, V any] struct {
	Key    K
	Values []V
}

// paired is how kindOf finds out that its elements are pairs, and of which types.
type paired interface{ pairing() pairing }

func (Pair[K, V]) pairing() pairing { return pairs[K, V]{} }

// pairing is what an executor can do with pairs, whatever their types.
type pairing interface {
	register(function string)
	// write is the map side of a shuffle.
	write(w outputWriter, seq any) output
	// merge is the reduce side of a shuffle: it merges sorted sequences into one that is sorted by key. Among equal
	// keys the pairs of the first sequence come first. So sums of floats are added in the same order each time, and are
	// equal to the last digit.
	merge(outputs []io.Reader) any
	reduce(sorted any, reducer string, partition int) any
	group(sorted any) any
}

type pairs[K ordered, V any] struct{}

func (pairs[K, V]) register(function string) {
	registerKind[V](function)
	registerKind[Group[K, V]](function)
}

// hash returns the same value in every process, unlike the hashes of Go's maps.
func hash[K ordered](key K) uint64 {
	switch key := any(key).(type) {
	case string:
		return hashString(key)
	case int:
		return mix(uint64(key))
	}
	switch value := reflect.ValueOf(key); value.Kind() {
	case reflect.String:
		return hashString(value.String())
	case reflect.Float32, reflect.Float64:
		return mix(math.Float64bits(value.Float() + 0)) // + 0 makes -0 the same key as 0
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return mix(uint64(value.Int()))
	default:
		return mix(value.Uint())
	}
}

// hashString is FNV-1a.
func hashString(text string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * 1099511628211
	}
	return mix(sum)
}

func byKey[K ordered, V any](a, b Pair[K, V]) int { return cmp.Compare(a.Key, b.Key) }

// stream is a sorted output while it is being read.
type stream[K ordered, V any] struct {
	index int
	next  func() []Pair[K, V]
	batch []Pair[K, V]
}

// fill reads the next batch if the current one is used up; false: there are no more pairs.
func (s *stream[K, V]) fill() bool {
	if len(s.batch) == 0 && s.next != nil {
		s.batch = s.next()
	}
	return len(s.batch) > 0
}

func (s *stream[K, V]) before(other *stream[K, V]) bool {
	if c := cmp.Compare(s.batch[0].Key, other.batch[0].Key); c != 0 {
		return c < 0
	}
	return s.index < other.index
}

func (pairs[K, V]) merge(outputs []io.Reader) any {
	return iter.Seq[Pair[K, V]](func(yield func(Pair[K, V]) bool) {
		var streams []*stream[K, V]
		for _, output := range outputs {
			streams = append(streams, &stream[K, V]{next: batches[Pair[K, V]](output)})
		}
		mergeStreams(streams, yield)
	})
}

// mergeStreams yields the pairs of the streams by key and, among equal keys, in the order of the streams.
func mergeStreams[K ordered, V any](streams []*stream[K, V], yield func(Pair[K, V]) bool) {
	var heap []*stream[K, V]
	for i, s := range streams {
		s.index = i
		if s.fill() {
			heap = append(heap, s)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	for len(heap) > 0 {
		first := heap[0]
		pair := first.batch[0]
		if first.batch = first.batch[1:]; !first.fill() {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		siftDown(heap, 0)
		if !yield(pair) {
			return
		}
	}
}

// siftDown restores the heap below i. (container/heap would cost a call through an interface for each comparison.)
func siftDown[K ordered, V any](heap []*stream[K, V], i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].before(heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

func (pairs[K, V]) reduce(sorted any, name string, partition int) any {
	var at reading[Pair[K, V]]
	f := named[*reducer](name).f.(func(V, V) V)
	return blame(reduceSorted(watch(sorted.(iter.Seq[Pair[K, V]]), &at), f), func() string {
		return fmt.Sprintf("reducer %q, at key %s of partition %d", name, clip(fmt.Sprint(at.last.Key)), partition)
	})
}

// reduceSorted reduces consecutive pairs with the same key to one.
func reduceSorted[K ordered, V any](sorted iter.Seq[Pair[K, V]], f func(V, V) V) iter.Seq[Pair[K, V]] {
	return func(yield func(Pair[K, V]) bool) {
		var sum Pair[K, V]
		begun := false
		for pair := range sorted {
			switch {
			case !begun:
				sum, begun = pair, true
			case cmp.Compare(sum.Key, pair.Key) == 0:
				sum.Value = f(sum.Value, pair.Value)
			case yield(sum):
				sum = pair
			default:
				return
			}
		}
		if begun {
			yield(sum)
		}
	}
}

func (pairs[K, V]) group(sorted any) any { return groupSorted(sorted.(iter.Seq[Pair[K, V]])) }

// groupSorted gathers the values of consecutive pairs with the same key.
func groupSorted[K ordered, V any](sorted iter.Seq[Pair[K, V]]) iter.Seq[Group[K, V]] {
	return func(yield func(Group[K, V]) bool) {
		var group Group[K, V]
		for pair := range sorted {
			if len(group.Values) > 0 && cmp.Compare(group.Key, pair.Key) != 0 {
				if !yield(group) {
					return
				}
				group.Values = nil
			}
			group.Key, group.Values = pair.Key, append(group.Values, pair.Value)
		}
		if len(group.Values) > 0 {
			yield(group)
		}
	}
}

// mix spreads the bits of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
