package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenderhq/tender/examples/rdd"
)

type (
	link  = rdd.Pair[string, string]
	links = rdd.Pair[string, []string]
	rank  = rdd.Pair[string, float64]
)

var (
	parseLink = rdd.FlatMap("parse-link", func(line string) []link {
		if fields := strings.Fields(line); len(fields) == 2 {
			return []link{{Key: fields[0], Value: fields[1]}}
		}
		return nil
	})
	outgoing = rdd.Map("outgoing", func(page rdd.Group[string, string]) links {
		return links{Key: page.Key, Value: page.Values}
	})
	firstRank  = rdd.Map("first-rank", func(page links) rank { return rank{Key: page.Key, Value: 1} })
	contribute = rdd.CoGroup("contribute", contributions)
	addRanks   = rdd.Reduce("add-ranks", func(a, b float64) float64 { return a + b })
	damp       = rdd.Map("damp", func(page rank) rank { return rank{Key: page.Key, Value: 0.15 + 0.85*page.Value} })
)

// contributions returns what a page gives to the pages that it links to: each gets an equal part of the page's own
// rank. A page to which nobody links stays in the list.
func contributions(page string, to [][]string, ranks []float64) []rank {
	all := []rank{{Key: page}}
	for _, targets := range to {
		for _, target := range targets {
			for _, r := range ranks {
				all = append(all, rank{Key: target, Value: r / float64(len(targets))})
			}
		}
	}
	return all
}

// rankPages passes the ranks on along the links, this many times.
func rankPages(lines rdd.Dataset[string], iterations int) rdd.Dataset[rank] {
	pages := outgoing.On(rdd.GroupByKey(parseLink.On(lines))).Cache()
	ranks := firstRank.On(pages)
	for range iterations {
		ranks = damp.On(rdd.ReduceByKey(contribute.On(pages, ranks), addRanks))
	}
	return ranks
}

// pagerank reads lines of two words: a page, and a page to which it links.
func pagerank(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	iterations := flags.Int("iterations", 10, "`number` of times to pass ranks on")
	top := flags.Int("top", 10, "`number` of pages to print")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		ranks, err := rankPages(rdd.TextFiles(c, flags.Args()...), *iterations).Collect(ctx)
		slices.SortFunc(ranks, func(a, b rank) int {
			return cmp.Or(cmp.Compare(b.Value, a.Value), strings.Compare(a.Key, b.Key))
		})
		for _, page := range ranks[:min(*top, len(ranks))] {
			fmt.Fprintf(out, "%12.6f  %s\n", page.Value, page.Key)
		}
		return err
	}
}
