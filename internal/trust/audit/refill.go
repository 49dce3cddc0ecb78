package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"
	"unicode/utf8"
)

// lineBytesMax bounds a line that is read back; a longer one was not written by us.
const lineBytesMax = 64 << 10

// Recent reads back the newest lines, as many as are kept in memory, from the file and from renamed files. It skips
// what is not a line, such as the last one of a process that was killed while it wrote. If nothing can be read back,
// because there is no file or it is not a regular one, the log begins at now.
func (a *Log) Recent(now time.Time) (*Recent, error) {
	r := &Recent{since: now}
	if a == nil || a.path == "" {
		return r, nil
	}
	if info, err := os.Stat(a.path); err != nil || !info.Mode().IsRegular() {
		return r, err
	}
	r.since = time.Time{}
	var parts [][]byte // the newest first
	room, whole := int64(recentBytesMax), true
	for i := 0; i <= filesMax && whole; i++ {
		path := a.path
		if i > 0 {
			path = aside(a.path, i)
		}
		part, all, err := tail(path, room)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			r.since = now
			return r, err
		}
		parts, room, whole = append(parts, part), room-int64(len(part)), all
	}
	for i := len(parts) - 1; i >= 0; i-- {
		for line := range lines(parts[i]) {
			r.again(line)
		}
	}
	r.cut = r.cut || !whole
	return r, nil
}

// tail returns the end of a file, in whole lines of at most bytesMax bytes together, and whether that is the whole
// file.
func tail(path string, bytesMax int64) (text []byte, all bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, info.Size()-bytesMax)
	text, err = io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil || from == 0 {
		return text, true, err
	}
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line may lack its beginning
	return text, false, nil
}

// lines returns those lines of a text that are lines of an audit log.
func lines(text []byte) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for text := range bytes.Lines(text) {
			var l Line
			if len(text) > lineBytesMax || json.Unmarshal(text, &l) != nil || l.At.IsZero() || l.Result == "" {
				continue
			}
			if len(l.On) > onBytesMax || !utf8.Valid(l.On) {
				l.On, l.Cut = nil, true
			}
			if !yield(l) {
				return
			}
		}
	}
}

// endsTorn says whether the last line of a file has no end, so that a line written after it would be lost with it.
func endsTorn(path string, size int64) bool {
	if size == 0 {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return true // an empty line does no harm
	}
	defer file.Close()
	last := make([]byte, 1)
	_, err = file.ReadAt(last, size-1)
	return err != nil || last[0] != '\n'
}
