package rdd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Slice makes a dataset of elements that the driver has, with this number of partitions.
func Slice[T any](c *Context, elements []T, partitions int) Dataset[T] {
	err := checkKind[T]()
	var each [][]byte
	partitions = max(1, partitions)
	for i := range partitions {
		part := elements[i*len(elements)/partitions : (i+1)*len(elements)/partitions]
		var packed bytes.Buffer
		if err == nil {
			err = kindOf[T]{}.encode(&packed, slices.Values(part))
		}
		each = append(each, packed.Bytes())
	}
	return derive[T](node{Op: opSlice, Each: each}, c.sourceLineage(partitions), err)
}

// Range makes a dataset of the numbers from 0 to n-1, with this number of partitions.
func Range(c *Context, n, partitions int) Dataset[int] {
	if n < 0 {
		return Dataset[int]{context: c, err: fmt.Errorf("rdd: a range can't have %d numbers", n)}
	}
	partitions = max(1, partitions)
	var spans []span
	for i := range partitions {
		spans = append(spans, span{i * n / partitions, (i + 1) * n / partitions})
	}
	return derive[int](node{Op: opRange, Each: packEach(spans)}, c.sourceLineage(partitions), nil)
}

// TextFiles makes a dataset of the lines of files, which executors must reach under the same paths. Patterns such as
// logs/*.txt are expanded. Large files are split into several partitions; small ones share one.
func TextFiles(c *Context, patterns ...string) Dataset[string] {
	pieces, err := cutPatterns(patterns, c.config.SplitBytes)
	return derive[string](node{Op: opText, Each: packEach(pieces)}, c.sourceLineage(len(pieces)), err)
}

// NamedTextFiles is TextFiles with each line in a pair whose key is the path of its file.
func NamedTextFiles(c *Context, patterns ...string) Dataset[Pair[string, string]] {
	pieces, err := cutPatterns(patterns, c.config.SplitBytes)
	return derive[Pair[string, string]](node{Op: opNamed, Each: packEach(pieces)}, c.sourceLineage(len(pieces)), err)
}

func cutPatterns(patterns []string, bytes int64) ([][]piece, error) {
	var paths []string
	for _, pattern := range patterns {
		pattern, err := filepath.Abs(pattern)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(pattern); err == nil {
			paths = append(paths, pattern)
			continue
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("rdd: there is no file %s", pattern)
		}
		paths = append(paths, found...)
	}
	return cutFiles(paths, bytes)
}

func packEach[T any](values []T) (each [][]byte) {
	for _, value := range values {
		each = append(each, pack(value))
	}
	return each
}

// sourceLineage returns the lineage of a dataset that is not computed from others.
func (c *Context) sourceLineage(partitions int) lineage {
	return lineage{context: c, partitions: partitions}
}
