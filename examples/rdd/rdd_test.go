package rdd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/examples/rdd"
)

type pair = rdd.Pair[string, int]

var (
	split = rdd.FlatMap("split", strings.Fields)
	one   = rdd.Map("one", func(word string) pair { return pair{word, 1} })
	sum   = rdd.Reduce("sum", func(a, b int) int { return a + b })
	add   = rdd.Reduce("add", func(a, b float64) float64 { return a + b })
	even  = rdd.Filter("even", func(n int) bool { return n%2 == 0 })
	times = rdd.PartitionsWith("times", func(factor int, in iter.Seq[int]) iter.Seq[int] {
		return mapped(in, func(n int) int { return factor * n })
	})
	text     = rdd.Map("text", func(n int) string { return "line " + strconv.Itoa(n) })
	third    = rdd.Map("third", func(n int) float64 { return float64(n) / 3 })
	tens     = rdd.Map("tens", func(n int) rdd.Pair[int, int] { return rdd.Pair[int, int]{Key: n / 10, Value: n} })
	spread   = rdd.Map("spread", func(n int) rdd.Pair[int, int] { return rdd.Pair[int, int]{Key: n * 7 % 1000, Value: n} })
	computed atomic.Int64
	counted  = rdd.Map("counted", func(n int) int { computed.Add(1); return n })
	lookUp   = rdd.PartitionsWith("look-up", func(table []int, in iter.Seq[int]) iter.Seq[int] {
		return mapped(in, func(n int) int { return table[n] })
	})
	broken = rdd.Map("broken", func(n int) int { return 1 / (n - 5) })
)

// locally runs a program with four executors in this process.
func locally(t *testing.T, config rdd.Config, program func(ctx context.Context, c *rdd.Context) error) {
	t.Helper()
	if err := rdd.Local(t.Context(), config, program); err != nil {
		t.Fatal(err)
	}
}

// want fails unless an action has brought what it should.
func want[T any](t *testing.T, what string, wanted T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestSteps(t *testing.T) {
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		ten := rdd.Range(c, 10, 3)
		want(t, "range", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})(ten.Collect(ctx))
		want(t, "filter", []int{0, 2, 4, 6, 8})(even.On(ten).Collect(ctx))
		want(t, "a parameter", []int{0, 6, 12, 18, 24})(times.With(3).On(even.On(ten)).Collect(ctx))
		want(t, "count", 5)(even.On(ten).Count(ctx))
		want(t, "reduce", 45)(ten.Reduce(ctx, sum))
		want(t, "slice", []string{"a", "b", "c"})(split.On(rdd.Slice(c, []string{"a b", "", "c"}, 2)).Collect(ctx))
		union := even.On(ten).Union(ten, even.On(ten))
		want(t, "union", 20)(union.Count(ctx))
		want(t, "union", []int{0, 2, 4, 6, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 2, 4, 6, 8})(union.Collect(ctx))
		_, err := even.On(rdd.Range(c, 0, 2)).Reduce(ctx, sum)
		if !errors.Is(err, rdd.ErrEmpty) {
			t.Errorf("the sum of nothing is %v", err)
		}
		return nil
	})
}

func mapped[A, B any](in iter.Seq[A], f func(A) B) iter.Seq[B] {
	return func(yield func(B) bool) {
		for element := range in {
			if !yield(f(element)) {
				return
			}
		}
	}
}

func TestShuffles(t *testing.T) {
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		words := split.On(rdd.Slice(c, []string{"to be or", "not to", "be"}, 3))
		counts, err := rdd.ReduceByKey(one.On(words), sum).Collect(ctx)
		slices.SortFunc(counts, func(a, b pair) int { return strings.Compare(a.Key, b.Key) })
		want(t, "reduceByKey", []pair{{"be", 2}, {"not", 1}, {"or", 1}, {"to", 2}})(counts, err)

		groups, err := rdd.GroupByKey(tens.On(rdd.Range(c, 30, 4))).Collect(ctx)
		slices.SortFunc(groups, func(a, b rdd.Group[int, int]) int { return a.Key - b.Key })
		want(t, "groupByKey", 3)(len(groups), err)
		want(t, "a group", []int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19})(groups[1].Values, nil)
		return nil
	})
}

// TestLargeShuffle: a shuffle of many pairs is complete.
func TestLargeShuffle(t *testing.T) {
	const n = 50_000
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		reduced, err := rdd.ReduceByKey(spread.On(rdd.Range(c, n, 6)), sum).Collect(ctx)
		total := 0
		for _, each := range reduced {
			total += each.Value
		}
		want(t, "reduced", 1000)(len(reduced), err)
		want(t, "their sum", n*(n-1)/2)(total, nil)
		return nil
	})
}

// TestText: whatever the splits, each line is read once.
func TestText(t *testing.T) {
	dir := t.TempDir()
	var all []string
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprint(i, ".txt"))
		var file bytes.Buffer
		for j := range 80 {
			line := strings.Repeat("x", rand.New(rand.NewPCG(uint64(i), uint64(j))).IntN(30)) + strconv.Itoa(i*1000+j)
			all = append(all, line)
			fmt.Fprintln(&file, line)
		}
		if i == 1 {
			file.Truncate(file.Len() - 1) // the last line has no end
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, bytes := range []int64{1 << 20, 1000, 97, 31} {
		locally(t, rdd.Config{SplitBytes: bytes}, func(ctx context.Context, c *rdd.Context) error {
			want(t, fmt.Sprintf("splits of %d bytes", bytes), all)(rdd.TextFiles(c, filepath.Join(dir, "*.txt")).Collect(ctx))
			return nil
		})
	}
}

