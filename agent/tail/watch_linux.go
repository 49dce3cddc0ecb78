package tail

import (
	"os"

	"golang.org/x/sys/unix"
)

// watch asks the kernel to tell of changes in the folder.
func watch(folder string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return poll(), nil //nolint:nilerr // the kernel grants each user only so many
	}
	file := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, folder, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE); err != nil {
		file.Close() //nolint:errcheck // nothing was written
		if err == unix.ENOSPC || err == unix.ENOMEM {
			return poll(), nil
		}
		return nil, &os.PathError{Op: "watch", Path: folder, Err: err}
	}
	w := &watcher{seen: make(chan struct{}, 1), close: func() { file.Close() }} //nolint:errcheck // it ends the read
	go func() {
		buffer := make([]byte, 4096)
		for {
			if _, err := file.Read(buffer); err != nil {
				return
			}
			w.signal()
		}
	}()
	return w, nil
}
