// Package tail reads a file while others still write to it. It opens nothing outside
// of the root it is given and changes nothing.
package tail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Follow writes the file from offset on, and what is added to it, until ended is closed
// and everything has been written, or the context ends. A file that is not there yet is
// waited for. A negative offset counts from the end.
func Follow(ctx context.Context, root *os.Root, name string, offset int64, ended <-chan struct{}, to io.Writer) error {
	changes, err := watch(root.Name())
	if err != nil {
		return err
	}
	defer changes.close()
	f := follower{root: root, name: name, offset: offset}
	defer f.close()
	for over := false; ; {
		if err := f.drain(to); err != nil || over {
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

// Copy writes what is in the file from offset on.
func Copy(root *os.Root, name string, offset int64, to io.Writer) error {
	f := follower{root: root, name: name, offset: offset}
	defer f.close()
	return f.drain(to)
}

type follower struct {
	root   *os.Root
	name   string
	offset int64
	file   *os.File
}

func (f *follower) drain(to io.Writer) error {
	if err := f.open(); err != nil || f.file == nil {
		return err
	}
	_, err := io.Copy(to, f.file)
	if flusher, can := to.(interface{ Flush() }); can && err == nil {
		flusher.Flush()
	}
	return err
}

func (f *follower) open() error {
	if f.file != nil {
		return nil
	}
	file, err := f.root.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() { // a device may never end
		err = errors.New("not a regular file")
	}
	if err == nil {
		_, err = file.Seek(start(f.offset, info.Size()), io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

func start(offset, size int64) int64 {
	if offset < 0 {
		return max(size+offset, 0)
	}
	return offset
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close() //nolint:errcheck // it was only read
	}
}
