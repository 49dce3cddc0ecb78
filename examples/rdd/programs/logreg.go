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

// Slope is the gradient of some points: summed up, with how many they are.
type Slope struct {
	Sum    []float64
	Points int
}

var (
	gradient  = rdd.PartitionsWith("gradient", gradientOf)
	addSlopes = rdd.Reduce("add-slopes", func(a, b Slope) Slope {
		sum := Slope{Sum: append([]float64(nil), a.Sum...), Points: a.Points + b.Points}
		addTo(sum.Sum, b.Sum, 1)
		return sum
	})
)

// gradientOf gives one slope for all points of a partition: with plane w, how should it turn?
func gradientOf(w []float64, points iter.Seq[Point]) iter.Seq[Slope] {
	return func(yield func(Slope) bool) {
		slope := Slope{Sum: make([]float64, len(w))}
		for p := range points {
			addTo(slope.Sum, p.X, p.Label*(1/(1+math.Exp(-p.Label*dot(w, p.X)))-1))
			slope.Points++
		}
		yield(slope)
	}
}

// logreg is the program of the Spark paper: logistic regression, the same points again and again.
func logreg(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	l := newLearning(flags)
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		points, first, err := l.points(ctx, c, 1)
		if err != nil {
			return err
		}
		w := make([]float64, len(first[0].X))
		err = l.iterate(ctx, c, out, func() error {
			slope, err := gradient.With(w).On(points).Reduce(ctx, addSlopes)
			if err == nil {
				addTo(w, slope.Sum, -1/float64(slope.Points))
			}
			return err
		})
		fmt.Fprintln(out, "result:", w)
		return err
	}
}
