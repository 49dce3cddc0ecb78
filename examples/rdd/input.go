package rdd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
			err = writeElements(&packed, slices.Values(part))
		}
		each = append(each, packed.Bytes())
	}
	return derive[T](node{Op: opSlice, Each: each}, lineage{context: c, partitions: partitions}, err)
}

// span is a range of numbers.
type span struct{ From, To int }

var numbersOf = each("numbers of a range", func(s span, yield func(int) bool) bool {
	for n := s.From; n < s.To; n++ {
		if !yield(n) {
			return false
		}
	}
	return true
})

// Range makes a dataset of the numbers from 0 to n-1, with this number of partitions.
func Range(c *Context, n, partitions int) Dataset[int] {
	if n < 0 {
		return Dataset[int]{context: c, err: fmt.Errorf("rdd: a range can't have %d numbers", n)}
	}
	var spans []span
	for i := range max(1, partitions) {
		spans = append(spans, span{i * n / max(1, partitions), (i + 1) * n / max(1, partitions)})
	}
	return numbersOf.On(Slice(c, spans, len(spans)))
}

// piece is a part of a text file: the lines that begin at From or later and before To.
type piece struct {
	Path     string
	From, To int64
}

var linesOf = each("lines of files", func(pieces []piece, yield func(string) bool) bool {
	reader := bufio.NewReaderSize(nil, 256<<10) // used for all pieces, because many files are smaller than this
	for _, p := range pieces {
		if !p.readLines(reader, yield) {
			return false
		}
	}
	return true
})

// TextFiles makes a dataset of the lines of files, which executors must reach under the same paths. Patterns such as
// logs/*.txt are expanded. Large files are split into several partitions; small ones share one.
func TextFiles(c *Context, patterns ...string) Dataset[string] {
	var pieces [][]piece
	paths, err := findFiles(patterns)
	if err == nil {
		pieces, err = cutFiles(paths, c.config.SplitBytes)
	}
	if err != nil {
		return Dataset[string]{context: c, err: err}
	}
	return linesOf.On(Slice(c, pieces, len(pieces)))
}

// findFiles returns the files that match the patterns.
func findFiles(patterns []string) (paths []string, err error) {
	for _, pattern := range patterns {
		if pattern, err = filepath.Abs(pattern); err != nil {
			return nil, err
		}
		found := []string{pattern}
		if _, err := os.Stat(pattern); err != nil {
			if found, err = filepath.Glob(pattern); err != nil {
				return nil, err
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("rdd: there is no file %s", pattern)
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

// cutFiles divides files into pieces of at most this many bytes, and puts small files together.
func cutFiles(paths []string, bytes int64) (all [][]piece, err error) {
	var open []piece
	held := int64(0)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("rdd: %s is no file with lines; of a folder name the files, as in %s", path, filepath.Join(path, "*"))
		}
		if err != nil {
			return nil, err
		}
		for from := int64(0); from < info.Size(); {
			to := min(info.Size(), from+bytes-held)
			open, held, from = append(open, piece{path, from, to}), held+to-from, to
			if held >= bytes {
				all, open, held = append(all, open), nil, 0
			}
		}
	}
	if len(open) > 0 {
		all = append(all, open)
	}
	return all, nil
}

// readLines yields the lines that begin within the piece; the last one may end after it. It returns false if no more
// lines are wanted.
func (p piece) readLines(reader *bufio.Reader, yield func(string) bool) bool {
	file, err := os.Open(p.Path)
	check(err)
	defer file.Close()
	at := max(0, p.From-1) // a line begins at From if the byte before it ends a line
	_, err = file.Seek(at, io.SeekStart)
	check(err)
	reader.Reset(file)
	for others := p.From > 0; at < p.To; others = false {
		line, err := reader.ReadString('\n')
		if !errors.Is(err, io.EOF) {
			check(err)
		}
		at += int64(len(line))
		if line != "" && !others && !yield(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")) {
			return false
		}
		if err != nil {
			return true
		}
	}
	return true
}
