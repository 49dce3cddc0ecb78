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

var nearest = rdd.PartitionsWith("nearest", nearestOf)

// nearestOf returns, for each center, the total of the points in the partition that are nearest to it.
func nearestOf(centers [][]float64, points iter.Seq[Point]) iter.Seq[rdd.Pair[int, Total]] {
	return func(yield func(rdd.Pair[int, Total]) bool) {
		heaps := make([]Total, len(centers))
		for p := range points {
			heap := &heaps[closest(centers, p.X)]
			if heap.Sum == nil {
				heap.Sum = make([]float64, len(p.X))
			}
			addTo(heap.Sum, p.X, 1)
			heap.Points++
		}
		for i, heap := range heaps {
			if heap.Points > 0 && !yield(rdd.Pair[int, Total]{Key: i, Value: heap}) {
				return
			}
		}
	}
}

func closest(centers [][]float64, x []float64) (best int) {
	least := math.Inf(1)
	for i, center := range centers {
		if away := distance(center, x); away < least {
			best, least = i, away
		}
	}
	return best
}

// distance returns the square of the distance of two points. An iteration over points in memory spends most of its time
// here. It computes two sums, because each addition to a sum has to wait for the one before it.
func distance(a, b []float64) float64 {
	var even, odd float64
	b = b[:len(a)]
	i := 0
	for ; i+1 < len(a); i += 2 {
		d, e := a[i]-b[i], a[i+1]-b[i+1]
		even += d * d
		odd += e * e
	}
	if i < len(a) {
		d := a[i] - b[i]
		even += d * d
	}
	return even + odd
}

// kmeans moves centers to the middle of the points that are nearest to them, again and again.
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
			heaps, err := rdd.ReduceByKey(nearest.With(centers).On(points), addTotals).Collect(ctx)
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
