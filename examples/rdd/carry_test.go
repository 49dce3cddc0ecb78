package rdd_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/examples/rdd"
)

// Types that can't be carried whole, each for another reason.
type (
	hidden    struct{ A, b int }
	nested    struct{ Of []map[string]hidden }
	withFunc  struct{ F func() }
	withChan  struct{ C chan int }
	withAny   struct{ Any any }
	ring      struct{ Next *ring }
	embedding struct{ hidden }
	address   uintptr
)

// TestATypeThatCantBeCarriedIsRefused where it is declared, by the name of its field.
func TestATypeThatCantBeCarriedIsRefused(t *testing.T) {
	for name, declare := range map[string]func(name string){
		"hidden.b":              func(name string) { rdd.Map(name, func(n int) hidden { return hidden{n, n} }) },
		"hidden.b is not":       func(name string) { rdd.Filter(name, func(hidden) bool { return true }) },
		"Of[i][key].b":          func(name string) { rdd.Map(name, func(nested) int { return 0 }) },
		"withFunc.F is a func":  func(name string) { rdd.Map(name, func(withFunc) int { return 0 }) },
		"withChan.C is a chan":  func(name string) { rdd.Reduce(name, func(a, b withChan) withChan { return a }) },
		"withAny.Any is a int":  func(name string) { rdd.Partitions(name, func(in iter.Seq[withAny]) iter.Seq[withAny] { return in }) },
		"error is a interface":  func(name string) { rdd.Map(name, func(error) int { return 0 }) },
		"ring.Next is a ptr":    func(name string) { rdd.Map(name, func(ring) int { return 0 }) },
		"address is a uintptr":  func(name string) { rdd.Map(name, func(address) int { return 0 }) },
		"embedding.hidden":      func(name string) { rdd.Map(name, func(embedding) int { return 0 }) },
		"Value.b is not export": func(name string) { rdd.Map(name, func(int) rdd.Pair[int, hidden] { return rdd.Pair[int, hidden]{} }) },
		"hidden.b is not exp": func(name string) {
			rdd.PartitionsWith(name, func(_ hidden, in iter.Seq[int]) iter.Seq[int] { return in })
		},
		"Key": func(string) {},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said := fmt.Sprint(recover()); name != "Key" && !(strings.Contains(said, name) && strings.Contains(said, fmt.Sprintf("%q", t.Name()))) {
					t.Errorf("it is refused with %q", said)
				}
			}()
			declare(t.Name())
		})
	}
}

// Deep is an element with everything that can be carried.
type Deep struct {
	Flag   bool
	Small  int8
	Number int64
	Big    uint64
	Single float32
	Double float64
	Text   string
	Bytes  []byte
	Texts  []string
	Map    map[string][]int
	Set    map[int8]struct{}
	Array  [2]Deep2
	Tree   []Deep2
}

// Deep2 is a part of it that has parts of its own kind.
type Deep2 struct {
	N    int
	Kids []Deep2
}

var (
	deepest = rdd.Map("deepest", func(d Deep) Deep { return d })
	deepKey = rdd.Map("deep-key", func(d Deep) rdd.Pair[string, Deep] { return rdd.Pair[string, Deep]{Key: d.Text, Value: d} })
)

// drawDeep draws an element, with nil and empty slices and maps, and all numbers that floats can be.
func drawDeep(t *rapid.T) Deep {
	deep2 := rapid.Custom(func(t *rapid.T) Deep2 {
		return Deep2{N: rapid.Int().Draw(t, "N"), Kids: rapid.SampledFrom([][]Deep2{nil, {}, {{}}, {{Kids: []Deep2{}}, {}}}).Draw(t, "kids")}
	})
	return Deep{
		Flag: rapid.Bool().Draw(t, "flag"), Small: rapid.Int8().Draw(t, "small"), Number: rapid.Int64().Draw(t, "number"), Big: rapid.Uint64().Draw(t, "big"),
		Single: math.Float32frombits(rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{1 << 31, 0x7f800001})).Draw(t, "single")),
		Double: math.Float64frombits(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{1 << 63, 0x7ff0000000000001})).Draw(t, "double")),
		Text:   rapid.String().Draw(t, "text"),
		Bytes:  rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOf(rapid.Byte())).Draw(t, "bytes"),
		Texts:  rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOf(rapid.String())).Draw(t, "texts"),
		Map:    rapid.OneOf(rapid.Just(map[string][]int(nil)), rapid.MapOf(rapid.String(), rapid.SampledFrom([][]int{nil, {}, {1, -1}}))).Draw(t, "map"),
		Set:    rapid.SampledFrom([]map[int8]struct{}{nil, {}, {-1: {}}}).Draw(t, "set"),
		Array:  [2]Deep2{deep2.Draw(t, "first")},
		Tree:   rapid.OneOf(rapid.Just([]Deep2(nil)), rapid.SliceOfN(deep2, 0, 3)).Draw(t, "tree"),
	}
}

// TestKeptAndSpilledAreEqual: whatever the elements and whatever the memory, what comes out of a cache, of a disk, of
// another executor or of a shuffle is what went in, to the last bit: -0 is not 0, and an empty slice is not nil.
func TestKeptAndSpilledAreEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := rapid.SliceOfN(rapid.Custom(drawDeep), 0, 20).Draw(rt, "elements")
		memory := rapid.SampledFrom([]float64{64, 0.01, 0.001, 0.0001}).Draw(rt, "MB")
		executors := rapid.IntRange(1, 3).Draw(rt, "executors")
		err := rdd.Local(t.Context(), rdd.Config{MemoryMB: memory, Executors: executors}, func(ctx context.Context, c *rdd.Context) error {
			kept := deepest.On(rdd.Slice(c, in, rapid.IntRange(1, 4).Draw(rt, "partitions"))).Cache()
			for range 3 {
				out, err := kept.Collect(ctx)
				if err != nil {
					return err
				}
				compare(rt, in, out)
			}
			groups, err := rdd.GroupByKey(deepKey.On(kept)).Collect(ctx)
			want := map[string][]Deep{}
			for _, d := range in {
				want[d.Text] = append(want[d.Text], d)
			}
			for _, group := range groups {
				compare(rt, want[group.Key], group.Values)
			}
			if len(groups) != len(want) {
				rt.Errorf("%d groups, want %d", len(groups), len(want))
			}
			return err
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func compare(t *rapid.T, in, out []Deep) {
	if diff := cmp.Diff(in, out, rdd.SameBits); diff != "" && len(in)+len(out) > 0 {
		t.Fatalf("what went in (-) came out as (+):\n%s", diff)
	}
}
