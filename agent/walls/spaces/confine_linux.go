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

// Confine gives the calling thread a view of the machine's files that is its own, and so does everything that it starts
// see them. It gives no process numbers of its own: a program that runs as another user sees only that user's processes,
// and the numbers are the machine's. The thread must be its goroutine's own, and end with it.
func (v View) Confine(user User) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("namespaces can't be made: %w", err)
	}
	if err := v.build(user, -1); err != nil {
		return err
	}
	steps := renewProc()
	steps[0].point(4, "hidepid=2") // of other users' processes nothing is seen at all
	for i := range steps {
		if err := steps[i].take(); err != nil {
			return err
		}
	}
	return giveUp(rights(user.UID))
}

// take makes the system call of the step in this process.
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

// Reveal shows folders of the machine to a process whose view hides the folder that they are in, and to all that share
// the view. What it sees of them already stays as it is. A process that sees the machine as the caller does needs
// nothing. The thread must be its goroutine's own, and end with it.
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

// reveal mounts the folder at the same path in another view, unless it is there already.
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

// baseIn is what hides a path that is in a hidden folder: that folder, unless it is hidden itself with all around it.
func baseIn(hidden, path string) string {
	if base := baseOf(path, append([]string{"/dev"}, temporaries...)); base != "" {
		return base
	}
	return hidden
}

// Conceal takes from such a process what is mounted on folders, where there is something. The thread must be its
// goroutine's own, and end with it.
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
	// No step of the way there is a link that a task has made.
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
	err := unix.Unshare(unix.CLONE_FS) // a thread of several joins no mounts otherwise
	if err == nil {
		err = unix.Setns(view, unix.CLONE_NEWNS)
	}
	if err != nil {
		return fmt.Errorf("its namespace of mounts can't be joined: %w", err)
	}
	return nil
}