// TestCacheComputesOnce: the second pass reads what the first one has kept, also where memory is short.
func TestCacheComputesOnce(t *testing.T) {
	for _, memory := range []float64{64, 0.01} {
		computed.Store(0)
		locally(t, rdd.Config{MemoryMB: memory}, func(ctx context.Context, c *rdd.Context) error {
			kept := counted.On(rdd.Range(c, 10_000, 8)).Cache()
			for range 3 {
				want(t, "the sum", 10_000*9_999/2)(kept.Reduce(ctx, sum))
			}
			want(t, "computed", int64(10_000))(computed.Load(), nil)
			return nil
		})
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		numbers := rdd.Range(c, 100, 4)
		if err := text.On(numbers).Save(ctx, filepath.Join(dir, "lines")); err != nil {
			return err
		}
		lines, err := rdd.TextFiles(c, filepath.Join(dir, "lines", "part-*")).Collect(ctx)
		want(t, "lines", 100)(len(lines), err)
		want(t, "the last line", "line 99")(lines[99], nil)
		if err := text.On(numbers).Save(ctx, filepath.Join(dir, "lines")); err == nil {
			t.Error("a folder is written twice")
		}
		return nil
	})
}

// TestSumsOfFloatsAreExact: partitions are added in the same order each time, whoever has computed them when.
func TestSumsOfFloatsAreExact(t *testing.T) {
	var sums []float64
	for range 3 {
		locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
			total, err := third.On(rdd.Range(c, 10_000, 16)).Reduce(ctx, add)
			sums = append(sums, total)
			return err
		})
	}
	if len(slices.Compact(sums)) != 1 {
		t.Errorf("the sums differ: %v", sums)
	}
}

type stranger struct{ N int }

// lates counts the runs of the next test: no two functions of a process may have one name.
var lates atomic.Int64

func TestMistakesAreToldBeforeAnythingRuns(t *testing.T) {
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		late := rdd.Map("late "+strconv.FormatInt(lates.Add(1), 10), func(n int) int { return n })
		dir := t.TempDir()
		var nameless rdd.Step[int, int]
		var nowhere rdd.Dataset[int]
		for what, err := range map[string]error{
			"declared after the start": second(late.On(rdd.Range(c, 1, 1)).Collect(ctx)),
			"without a name":           second(nameless.On(rdd.Range(c, 1, 1)).Collect(ctx)),
			"without a context":        second(nowhere.Collect(ctx)),
			"stranger":                 second(rdd.Slice(c, []stranger{{1}}, 1).Collect(ctx)),
			"can't have -5 numbers":    second(rdd.Range(c, -5, 1).Count(ctx)),
			"name the files, as in":    second(rdd.TextFiles(c, dir).Count(ctx)),
			"is no file with lines":    second(rdd.TextFiles(c, filepath.Join(filepath.Dir(dir), "*")).Count(ctx)),
			"there is no file":         second(rdd.TextFiles(c, "/nowhere/*.txt").Count(ctx)),
		} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	})
}

func second[T any](_ T, err error) error { return err }

// TestLargeParameter: a table of a megabyte reaches all tasks.
func TestLargeParameter(t *testing.T) {
	table := make([]int, 200_000)
	for i := range table {
		table[i] = 3 * i
	}
	locally(t, rdd.Config{}, func(ctx context.Context, c *rdd.Context) error {
		want(t, "the sum", 3*200_000*199_999/2)(lookUp.With(table).On(rdd.Range(c, len(table), 16)).Reduce(ctx, sum))
		return nil
	})
}

// breaks panics in each of the functions that a program declares.
var (
	brokenSum   = rdd.Reduce("broken-sum", func(a, b int) int { return []int{}[a] + b })
	brokenWords = rdd.Reduce("broken-words", func(a, b int) int { panic("what a word") })
	brokenAll   = rdd.Partitions("broken-all", func(in iter.Seq[int]) iter.Seq[int] { panic("not even begun") })
)

// TestAPanicIsTold with its step, its element and its stack; and it fails its job, and nothing else.
func TestAPanicIsTold(t *testing.T) {
	locally(t, rdd.Config{Executors: 2}, func(ctx context.Context, c *rdd.Context) error {
		numbers := rdd.Range(c, 10, 3)
		for want, err := range map[string]error{
			`step "broken" in partition 1 at element 3, 5: panic: runtime error: integer divide by zero`: second(even.On(broken.On(numbers)).Collect(ctx)),
			`step "broken-all" in partition 0: panic: not even begun`:                                    second(brokenAll.On(rdd.Range(c, 10, 1)).Count(ctx)),
			`step "broken-sum" in partition`:                                                             second(numbers.Reduce(ctx, brokenSum)),
			"panic: what a word":                                                                         second(rdd.ReduceByKey(one.On(rdd.Slice(c, []string{"a", "a"}, 1)), brokenWords).Collect(ctx)),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rdd_test.go:") || !strings.Contains(err.Error(), "failed 4 times") {
				t.Errorf("%s is told as: %v", want, err)
			}
		}
		want(t, "the executors", 10)(rdd.Range(c, 10, 3).Count(ctx))
		return nil
	})
}
