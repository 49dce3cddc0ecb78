package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
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
	var results []string
	for _, cache := range []string{"-cache=true", "-cache=false"} {
		said := locally(t, rdd.Config{SplitBytes: 20_000}, logreg, "-iterations", "5", cache, dir)
		_, result, _ := strings.Cut(said, "result: ")
		results = append(results, result)
	}
	if results[0] != results[1] || len(results[0]) < 20 {
		t.Errorf("%s\nwithout cache:\n%s", results[0], results[1])
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
