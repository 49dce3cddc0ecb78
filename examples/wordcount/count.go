package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// counts says how often each word occurs. A word is a sequence of letters, in lower case. A sequence of more than
// wordBytesMax bytes is data, not a word.
type counts map[string]int

const wordBytesMax = 64

func (c counts) empty() counts { return counts{} }

func (c counts) addFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for word := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(word) <= wordBytesMax {
			c[strings.ToLower(word)]++
		}
	}
	return nil
}

func (c counts) add(other counts) {
	for word, n := range other {
		c[word] += n
	}
}

func (c counts) total() (sum int) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// equal returns a word whose counts differ, if there is one.
func (c counts) equal(other counts) (string, bool) {
	for _, word := range slices.Sorted(maps.Keys(c)) {
		if c[word] != other[word] {
			return word, false
		}
	}
	for _, word := range slices.Sorted(maps.Keys(other)) {
		if _, ok := c[word]; !ok {
			return word, false
		}
	}
	return "", true
}

// file is one input file.
type file struct {
	path string
	size int64
}

func listFiles(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		files = append(files, file{path, info.Size()})
		return err
	})
	return files, err
}

// split distributes the files over at most n chunks of about the same size. It begins with the largest file, and adds
// each to the chunk that is smallest so far.
func split(files []file, n int) [][]string {
	sorted := slices.Clone(files)
	slices.SortStableFunc(sorted, func(a, b file) int { return int(b.size - a.size) })
	n = min(n, len(sorted))
	chunks, sizes := make([][]string, n), make([]int64, n)
	for _, file := range sorted {
		smallest := 0
		for i, size := range sizes {
			if size < sizes[smallest] {
				smallest = i
			}
		}
		chunks[smallest] = append(chunks[smallest], file.path)
		sizes[smallest] += file.size + 512 // to open a file has a cost too
	}
	return chunks
}

// part is a part of a task's counts, as much as one status carries. By its number a status that comes twice is
// recognised.
type part struct {
	Part   int
	Counts counts
}

// partBytes keeps a part well below the limit of a status, api.StatusDataBytesMax.
const partBytes = 48 << 10

// parts divides the counts into parts.
func (c counts) parts() (parts []part) {
	bytes := partBytes
	for _, word := range slices.Sorted(maps.Keys(c)) {
		if bytes += len(word) + 12; bytes > partBytes {
			parts = append(parts, part{Part: len(parts), Counts: counts{}})
			bytes = 0
		}
		parts[len(parts)-1].Counts[word] = c[word]
	}
	return parts
}

// countTask runs one task in the executor: it counts the files that the task names, and sends the counts with its
// statuses, which are delivered at least once and in order. An error fails the task, and the set tries again.
func countTask(ctx context.Context, task *executor.Task) error {
	var files []string
	if err := json.Unmarshal(task.Data, &files); err != nil {
		return err
	}
	sum := counts{}
	for _, path := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sum.addFile(path); err != nil {
			return err
		}
	}
	for _, part := range sum.parts() {
		data, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if err := task.Report(executor.Report{State: api.TaskRunning, Data: data}); err != nil {
			return err
		}
		if err := task.Flush(ctx); err != nil { // with many parts it waits here for a scheduler that is behind
			return err
		}
	}
	return nil
}
