package logging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// File is a log in a file that begins anew when it is full. The former ones are NAME.1, the newest of them, to NAME.N.
// All are readable by their owner only. It may be used from any goroutine.
type File struct {
	name     string
	bytesMax int64
	files    int // how many there are at most, with the one that is written

	mu   sync.Mutex
	file *os.File // guarded by mu; nil after it was closed, or while it can't be opened
	size int64    // guarded by mu
	over bool     // guarded by mu
}

// OpenFile opens a log, and goes on behind what it holds. It takes at most so many files of at most so many bytes.
func OpenFile(name string, bytesMax int64, files int) (*File, error) {
	f := &File{name: name, bytesMax: bytesMax, files: files}
	return f, f.open()
}

// open opens the file for what follows. Callers hold mu, or are the only one.
func (f *File) open() error {
	file, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() {
		err = file.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Write writes a line. If it does not fit any more, the file becomes the newest of the former ones. What can't be
// written is an error, and the next line is tried anew.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return 0, fs.ErrClosed
	}
	if f.file != nil && f.size > 0 && f.size+int64(len(line)) > f.bytesMax {
		if err := f.turn(); err != nil {
			return 0, err
		}
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	return n, err
}

// turn moves each file to the next number, and drops the oldest one. Callers hold mu.
func (f *File) turn() error {
	err := f.file.Close()
	f.file, f.size = nil, 0
	for i := f.files - 1; i > 0; i-- {
		if moved := os.Rename(f.numbered(i-1), f.numbered(i)); moved != nil && !errors.Is(moved, fs.ErrNotExist) {
			err = errors.Join(err, moved)
		}
	}
	if f.files == 1 {
		err = errors.Join(err, os.Remove(f.name))
	}
	return err
}

func (f *File) numbered(i int) string {
	if i == 0 {
		return f.name
	}
	return fmt.Sprintf("%s.%d", f.name, i)
}

// Close closes the file. What is written afterwards is refused.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
