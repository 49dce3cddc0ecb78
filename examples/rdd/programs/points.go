package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/examples/rdd"
)

// Point is what logreg and kmeans learn from: its label says on which side it is, and X where it is.
type Point struct {
	Label float64 // 1 or -1
	X     []float64
}

// Total is the sum of some points, or of what was computed from them, and their number.
type Total struct {
	Sum    []float64
	Points int
}

var (
	parsePoint = rdd.Map("parse-point", parse)
	drawPoints = rdd.PartitionsWith("draw-points", draw)
	addTotals  = rdd.Reduce("add-totals", func(a, b Total) Total {
		sum := Total{Sum: append([]float64(nil), a.Sum...), Points: a.Points + b.Points}
		addTo(sum.Sum, b.Sum, 1)
		return sum
	})
)

// parse reads a line: the label, then the coordinates.
func parse(line string) Point {
	point := Point{X: make([]float64, 0, strings.Count(line, " "))}
	label, rest, _ := strings.Cut(line, " ")
	point.Label = number(label)
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, " ")
		point.X = append(point.X, number(field))
	}
	return point
}

func number(field string) float64 {
	n, err := strconv.ParseFloat(field, 64)
	if err != nil {
		panic(fmt.Sprintf("%q is no number", field)) // fails the task with this text
	}
	return n
}

// heaps is the number of centers around which the points are drawn.
const heaps = 10

// draw makes lines of points with this many dimensions. Each point lies around one of the centers, and its label nearly
// always says on which side of a plane it is. Each number has its own point, so it does not matter which task draws it.
func draw(dimensions int, numbers iter.Seq[int]) iter.Seq[string] {
	return func(yield func(string) bool) {
		var line []byte
		for n := range numbers {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			center, side := n%heaps, 0.0
			line = line[:0]
			for d := range dimensions {
				x := 4*heapCenter(center, d) + random.NormFloat64()
				side += x * heapCenter(heaps, d)
				line = strconv.AppendFloat(append(line, ' '), x, 'f', 6, 64)
			}
			label := "1"
			if side+random.NormFloat64() < 0 {
				label = "-1"
			}
			if !yield(label + string(line)) {
				return
			}
		}
	}
}

// heapCenter returns a coordinate between -1 and 1 that looks random and is the same in every process.
func heapCenter(heap, dimension int) float64 {
	return 2*rand.New(rand.NewPCG(uint64(heap), uint64(dimension))).Float64() - 1
}

func generate(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	points := flags.Int("points", 1_000_000, "`number` of points; a million are about 100 MB")
	dimensions := flags.Int("dimensions", 10, "`number` of coordinates of each")
	dir := flags.String("dir", "points", "`folder` to write, which must not exist")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		begun := time.Now()
		lines := drawPoints.With(*dimensions).On(rdd.Range(c, *points, 1+*points/250_000))
		if err := lines.Save(ctx, *dir); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d points are in %s after %.1f s\n", *points, *dir, time.Since(begun).Seconds())
		return nil
	}
}

// learning is what logreg and kmeans have in common: their flags, the points, and iterations that are timed.
type learning struct {
	flags      *flag.FlagSet
	iterations *int
	cache      *bool
	hold       *int
}

func newLearning(flags *flag.FlagSet) learning {
	return learning{
		flags:      flags,
		iterations: flags.Int("iterations", 10, "`number` of times to go over the points"),
		cache:      flags.Bool("cache", true, "keep the parsed points in memory; else each iteration reads and parses them"),
		hold:       flags.Int("hold", 0, "after iteration `N` wait for a line of input: a moment to break something"),
	}
}

// points returns the points in the folder that the command line names, and the first n of them.
func (l learning) points(ctx context.Context, c *rdd.Context, n int) (points rdd.Dataset[Point], first []Point, err error) {
	if l.flags.NArg() != 1 {
		return points, nil, errors.New("name the folder with the points; `generate` makes one")
	}
	points = parsePoint.On(rdd.TextFiles(c, filepath.Join(l.flags.Arg(0), "part-*")))
	if first, err = points.Take(ctx, n); err == nil && len(first) < n {
		err = fmt.Errorf("there are only %d points", len(first))
	}
	if *l.cache {
		points.Cache()
	}
	return points, first, err
}

// iterate runs the iterations, and prints how long the first took and the later ones on average.
func (l learning) iterate(ctx context.Context, c *rdd.Context, out io.Writer, do func() error) error {
	if _, err := rdd.Range(c, 1, 1).Count(ctx); err != nil { // so that no executor is still starting
		return err
	}
	var later time.Duration
	for i := range *l.iterations {
		begun := time.Now()
		if err := do(); err != nil {
			return err
		}
		took := time.Since(begun)
		if i > 0 {
			later += took
		}
		fmt.Fprintf(out, "iteration %d: %.3f s\n", i+1, took.Seconds())
		if i+1 == *l.hold {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the end of the input will do as well
		}
	}
	if *l.iterations > 1 {
		fmt.Fprintf(out, "mean of the later: %.3f s\n", later.Seconds()/float64(*l.iterations-1))
	}
	return nil
}

func addTo(sum, x []float64, times float64) {
	for i := range sum {
		sum[i] += times * x[i]
	}
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
