// Package rdd is a small Spark on Tender: lazy, typed datasets in partitions, which executors compute, shuffle and cache.
//
//	var (
//		split = rdd.FlatMap("split", strings.Fields)
//		one   = rdd.Map("one", func(word string) rdd.Pair[string, int] { return rdd.Pair[string, int]{word, 1} })
//		sum   = rdd.Reduce("sum", func(a, b int) int { return a + b })
//	)
//
//	counts := rdd.ReduceByKey(one.On(split.On(rdd.TextFiles(c, "*.txt"))), sum)
//	words, err := counts.Collect(ctx)
//
// The program is the driver; executors are processes on agents, which compute the partitions of a dataset, each as a task
// of its own. A dataset remembers what it comes from, its lineage. When an executor dies, what it held is computed again
// from there, as much of it as is needed, and the result is the same to the last digit. The same binary is driver and
// executor, so functions are declared by name as variables of a package, and only names travel.
//
// It keeps nothing beyond the driver's life, and has no security but a token: see DESIGN.md.
package rdd
