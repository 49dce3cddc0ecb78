package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tenderhq/tender/examples/rdd"
)

type wordCount = rdd.Pair[string, int]

var (
	words = rdd.FlatMap("words", wordsOf)
	each  = rdd.Map("one", func(word string) wordCount { return wordCount{Key: word, Value: 1} })
	sum   = rdd.Reduce("sum", func(a, b int) int { return a + b })
)

// wordsOf returns the words of a line: sequences of letters, in lower case.
func wordsOf(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) })
}

func wordcount(flags *flag.FlagSet) func(context.Context, *rdd.Context, io.Writer) error {
	top := flags.Int("top", 10, "`number` of words to print")
	verify := flags.Bool("verify", false, "count again in this process and compare")
	goroutines := flags.Int("goroutines", 1, "`number` of goroutines that -verify counts with")
	return func(ctx context.Context, c *rdd.Context, out io.Writer) error {
		files, err := filesBelow(flags.Args())
		if err != nil {
			return err
		}
		for _, file := range files { // so that all are in memory, and neither of two counts waits for the disk
			if _, err := os.ReadFile(file); err != nil && *verify {
				return err
			}
		}
		if _, err := rdd.Range(c, 1, 1).Count(ctx); err != nil { // so that no executor is still starting
			return err
		}
		begun := time.Now()
		counts, err := rdd.ReduceByKey(each.On(words.On(rdd.TextFiles(c, files...))), sum).Collect(ctx)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		slices.SortFunc(counts, func(a, b wordCount) int { return cmp.Or(b.Value-a.Value, strings.Compare(a.Key, b.Key)) })
		total, all := 0, map[string]int{}
		for i, count := range counts {
			all[count.Key] = count.Value
			if total += count.Value; i < *top {
				fmt.Fprintf(out, "%9d  %s\n", count.Value, count.Key)
			}
		}
		fmt.Fprintf(out, "words: %d, %d of them different; files: %d; counted in: %.3f s\n", total, len(counts), len(files), took.Seconds())
		if *verify {
			begun := time.Now()
			if !maps.Equal(all, countHere(files, *goroutines)) {
				return fmt.Errorf("%d goroutines of this process count other words", *goroutines)
			}
			fmt.Fprintf(out, "%d goroutines of this process count the same: %.3f s\n", *goroutines, time.Since(begun).Seconds())
		}
		return nil
	}
}

// filesBelow returns the files in the folders.
func filesBelow(dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("name folders with files in them; there are none in %q", dirs)
	}
	return files, nil
}

// countHere counts in this process, in the simplest way; each goroutine counts some of the files.
func countHere(files []string, goroutines int) map[string]int {
	parts := make([]map[string]int, goroutines)
	var counting sync.WaitGroup
	for i := range parts {
		parts[i] = map[string]int{}
		counting.Go(func() {
			for next := i; next < len(files); next += goroutines {
				data, _ := os.ReadFile(files[next]) // a file that can't be read makes the counts differ
				for line := range strings.Lines(string(data)) {
					for _, word := range wordsOf(line) {
						parts[i][word]++
					}
				}
			}
		})
	}
	counting.Wait()
	for _, part := range parts[1:] {
		for word, n := range part {
			parts[0][word] += n
		}
	}
	return parts[0]
}
