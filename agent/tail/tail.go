// Package tail reads files while others still write to them. All files that it follows share one watch of the kernel,
// and hold no descriptor while nothing changes. It opens nothing outside of the folder it is given and changes nothing.
//
// If the head of a file was given back to the disk, as package upkeep does with long outputs, the file is read from
// where its content begins. Offsets count from the first byte that was ever written, and no reader is sent the zeros
// that a hole reads as.
package tail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// File says what is read of a file: its content from an offset on.
type File struct {
	Name string
	// Offset is the offset of the next byte; it grows as bytes are written. A negative one counts from the end.
	Offset int64
	// Lines, if it is not 0, begins at that many last lines, but not before Offset.
	Lines int
	// Since leaves out all present content if the file was last written before that time.
	Since time.Time
	// To takes the content. If it has SkipTo, that is called when Offset moves in a way that counting bytes does not
	// show.
	To io.Writer

	begun bool // Offset is where reading goes on, and no longer what was asked for
}

// skipper is told that the next byte has another offset than the one after the last byte.
type skipper interface{ SkipTo(offset int64) error }

// Folder opens files of a folder by name, each time anew. An *os.Root is one.
type Folder interface {
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
}

// Follow writes what is in the files of the folder, and what is added to them, until ended is closed and everything has
// been written, or the context ends. It waits for a file that does not exist yet. All writing is done by the caller's
// goroutine, one file after the other.
func (w *Watcher) Follow(ctx context.Context, folder Folder, files []*File, ended <-chan struct{}) error {
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	changes, err := w.watch(folder, names)
	if err != nil {
		return err
	}
	defer w.leave(changes)
	return follow(ctx, folder, files, changes, ended)
}

func follow(ctx context.Context, folder Folder, files []*File, changes *changes, ended <-chan struct{}) error {
	for over := false; ; {
		if err := Copy(folder, files); err != nil || over {
			return err
		}
		select {
		case <-changes.seen:
		case <-ended:
			over = true // what was written before the end is in the file now
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Copy writes what is in the files of the folder. A folder or file that does not exist counts as empty.
func Copy(folder Folder, files []*File) error {
	for _, file := range files {
		if err := file.copy(folder); err != nil {
			return err
		}
	}
	return nil
}

// CopyFile writes what is in one file of the folder.
func CopyFile(folder Folder, file *File) error { return file.copy(folder) }

func (f *File) copy(folder Folder) error {
	file, err := folder.OpenFile(f.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return f.beginAt(max(f.Offset, 0)) // everything that comes later is new
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // a device might never end
		return errors.New(f.Name + " is not a regular file")
	}
	chunk := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(chunk)
	if err := f.begin(file, info, chunk[:]); err != nil {
		return err
	}
	if f.Offset >= info.Size() {
		return nil
	}
	if err := f.send(file, info.Size(), chunk[:]); err != nil {
		return err
	}
	if flusher, can := f.To.(interface{ Flush() }); can {
		flusher.Flush()
	}
	return nil
}

// begin finds the first byte that is wanted of an existing file.
func (f *File) begin(file *os.File, info fs.FileInfo, chunk []byte) error {
	if f.begun {
		return nil
	}
	offset := f.Offset
	if offset < 0 {
		offset = max(info.Size()+offset, 0)
	}
	if f.Lines > 0 {
		first, err := lastLines(file, info.Size(), f.Lines, chunk)
		if err != nil {
			return err
		}
		offset = max(offset, first)
	}
	if info.ModTime().Before(f.Since) {
		offset = max(offset, info.Size())
	}
	return f.beginAt(offset)
}

// beginAt sets where reading begins, and tells the writer if that is not the offset that was asked for.
func (f *File) beginAt(offset int64) error {
	if f.begun {
		return nil
	}
	f.begun = true
	if f.Offset >= 0 && f.Lines == 0 && f.Since.IsZero() {
		return nil
	}
	return f.skipTo(offset)
}

func (f *File) skipTo(offset int64) error {
	f.Offset = offset
	if to, can := f.To.(skipper); can {
		return to.SkipTo(offset)
	}
	return nil
}

// lastLines finds where the given number of last lines of a file begins. A last line that has no end yet counts.
func lastLines(file *os.File, size int64, lines int, chunk []byte) (int64, error) {
	for end := size; end > 0; {
		begin := max(end-int64(len(chunk)), 0)
		n, err := file.ReadAt(chunk[:end-begin], begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if chunk[i] != '\n' || begin+int64(i) == size-1 {
				continue
			}
			if lines--; lines == 0 {
				return begin + int64(i) + 1, nil
			}
		}
		if content, err := ContentFrom(file, begin, size); err != nil || content > begin {
			return content, err // what is before was given back to the disk
		}
		end = begin
	}
	return 0, nil
}

// chunkBytes is how much is read at once.
const chunkBytes = 32 << 10

// chunks are buffers that are reused: a follower that is idle has none.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// send writes up to the size that the file had. What was added since is a change of its own, and other files come
// first. What is given back to the disk meanwhile is skipped: a chunk is sent only if it is still in the file after it
// was read.
func (f *File) send(file *os.File, size int64, chunk []byte) error {
	for f.Offset < size {
		n, err := file.ReadAt(chunk[:min(int64(len(chunk)), size-f.Offset)], f.Offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil // the file was made shorter
		}
		content, failed := ContentFrom(file, f.Offset, size)
		if failed != nil {
			return failed
		}
		if content > f.Offset {
			if err := f.skipTo(content); err != nil {
				return err
			}
			continue
		}
		wrote, failed := f.To.Write(chunk[:n])
		f.Offset += int64(wrote)
		if failed != nil {
			return failed
		}
	}
	return nil
}
