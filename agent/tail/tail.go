// Package tail reads files while others still write to them. All that it follows shares one watch of the kernel, and
// holds no descriptor while nothing changes. It opens nothing outside of the folder it is given and changes nothing.
package tail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// File is what is read of a file: what stands from the offset on.
type File struct {
	Name string
	// Offset is the next byte; it moves on as bytes are written. A negative one counts from the end.
	Offset int64
	To     io.Writer
}

// Follow writes what is in the files of the folder, and what is added to them, until ended is closed and everything has
// been written, or the context ends. A file that is not there yet is waited for. All writing is done by the caller's
// goroutine, one file after the other.
func (w *Watcher) Follow(ctx context.Context, folder string, files []*File, ended <-chan struct{}) error {
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

func follow(ctx context.Context, folder string, files []*File, changes *changes, ended <-chan struct{}) error {
	for over := false; ; {
		if err := Copy(folder, files); err != nil || over {
			return err
		}
		select {
		case <-changes.seen:
		case <-ended:
			over = true // whatever was written before the end is there now
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Copy writes what is in the files of the folder. A folder or file that is not there is empty.
func Copy(folder string, files []*File) error {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range files {
		if err := file.copy(root); err != nil {
			return err
		}
	}
	return nil
}

// CopyFile writes what is in one file below the root.
func CopyFile(root *os.Root, file *File) error { return file.copy(root) }

func (f *File) copy(root *os.Root) error {
	file, err := root.OpenFile(f.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // a device may never end
		return errors.New(f.Name + " is not a regular file")
	}
	if f.Offset < 0 {
		f.Offset = max(info.Size()+f.Offset, 0)
	}
	if f.Offset >= info.Size() {
		return nil
	}
	chunk := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(chunk)
	if err := f.send(file, info.Size(), chunk[:]); err != nil {
		return err
	}
	if flusher, can := f.To.(interface{ Flush() }); can {
		flusher.Flush()
	}
	return nil
}

// chunkBytes are read at once.
const chunkBytes = 32 << 10

// chunks are buffers that are used again: a follower that is idle has none.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// send writes up to the size that the file had; what came since is a change, and others have their turn first.
func (f *File) send(file io.ReaderAt, size int64, chunk []byte) error {
	for f.Offset < size {
		n, err := file.ReadAt(chunk[:min(int64(len(chunk)), size-f.Offset)], f.Offset)
		if n > 0 {
			wrote, failed := f.To.Write(chunk[:n])
			f.Offset += int64(wrote)
			if failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil // it was made shorter
		case err != nil:
			return err
		}
	}
	return nil
}
