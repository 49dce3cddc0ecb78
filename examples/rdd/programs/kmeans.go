package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/tenderhq/tender/examples/rdd"
)

// Heap is the points that are nearest to a center: summed up, with how many they are.
type Heap struct {
	Sum    []float64
	Points int
}

var (
	nearest  = rdd.PartitionsWith("nearest", nearestOf)
	addHeaps = rdd.Reduce("add-heaps", func(a, b Heap) Heap {
		sum := Heap{Sum: append([]float64(nil), a.Sum...), Points: a.Points + b.Points}
		addTo(sum.Sum, b.Sum, 1)
		return sum
	})
)

// nearestOf gives a heap for each center that is the nearest of some points of the partition.
func nearestOf(centers [][]float64, points iter.Seq[Point]) iter.Seq[rdd.Pair[int, Heap]] {
	return func(yield func(rdd.Pair[int, Heap]) bool) {
		heaps := make([]Heap, len(centers))
		for p := range points {
			heap := &heaps[closest(centers, p.X)]
			if heap.Sum == nil {
				heap.Sum = make([]float64, len(p.X))
			}
			addTo(heap.Sum, p.X, 1)
			heap.Points++
		}
		for i, heap := range heaps {
			if heap.Points > 0 && !yield(rdd.Pair[int, Heap]{Key: i, Value: heap}) {
				return
			}
		}
	}
}

func closest(centers [][]float64, x []float64) (best int) {
	least := math.Inf(1)
	for i, center := range centers {
		sum := 0.0
		for d, c := range center {
			sum += (c - x[d]) * (c - x[d])
		}
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}

// kmeans moves centers to the middle of the points that are nearest to them.
func kmeans(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	l := newLearning(flags)
	k := flags.Int("centers", 5, "`number` of centers")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		points, first, err := l.points(ctx, c, *k)
		if err != nil {
			return err
		}
		centers := make([][]float64, *k)
		for i, point := range first {
			centers[i] = point.X
		}
		err = l.iterate(ctx, c, out, func() error {
			heaps, err := rdd.ReduceByKey(nearest.With(centers).On(points), addHeaps).Collect(ctx)
			for _, heap := range heaps {
				middle := make([]float64, len(heap.Value.Sum))
				addTo(middle, heap.Value.Sum, 1/float64(heap.Value.Points))
				centers[heap.Key] = middle
			}
			return err
		})
		fmt.Fprintln(out, "result:", centers)
		return err
	}
}
