package rdd_test

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/examples/rdd"
)

type (
	link = rdd.Pair[string, string]
	rank = rdd.Pair[string, float64]
)

// Page is one of two things that are known of a page: where its links lead, or its rank.
type Page struct {
	Links []string
	Rank  float64
}

var (
	parseLink = rdd.FlatMap("parse-link", func(line string) []link {
		if fields := strings.Fields(line); len(fields) == 2 {
			return []link{{Key: fields[0], Value: fields[1]}}
		}
		return nil
	})
	withLinks = rdd.Map("with-links", func(page rdd.Group[string, string]) rdd.Pair[string, Page] {
		return rdd.Pair[string, Page]{Key: page.Key, Value: Page{Links: page.Values}}
	})
	firstRank = rdd.Map("first-rank", func(page rdd.Pair[string, Page]) rank { return rank{Key: page.Key, Value: 1} })
	withRank  = rdd.Map("with-rank", func(page rank) rdd.Pair[string, Page] {
		return rdd.Pair[string, Page]{Key: page.Key, Value: Page{Rank: page.Value}}
	})
	contribute = rdd.FlatMap("contribute", contributions)
	addRanks   = rdd.Reduce("add-ranks", func(a, b float64) float64 { return a + b })
	damp       = rdd.Map("damp", func(page rank) rank { return rank{Key: page.Key, Value: 0.15 + 0.85*page.Value} })
)

// contributions returns what a page gives to the pages that it links to: each gets an equal part of the page's own
// rank. A page to which nobody links stays in the list.
func contributions(page rdd.Group[string, Page]) []rank {
	var whole Page
	for _, part := range page.Values {
		whole.Links, whole.Rank = append(whole.Links, part.Links...), whole.Rank+part.Rank
	}
	all := []rank{{Key: page.Key}}
	for _, target := range whole.Links {
		all = append(all, rank{Key: target, Value: whole.Rank / float64(len(whole.Links))})
	}
	return all
}

// rankPages passes the ranks on along the links, this many times.
func rankPages(lines rdd.Dataset[string], iterations int) rdd.Dataset[rank] {
	pages := withLinks.On(rdd.GroupByKey(parseLink.On(lines))).Cache()
	ranks := firstRank.On(pages)
	for range iterations {
		joined := rdd.GroupByKey(pages.Union(withRank.On(ranks)))
		ranks = damp.On(rdd.ReduceByKey(contribute.On(joined), addRanks))
	}
	return ranks
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
