package rdd

import (
	"cmp"
	"errors"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// Dataset is a list of T in partitions, which need not be computed yet: it knows how to compute them, and an action
// computes what it needs. If a dataset was made wrongly, its first action returns the error before anything runs.
type Dataset[T any] struct {
	context *Context
	id      plan.NodeID
	err     error
}

// lineage is what a dataset is computed from.
type lineage struct {
	context    *Context
	partitions int
	parents    []plan.Parent
	shuffles   []plan.ShuffleID
	err        error
}

// lineageOf returns the lineage of a dataset whose partitions are each computed from the same partition of d.
func (d Dataset[T]) lineageOf() lineage {
	switch {
	case d.err != nil:
		return lineage{context: d.context, err: d.err}
	case d.context == nil:
		return lineage{err: errors.New("rdd: a dataset without a context; make one by a source such as rdd.Slice")}
	}
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	return lineage{context: d.context, partitions: d.context.graph.Node(d.id).Partitions, parents: []plan.Parent{{Node: d.id}}}
}

// derive makes a dataset with this lineage.
func derive[T any](n node, from lineage, err error) Dataset[T] {
	if err = cmp.Or(from.err, err, checkKind[T]()); err != nil {
		return Dataset[T]{context: from.context, err: err}
	}
	n.Kind = nameOf[T]()
	return Dataset[T]{context: from.context, id: from.context.addNode(n, from)}
}

// shuffled returns the lineage of a dataset that reads d's pairs by their keys.
func shuffled[K ordered, V any](d Dataset[Pair[K, V]], s shuffle) lineage {
	from := d.lineageOf()
	if from.err != nil {
		return from
	}
	s.Partitions = d.context.config.ShufflePartitions
	s.Kind = nameOf[Pair[K, V]]()
	id := d.context.addShuffle(s, d.id)
	return lineage{context: d.context, partitions: s.Partitions, shuffles: []plan.ShuffleID{id}}
}

// ReduceByKey reduces all pairs with the same key to one pair. As much as possible is reduced before the shuffle.
func ReduceByKey[K ordered, V any](d Dataset[Pair[K, V]], r Reducer[V]) Dataset[Pair[K, V]] {
	return derive[Pair[K, V]](node{Op: opReduced, Name: r.name}, shuffled(d, shuffle{Reducer: r.name}), known.usable(r.name))
}

// GroupByKey gathers all values of each key. The values of one key must fit into the memory of an executor.
func GroupByKey[K ordered, V any](d Dataset[Pair[K, V]]) Dataset[Group[K, V]] {
	return derive[Group[K, V]](node{Op: opGrouped}, shuffled(d, shuffle{}), nil)
}

// Union has the elements of d, and then those of the others. To join two datasets make pairs of one type of both, and
// group their union by key.
func (d Dataset[T]) Union(others ...Dataset[T]) Dataset[T] {
	from := d.lineageOf()
	for _, other := range others {
		next := other.lineageOf()
		if from.err = cmp.Or(from.err, next.err); from.err != nil {
			break
		}
		if next.context != from.context {
			from.err = errors.New("rdd: a union of datasets of two contexts")
			break
		}
		from.parents = append(from.parents, plan.Parent{Node: other.id, First: from.partitions})
		from.partitions += next.partitions
	}
	return derive[T](node{Op: opUnion}, from, nil)
}

// Cache makes executors keep the partitions once they have computed them: in memory, or on disk when memory gets short.
// It returns d.
func (d Dataset[T]) Cache() Dataset[T] {
	if c := d.context; d.err == nil && c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := c.nodes[d.id]
		n.Kept = true
		c.nodes[d.id] = n
	}
	return d
}
