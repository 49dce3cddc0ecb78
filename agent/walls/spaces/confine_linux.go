package spaces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine gives the calling thread, and all that it starts, this view of the machine's files. It makes no PID
// namespace: process numbers are those of the machine, but a program that is not root sees only the processes of its
// own user. The thread must be locked to its goroutine, and end with it.
func (v View) Confine(user User) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("namespaces can't be made: %w", err)
	}
	if err := v.build(user, -1); err != nil {
		return err
	}
	steps := renewProc()
	steps[0].point(4, "hidepid=2") // processes of other users are not seen at all
	for i := range steps {
		if err := steps[i].take(); err != nil {
			return err
		}
	}
	return giveUp(rights(user.UID))
}

// take makes the step's system call in this process.
func (s *step) take() error {
	made := s.arguments
	for i, point := range s.points {
		if point != nil {
			made[i] = uintptr(unsafe.Pointer(&point[0]))
		}
	}
	_, _, err := syscall.Syscall6(s.trap, made[0], made[1], made[2], made[3], made[4], 0)
	runtime.KeepAlive(s)
	if err == 0 || err == s.forgiven || s.optional {
		return nil
	}
	return fmt.Errorf("%s: %w", s.what, err)
}

// Reveal shows folders of the machine to a process whose view hides the folder that they are in, and to all processes
// that share the view. A folder that the process sees already stays as it is. Nothing is done for a process that has
// the caller's own view. The calling thread must be locked to its goroutine, and end with it.
func Reveal(pid int, hidden string, paths []string) error {
	view, err := openView(pid)
	if view < 0 || err != nil {
		return err
	}
	defer unix.Close(view)
	var shown []tree
	for _, path := range paths {
		one, err := copyTree(unix.AT_FDCWD, path)
		if err != nil {
			return fmt.Errorf("%s can't be shown: %w", path, err)
		}
		shown = append(shown, tree{one, path})
	}
	if err := enterView(view); err != nil {
		return err
	}
	for _, one := range shown {
		if err := one.reveal(hidden); err != nil {
			return fmt.Errorf("%s can't be shown: %w", one.path, err)
		}
	}
	return nil
}

// reveal mounts the folder at its path in the view that the thread has entered, unless the folder is there already.
func (t tree) reveal(hidden string) error {
	var its, there unix.Stat_t
	if err := unix.Fstat(t.descriptor, &its); err != nil {
		return err
	}
	if unix.Lstat(t.path, &there) == nil && its.Dev == there.Dev && its.Ino == there.Ino {
		return unix.Close(t.descriptor)
	}
	base := baseIn(hidden, t.path)
	if base == hidden {
		if err := unix.MountSetattr(unix.AT_FDCWD, base, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	place, err := makeFolders(base, t.path)
	if err == nil {
		err = errors.Join(t.moveTo(place, ""), unix.Close(place))
	}
	if base == hidden {
		err = errors.Join(err, setReadOnly(base, 0))
	}
	return err
}

// baseIn returns the folder that hides a path in the hidden folder. That is the hidden folder itself, unless the path
// is in /dev, /tmp or /var/tmp: then it is that one, which the view covers as a whole.
func baseIn(hidden, path string) string {
	if base := baseOf(path, append([]string{"/dev"}, temporaries...)); base != "" {
		return base
	}
	return hidden
}

// Conceal unmounts from the view of such a process what Reveal has mounted on folders. A folder on which nothing is
// mounted stays as it is. The calling thread must be locked to its goroutine, and end with it.
func Conceal(pid int, hidden string, paths []string) error {
	view, err := openView(pid)
	if view < 0 || err != nil {
		return err
	}
	defer unix.Close(view)
	if err := enterView(view); err != nil {
		return err
	}
	for _, path := range paths {
		err = errors.Join(err, conceal(hidden, path))
	}
	return err
}

func conceal(hidden, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	folder, err := makeFolders(baseIn(hidden, path), filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	// The path goes through the open folder, so it follows no link that a task may have made.
	err = unix.Unmount("/proc/thread-self/fd/"+strconv.Itoa(folder)+"/"+filepath.Base(path), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // nothing is mounted there
		return nil
	}
	return err
}

// openView opens the mount namespace of a process; -1: it is the caller's own, or the process is gone.
func openView(pid int) (int, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/ns/mnt"
	its, err := os.Readlink(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	own, wrong := os.Readlink("/proc/thread-self/ns/mnt")
	if err = errors.Join(err, wrong); err != nil || its == own {
		return -1, err
	}
	return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// enterView moves the calling thread into the mount namespace.
func enterView(view int) error {
	err := unix.Unshare(unix.CLONE_FS) // the kernel lets only a thread that shares its root folder with no other join a mount namespace
	if err == nil {
		err = unix.Setns(view, unix.CLONE_NEWNS)
	}
	if err != nil {
		return fmt.Errorf("its namespace of mounts can't be joined: %w", err)
	}
	return nil
}
