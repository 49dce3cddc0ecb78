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

var gradient = rdd.PartitionsWith("gradient", gradientOf)

// gradientOf returns the sum of the gradients at all points of a partition: how should the plane w turn?
func gradientOf(w []float64, points iter.Seq[Point]) iter.Seq[Total] {
	return func(yield func(Total) bool) {
		slope := Total{Sum: make([]float64, len(w))}
		for p := range points {
			addTo(slope.Sum, p.X, p.Label*(1/(1+math.Exp(-p.Label*dot(w, p.X)))-1))
			slope.Points++
		}
		yield(slope)
	}
}

// logreg is the program of the Spark paper: logistic regression, which goes over the same points again and again.
func logreg(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	l := newLearning(flags)
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		points, first, err := l.points(ctx, c, 1)
		if err != nil {
			return err
		}
		w := make([]float64, len(first[0].X))
		err = l.iterate(ctx, c, out, func() error {
			slope, err := gradient.With(w).On(points).Reduce(ctx, addTotals)
			if err == nil {
				addTo(w, slope.Sum, -1/float64(slope.Points))
			}
			return err
		})
		fmt.Fprintln(out, "result:", w)
		return err
	}
}
