package rdd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// piece is a part of a text file: the lines that begin at From or later and before To.
type piece struct {
	Path     string
	From, To int64
}

// span is a range of numbers.
type span struct{ From, To int }

func (r *run) rangeOf(block plan.Block) any {
	s, err := unpack[span](r.order.Each[block])
	check(err)
	return until(r.ctx, func(yield func(int) bool) {
		for i := s.From; i < s.To; i++ {
			if !yield(i) {
				return
			}
		}
	})
}

// linesOf reads the lines of a block, each as what a function makes of it and of its file's path.
func linesOf[T any](r *run, block plan.Block, made func(path, line string) T) any {
	pieces, err := unpack[[]piece](r.order.Each[block])
	check(err)
	return until(r.ctx, iter.Seq[T](func(yield func(T) bool) {
		reader := bufio.NewReaderSize(nil, 256<<10) // used for all pieces, because many files are smaller than this
		for _, p := range pieces {
			if !p.lines(reader, func(line string) bool { return yield(made(p.Path, line)) }) {
				return
			}
		}
	}))
}

// lines yields the lines that begin within the piece; the last one may end after it. It returns false if no more lines
// are wanted.
func (p piece) lines(reader *bufio.Reader, yield func(string) bool) bool {
	file, err := os.Open(p.Path)
	check(err)
	defer file.Close()
	at := p.From
	if at > 0 {
		at-- // a line begins at From if the byte before it ends a line
	}
	_, err = file.Seek(at, io.SeekStart)
	check(err)
	reader.Reset(file)
	if p.From > 0 {
		skipped, err := skipLine(reader)
		if at += skipped; endOf(err) {
			return true
		}
	}
	for at < p.To {
		line, size, err := readLine(reader)
		if at += size; size > 0 && !yield(line) {
			return false
		}
		if endOf(err) {
			return true
		}
	}
	return true
}

// endOf reports whether err is the end of the file; any other error fails the task.
func endOf(err error) bool {
	if err == nil {
		return false
	}
	if !errors.Is(err, io.EOF) {
		check(err)
	}
	return true
}

func skipLine(reader *bufio.Reader) (size int64, err error) {
	for {
		part, err := reader.ReadSlice('\n')
		size += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return size, err
		}
	}
}

// readLine reads a line and returns it without its end; size includes the end.
func readLine(reader *bufio.Reader) (line string, size int64, err error) {
	line, err = reader.ReadString('\n')
	size = int64(len(line))
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), size, err
}

// cutFiles divides files into pieces of at most this many bytes, and puts small files together.
func cutFiles(paths []string, bytes int64) ([][]piece, error) {
	var all [][]piece
	var open []piece
	held := int64(0)
	flush := func() {
		if len(open) > 0 {
			all = append(all, open)
		}
		open, held = nil, 0
	}
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
				flush()
			}
		}
	}
	flush()
	return all, nil
}
