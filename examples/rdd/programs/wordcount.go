package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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
	one   = rdd.Map("one", func(word string) wordCount { return wordCount{Key: word, Value: 1} })
	sum   = rdd.Reduce("sum", func(a, b int) int { return a + b })
)

// wordsOf returns the words of a line: sequences of letters, in lower case.
func wordsOf(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) })
}

func countWords(c *rdd.Context, files []string) rdd.Dataset[wordCount] {
	return rdd.ReduceByKey(one.On(words.On(rdd.TextFiles(c, files...))), sum)
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
		if _, err := rdd.Range(c, 1, 1).Count(ctx); err != nil { // so that no executor is still starting
			return err
		}
		if *verify {
			if err := readOnce(files); err != nil {
				return err
			}
		}
		begun := time.Now()
		counts, err := countWords(c, files).Collect(ctx)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		byCount := func(a, b wordCount) int { return cmp.Or(b.Value-a.Value, strings.Compare(a.Key, b.Key)) }
		slices.SortFunc(counts, byCount)
		total := 0
		for i, count := range counts {
			if total += count.Value; i < *top {
				fmt.Fprintf(out, "%9d  %s\n", count.Value, count.Key)
			}
		}
		fmt.Fprintf(out, "words: %d, %d of them different; files: %d; counted in: %.3f s\n", total, len(counts), len(files), took.Seconds())
		if !*verify {
			return nil
		}
		return verifyCounts(out, files, counts, *goroutines)
	}
}

// readOnce reads the files once, so that they are in memory and neither of two counts that are compared waits for the
// disk.
func readOnce(files []string) error {
	for _, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			return err
		}
	}
	return nil
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

// countHere counts in this process; each goroutine counts some of the files.
func countHere(files []string, goroutines int) (map[string]int, error) {
	parts, errs := make([]map[string]int, goroutines), make([]error, goroutines)
	next := make(chan string)
	var counting sync.WaitGroup
	for i := range goroutines {
		counting.Go(func() { parts[i], errs[i] = countFiles(next) })
	}
	for _, path := range files {
		next <- path
	}
	close(next)
	counting.Wait()
	for _, part := range parts[1:] {
		for word, n := range part {
			parts[0][word] += n
		}
	}
	return parts[0], errors.Join(errs...)
}

// countFiles counts line by line, in the simplest way.
func countFiles(files <-chan string) (counts map[string]int, failed error) {
	counts = map[string]int{}
	for path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			failed = err // the other files are still counted, because the sender waits for that
			continue
		}
		for line := range strings.Lines(string(data)) {
			for _, word := range wordsOf(line) {
				counts[word]++
			}
		}
	}
	return counts, failed
}

func verifyCounts(out io.Writer, files []string, counts []wordCount, goroutines int) error {
	begun := time.Now()
	plain, err := countHere(files, max(1, goroutines))
	if err != nil {
		return err
	}
	took := time.Since(begun)
	for _, count := range counts {
		if plain[count.Key] != count.Value {
			return fmt.Errorf("%q is counted %d times on the cluster, and %d times here", count.Key, count.Value, plain[count.Key])
		}
	}
	if len(plain) != len(counts) {
		return fmt.Errorf("%d different words on the cluster, and %d here", len(counts), len(plain))
	}
	fmt.Fprintf(out, "%d goroutines of this process count the same: %.3f s\n", max(1, goroutines), took.Seconds())
	return nil
}
