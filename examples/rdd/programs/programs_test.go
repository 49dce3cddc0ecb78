package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/examples/rdd"
)

// locally runs a program with executors in this process, and gives back what it prints.
func locally(t *testing.T, config rdd.Config, choose program, args ...string) string {
	t.Helper()
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	run := choose(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := rdd.Local(t.Context(), config, func(ctx context.Context, c *rdd.Context) error { return run(ctx, c, &out) })
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// writeTexts writes some files to count.
func writeTexts(t *testing.T) (files []string) {
	dir := t.TempDir()
	for i := range 10 {
		text := strings.Repeat(fmt.Sprintf("To be, or not to be: That is the Question number %d!\nÄrger\n", i), i+1)
		files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestWordcount(t *testing.T) {
	files := writeTexts(t)
	said := locally(t, rdd.Config{}, wordcount, "-verify", "-goroutines", "3", "-top", "1", filepath.Dir(files[0]))
	if !strings.Contains(said, "      110  be\n") || !strings.Contains(said, "3 goroutines of this process count the same") {
		t.Error(said)
	}
}

// points generates some, and returns their folder.
func points(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "points")
	locally(t, rdd.Config{}, generate, "-points", "2000", "-dir", dir)
	return dir
}

// TestIterationsWithAndWithoutCache give the same result, to the last digit, and it is near the truth.
func TestIterationsWithAndWithoutCache(t *testing.T) {
	dir := points(t)
	for name, program := range map[string]program{"logreg": logreg, "kmeans": kmeans} {
		var results []string
		for _, cache := range []string{"-cache=true", "-cache=false"} {
			said := locally(t, rdd.Config{SplitBytes: 20_000}, program, "-iterations", "5", cache, dir)
			_, result, _ := strings.Cut(said, "result: ")
			results = append(results, result)
		}
		if results[0] != results[1] || len(results[0]) < 20 {
			t.Errorf("%s:\n%s\nwithout cache:\n%s", name, results[0], results[1])
		}
	}
}

// TestParse reads what draw writes.
func TestParse(t *testing.T) {
	for line := range draw(3, slices.Values([]int{1, 2, 3})) {
		p := parse(line)
		if math.Abs(p.Label) != 1 || len(p.X) != 3 {
			t.Errorf("%q is read as %v", line, p)
		}
	}
	if diff := cmp.Diff(Point{-1, []float64{0.5, -2}}, parse("-1 0.5 -2")); diff != "" {
		t.Error(diff)
	}
}

func TestLogsearch(t *testing.T) {
	files := writeTexts(t)
	var out bytes.Buffer
	err := rdd.Local(t.Context(), rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		return search(ctx, rdd.TextFiles(c, files...).Cache(), &out, "number 7", 2)
	})
	if err != nil || strings.Count(out.String(), "Question number 7") != 2 || !strings.Contains(out.String(), `"number 7": 8;`) {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestPagerank: the same ranks as a plain computation of them.
func TestPagerank(t *testing.T) {
	edges := strings.Join([]string{"a b", "a c", "b c", "c a", "d c"}, "\n")
	file := filepath.Join(t.TempDir(), "edges")
	if err := os.WriteFile(file, []byte(edges), 0o600); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	err := rdd.Local(t.Context(), rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		ranks, err := rankPages(rdd.TextFiles(c, file), 8).Collect(ctx)
		for _, page := range ranks {
			got[page.Key] = page.Value
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {"a"}, "d": {"c"}}
	want := map[string]float64{"a": 1, "b": 1, "c": 1, "d": 1}
	for range 8 {
		next := map[string]float64{}
		for _, page := range slices.Sorted(maps.Keys(out)) {
			next[page] += 0.15
			for _, target := range out[page] {
				next[target] += 0.85 * want[page] / float64(len(out[page]))
			}
		}
		want = next
	}
	for page := range want {
		if math.Abs(got[page]-want[page]) > 1e-9 {
			t.Errorf("the rank of %s is %v, want %v", page, got[page], want[page])
		}
	}
}

// TestTerasort with far less memory than it sorts: it says itself whether all is there and sorted.
func TestTerasort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sorted")
	said := locally(t, rdd.Config{MemoryMB: 2}, terasort, "-records", "30000", "-plain", "-dir", dir)
	if !strings.HasPrefix(said, "30000 records, sorted and complete") || !strings.Contains(said, "sorts the same") {
		t.Error(said)
	}
	if _, err := os.Stat(filepath.Join(dir, "_SUCCESS")); err != nil {
		t.Error(err)
	}
}

// TestDistance of points of any number of coordinates.
func TestDistance(t *testing.T) {
	a, b := []float64{1, 2, 3, 4, 5}, []float64{1, 4, 0, 3, 9}
	for n, want := range []float64{0, 0, 4, 13, 14, 30} {
		if got := distance(a[:n], b[:n]); got != want {
			t.Errorf("the distance of %v and %v is %v, want %v", a[:n], b[:n], got, want)
		}
	}
}
