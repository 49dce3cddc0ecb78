package tail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernel is an inotify instance with its followers.
type kernel struct {
	file      *os.File
	fd        int
	followers map[int]map[*changes]bool // the followers of each watch; the kernel has one watch for each folder
}

// ask asks the kernel to tell about changes in the folder. It returns false if the kernel grants no more watches.
// Callers hold mu.
func (w *Watcher) ask(c *changes, folder Folder) (granted bool, err error) {
	if w.kernel == nil {
		if w.kernel = newKernel(); w.kernel == nil {
			return false, nil
		}
		go w.listen(w.kernel)
	}
	k := w.kernel
	opened, err := folder.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		w.closeUnused()
		return false, err
	}
	defer opened.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", opened.Fd()) // the folder that is open, and not what has its name by now
	watch, err := unix.InotifyAddWatch(k.fd, path, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE)
	if err != nil {
		w.closeUnused()
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
			return false, nil
		}
		return false, &os.PathError{Op: "watch", Path: opened.Name(), Err: err}
	}
	if k.followers[watch] == nil {
		k.followers[watch] = make(map[*changes]bool)
	}
	k.followers[watch][c] = true
	c.watch = watch
	return true, nil
}

func newKernel() *kernel {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	return &kernel{file: os.NewFile(uintptr(fd), "inotify"), fd: fd, followers: make(map[int]map[*changes]bool)}
}

// forget removes a follower from its watch. Callers hold mu.
func (w *Watcher) forget(c *changes) {
	k := w.kernel
	if k == nil || !k.followers[c.watch][c] {
		return // the folder was deleted, and the watch with it
	}
	delete(k.followers[c.watch], c)
	if len(k.followers[c.watch]) == 0 {
		delete(k.followers, c.watch)
		_, _ = unix.InotifyRmWatch(k.fd, uint32(c.watch)) // the kernel may have ended it already
	}
	w.closeUnused()
}

// closeUnused closes the instance if nobody uses it, which ends its listener. Callers hold mu.
func (w *Watcher) closeUnused() {
	if len(w.kernel.followers) == 0 {
		w.kernel.file.Close() //nolint:errcheck // nothing was written
		w.kernel = nil
	}
}

// listen is the goroutine of an instance.
func (w *Watcher) listen(k *kernel) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := k.file.Read(buffer)
		if err != nil {
			return
		}
		w.heard(k, buffer[:n])
	}
}

// heard passes on the events of the kernel.
func (w *Watcher) heard(k *kernel, events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events)))
		mask := binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name, _, _ := bytes.Cut(events[unix.SizeofInotifyEvent:end], []byte{0})
		events = events[end:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			k.signalAll()
		case mask&unix.IN_IGNORED != 0: // the folder was deleted
			k.signal(watch, "")
			delete(k.followers, watch)
		default:
			k.signal(watch, string(name))
		}
	}
}

func (k *kernel) signal(watch int, name string) {
	for c := range k.followers[watch] { // order: irrelevant because each is signaled
		c.signalFor(name)
	}
}

// signalAll signals every follower, because the kernel has lost events.
func (k *kernel) signalAll() {
	for watch := range k.followers { // order: irrelevant because each is signaled
		k.signal(watch, "")
	}
}
