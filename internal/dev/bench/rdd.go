package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/internal/dev/devcluster"
)

// rddExecutors is how many executors there are, one on each agent, with one task at a time. The comparison has as many
// goroutines.
const rddExecutors = 4

// rddSize is how much the programs of examples/rdd are given.
type rddSize struct {
	text       string // the folder whose words are counted: Go's own source
	split      int    // MB for each task; there are then three for each executor
	points     int    // a million are 100 MB of text
	iterations int    // iterations over the points in memory
	plain      int    // iterations over the points as text
	memory     int    // MB of an executor, for the points
}

var (
	rddFull  = rddSize{text: "src", split: 13, points: 10_700_000, iterations: 10, plain: 3, memory: 1024}
	rddQuick = rddSize{text: "src/net", split: 1, points: 400_000, iterations: 6, plain: 3, memory: 256}
)

// rddBench runs the programs of examples/rdd on a cluster, each in turn with its comparison.
type rddBench struct {
	size     rddSize
	runs     int
	masters  string
	programs string // the binary
	text     string // folder
	points   string // folder
}

// smallSpark measures examples/rdd.
func smallSpark(ctx context.Context, o options) (err error) {
	b := &rddBench{size: rddFull, runs: o.runs}
	if o.quick {
		b.size = rddQuick
	}
	cluster, err := devcluster.Start(ctx, devcluster.Options{Binary: o.binary, Parent: o.dir, Insecure: true, Agents: rddExecutors})
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := b.prepare(ctx, cluster); err != nil {
		return err
	}
	headline(o)
	_, part, _ := strings.Cut(o.only, "/")
	for _, one := range []struct {
		name    string
		measure func(context.Context) error
	}{{"wordcount", b.wordcount}, {"logreg", b.logreg}} {
		if part != "" && part != one.name {
			continue
		}
		if err := one.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the programs and finds the text.
func (b *rddBench) prepare(ctx context.Context, cluster *devcluster.Cluster) error {
	dir, err := filepath.Abs(cluster.Dir)
	if err != nil {
		return err
	}
	b.masters, b.programs, b.points = cluster.MasterAddresses(), filepath.Join(dir, "programs"), filepath.Join(dir, "points")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.programs, "github.com/tenderhq/tender/examples/rdd/programs")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building examples/rdd/programs: %w\n%s", err, out)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding Go's own source: %w", err)
	}
	b.text, err = filepath.EvalSymlinks(filepath.Join(strings.TrimSpace(string(root)), b.size.text))
	return err
}

// draw generates the points, once.
func (b *rddBench) draw(ctx context.Context) error {
	if _, err := os.Stat(b.points); err == nil {
		return nil
	}
	_, err := b.drive(ctx, "generate", "-points", strconv.Itoa(b.size.points), "-dir", b.points)
	return err
}

// drive runs a program to its end, and returns what it prints.
func (b *rddBench) drive(ctx context.Context, program string, args ...string) (said string, err error) {
	common := []string{program, "-master", b.masters, "-executors", strconv.Itoa(rddExecutors), "-memory", strconv.Itoa(b.size.memory)}
	command := exec.CommandContext(ctx, b.programs, append(common, args...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w: %s", err, ended.Stderr)
		}
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(out), nil
}

// secondsOf finds the time that a program has printed after some words.
func secondsOf(said, words string) (float64, error) {
	found := regexp.MustCompile(regexp.QuoteMeta(words) + `: ([0-9.]+) s`).FindStringSubmatch(said)
	if found == nil {
		return 0, fmt.Errorf("nothing is said of %q in:\n%s", words, said)
	}
	return strconv.ParseFloat(found[1], 64)
}

// timesOf finds two times.
func timesOf(said, first, second string) (a, b float64, err error) {
	a, errA := secondsOf(said, first)
	b, errB := secondsOf(said, second)
	return a, b, errors.Join(errA, errB)
}

// compare measures something and its reference in turns, after a warm-up, and reports how many times faster it is.
func (b *rddBench) compare(what, beside string, measure func() (took, reference float64, err error)) error {
	var times, references, ratios []float64
	for i := range b.runs + 1 {
		took, reference, err := measure()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if i > 0 {
			times, references, ratios = append(times, took), append(references, reference), append(ratios, reference/took)
		}
	}
	row(what, fmt.Sprintf("%.2f s (%.2f to %.2f)", median(times), slices.Min(times), slices.Max(times)),
		fmt.Sprintf("%s: %.2f s; %.2f times as quick (%.2f to %.2f)", beside, median(references), median(ratios), slices.Min(ratios), slices.Max(ratios)))
	return nil
}

func (b *rddBench) wordcount(ctx context.Context) error {
	beside := fmt.Sprintf("one Go process with %d goroutines", rddExecutors)
	return b.compare("wordcount over Go's "+b.size.text, beside, func() (took, reference float64, err error) {
		said, err := b.drive(ctx, "wordcount", "-verify", "-goroutines", strconv.Itoa(rddExecutors), "-top", "0",
			"-split", strconv.Itoa(b.size.split), b.text)
		if err != nil {
			return 0, 0, err
		}
		return timesOf(said, "counted in", "count the same")
	})
}

// logreg measures iterations over the same points, with the points in memory and without.
func (b *rddBench) logreg(ctx context.Context) error {
	if err := b.draw(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("logreg, %d points: a later iteration, cached", b.size.points)
	return b.compare(what, "the same, not cached", func() (took, reference float64, err error) {
		if took, err = b.iteration(ctx, b.size.iterations); err != nil {
			return 0, 0, err
		}
		reference, err = b.iteration(ctx, b.size.plain, "-cache=false")
		return took, reference, err
	})
}

// iteration returns the average time, in seconds, of the iterations after the first.
func (b *rddBench) iteration(ctx context.Context, iterations int, args ...string) (float64, error) {
	args = slices.Concat([]string{"-iterations", strconv.Itoa(iterations)}, args, []string{b.points})
	said, err := b.drive(ctx, "logreg", args...)
	if err != nil {
		return 0, err
	}
	return secondsOf(said, "mean of the later")
}
