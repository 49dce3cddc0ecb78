package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/examples/rdd"
)

// Point is what logreg learns from: its label says on which side it is, and X where it is.
type Point struct {
	Label float64 // 1 or -1
	X     []float64
}

// Total is the sum of what was computed from some points, and their number.
type Total struct {
	Sum    []float64
	Points int
}

var (
	parsePoint = rdd.Map("parse-point", parse)
	drawPoints = rdd.PartitionsWith("draw-points", draw)
	gradient   = rdd.PartitionsWith("gradient", gradientOf)
	addTotals  = rdd.Reduce("add-totals", func(a, b Total) Total {
		sum := Total{Sum: append([]float64(nil), a.Sum...), Points: a.Points + b.Points}
		addTo(sum.Sum, b.Sum, 1)
		return sum
	})
)

// gradientOf returns the sum of the gradients at all points of a partition: how should the plane w turn?
func gradientOf(w []float64, points iter.Seq[Point]) iter.Seq[Total] {
	return func(yield func(Total) bool) {
		slope := Total{Sum: make([]float64, len(w))}
		for p := range points {
			dot := 0.0
			for i := range w {
				dot += w[i] * p.X[i]
			}
			addTo(slope.Sum, p.X, p.Label*(1/(1+math.Exp(-p.Label*dot))-1))
			slope.Points++
		}
		yield(slope)
	}
}

func addTo(sum, x []float64, times float64) {
	for i := range sum {
		sum[i] += times * x[i]
	}
}

// logreg is the program of the Spark paper: logistic regression, which goes over the same points again and again.
func logreg(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	iterations := flags.Int("iterations", 10, "`number` of times to go over the points")
	cache := flags.Bool("cache", true, "keep the parsed points in memory; else each iteration reads and parses them")
	hold := flags.Int("hold", 0, "after iteration `N` wait for a line of input: a moment to break something")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		if flags.NArg() != 1 {
			return errors.New("name the folder with the points; `generate` makes one")
		}
		points := parsePoint.On(rdd.TextFiles(c, filepath.Join(flags.Arg(0), "part-*")))
		if _, err := rdd.Range(c, 1, 1).Count(ctx); err != nil { // so that no executor is still starting
			return err
		}
		if *cache {
			points.Cache()
		}
		w, later := make([]float64, dimensions), time.Duration(0)
		for i := range *iterations {
			begun := time.Now()
			slope, err := gradient.With(w).On(points).Reduce(ctx, addTotals)
			if err != nil {
				return err
			}
			addTo(w, slope.Sum, -1/float64(slope.Points))
			took := time.Since(begun)
			if i > 0 {
				later += took
			}
			fmt.Fprintf(out, "iteration %d: %.3f s\n", i+1, took.Seconds())
			if i+1 == *hold {
				_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the end of the input will do as well
			}
		}
		if *iterations > 1 {
			fmt.Fprintf(out, "mean of the later: %.3f s\n", later.Seconds()/float64(*iterations-1))
		}
		fmt.Fprintln(out, "result:", w)
		return nil
	}
}

// parse reads a line: the label, then the coordinates.
func parse(line string) Point {
	fields := strings.Fields(line)
	numbers := make([]float64, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			panic(fmt.Sprintf("%q is no number", field)) // fails the task with this text
		}
		numbers[i] = n
	}
	return Point{numbers[0], numbers[1:]}
}

// dimensions is how many coordinates a point has.
const dimensions = 10

// draw makes lines of points with this many dimensions: around one center those with the label 1, around another those
// with -1. Each number has its own point, so it does not matter which task draws it.
func draw(dimensions int, numbers iter.Seq[int]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range numbers {
			random, label := rand.New(rand.NewPCG(uint64(n), 1)), float64(n%2*2-1)
			line := strconv.AppendFloat(nil, label, 'f', -1, 64)
			for range dimensions {
				line = strconv.AppendFloat(append(line, ' '), label/2+random.NormFloat64(), 'f', 6, 64)
			}
			if !yield(string(line)) {
				return
			}
		}
	}
}

func generate(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	points := flags.Int("points", 1_000_000, "`number` of points; a million are about 100 MB")
	dir := flags.String("dir", "points", "`folder` to write, which must not exist")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		begun := time.Now()
		if err := drawPoints.With(dimensions).On(rdd.Range(c, *points, 1+*points/250_000)).Save(ctx, *dir); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d points are in %s after %.1f s\n", *points, *dir, time.Since(begun).Seconds())
		return nil
	}
}
