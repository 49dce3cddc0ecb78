package rdd

import (
	"bufio"
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"os"
	"slices"
)

// ordered is what keys can be.
type ordered interface {
	~string | ~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

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
	// write is the map side of a shuffle. It writes a file that has the pairs for each partition together; with a
	// reducer one pair for each key.
	write(path string, partitions int, reduce, seq any) output
	// merge is the reduce side of a shuffle: it sorts the pieces of all map outputs by key. Among equal keys the pairs
	// of the first piece come first. So sums of floats are added in the same order each time, and are equal to the last
	// digit.
	merge(pieces []io.Reader) any
	reduce(sorted, reduce any) any
	group(sorted any) any
}

type pairs[K ordered, V any] struct{}

func (pairs[K, V]) register(function string) {
	registerKind[V](function)
	registerKind[Group[K, V]](function)
}

// output is what a map task has written. Partition p is between ends[p] and ends[p+1].
type output struct {
	path string
	ends []int64
}

// open reads one partition of the output.
func (o output) open(partition int) (*os.File, *io.SectionReader, error) {
	file, err := os.Open(o.path)
	if err != nil {
		return nil, nil, err
	}
	first := o.ends[partition]
	return file, io.NewSectionReader(file, first, o.ends[partition+1]-first), nil
}

func (pairs[K, V]) write(path string, partitions int, reduce, seq any) output {
	held := make([][]Pair[K, V], partitions)
	add := func(pair Pair[K, V]) {
		at := partitionOf(pair.Key, partitions)
		held[at] = append(held[at], pair)
	}
	if f, is := reduce.(func(V, V) V); is {
		sums := map[K]*V{}
		for pair := range seq.(iter.Seq[Pair[K, V]]) {
			if sum := sums[pair.Key]; sum != nil {
				*sum = f(*sum, pair.Value)
			} else {
				first := pair.Value
				sums[pair.Key] = &first
			}
		}
		for key, sum := range sums { // order: irrelevant because each key is there once
			add(Pair[K, V]{key, *sum})
		}
	} else {
		for pair := range seq.(iter.Seq[Pair[K, V]]) {
			add(pair)
		}
	}
	file, err := os.Create(path)
	check(err)
	defer file.Close()
	to, out := bufio.NewWriterSize(file, 64<<10), output{path: path, ends: []int64{0}}
	for _, part := range held {
		check(writeElements(to, slices.Values(part)))
		check(to.Flush())
		end, err := file.Seek(0, io.SeekCurrent)
		check(err)
		out.ends = append(out.ends, end)
	}
	check(file.Close())
	return out
}

// partitionOf returns to which partition a key belongs; it is the same in every process, unlike the hashes of Go's maps.
func partitionOf[K ordered](key K, partitions int) int {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, key) // a hash takes what it is given
	return int(sum.Sum64() % uint64(partitions))
}

func (pairs[K, V]) merge(pieces []io.Reader) any {
	var all []Pair[K, V]
	for _, piece := range pieces {
		all = slices.AppendSeq(all, readElements[Pair[K, V]](piece))
	}
	slices.SortStableFunc(all, func(a, b Pair[K, V]) int { return cmp.Compare(a.Key, b.Key) })
	return slices.Values(all)
}

func (pairs[K, V]) reduce(sorted, reduce any) any {
	f := reduce.(func(V, V) V)
	return iter.Seq[Pair[K, V]](func(yield func(Pair[K, V]) bool) {
		for group := range groupSorted(sorted.(iter.Seq[Pair[K, V]])) {
			sum := group.Values[0]
			for _, value := range group.Values[1:] {
				sum = f(sum, value)
			}
			if !yield(Pair[K, V]{group.Key, sum}) {
				return
			}
		}
	})
}

func (pairs[K, V]) group(sorted any) any { return groupSorted(sorted.(iter.Seq[Pair[K, V]])) }

// groupSorted gathers the values of consecutive pairs with the same key.
func groupSorted[K ordered, V any](sorted iter.Seq[Pair[K, V]]) iter.Seq[Group[K, V]] {
	return func(yield func(Group[K, V]) bool) {
		var group Group[K, V]
		for pair := range sorted {
			if len(group.Values) > 0 && group.Key != pair.Key {
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
