package secrets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/internal/protocol"
)

// Show puts files into the secrets folder of a sandbox, readable by the owner, and replaces those that were there.
// Nobody sees the folder before all of them are in it, and nobody can change it.
func Show(sandbox beneath.Place, owner entry.User, files map[string]protocol.Hidden) error {
	if err := Hide(sandbox); err != nil {
		return err
	}
	folder, err := opened(sandbox.In(Folder).Ensure())
	if err != nil {
		return err
	}
	defer folder.Close()
	mount, err := newMount(owner)
	if err != nil {
		return fmt.Errorf("no folder in memory can be made for its secrets, which takes root and Linux 5.12 (as variables it could have them): %w", err)
	}
	defer unix.Close(mount)
	for name, value := range files { // order: irrelevant because each is a file of its own
		if err := write(mount, name, owner, value); err != nil {
			return fmt.Errorf("secret %s can't be written: %w", name, err)
		}
	}
	if err = seal(mount); err == nil {
		err = unix.MoveMount(mount, "", int(folder.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("the folder of its secrets can't be mounted: %w", err)
	}
	return nil
}

// newMount makes a file system in memory that is not mounted anywhere yet.
func newMount(owner entry.User) (int, error) {
	context, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(context)
	for _, option := range [][2]string{
		{"source", source}, {"size", "1m"}, {"nr_inodes", "128"}, {"mode", "0500"},
		{"uid", strconv.Itoa(owner.UID)}, {"gid", strconv.Itoa(owner.GID)},
	} {
		if err := unix.FsconfigSetString(context, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	_ = unix.FsconfigSetFlag(context, "noswap") // if this fails, as before Linux 6.4, it may be swapped out
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// sealTries bounds how often a mount is tried to be made read-only, a millisecond apart.
const sealTries = 1000

// seal makes a mount read-only. The kernel refuses that (EBUSY) while a file in it is open for writing, and whoever reads
// /proc/PID/fd has our files open for a moment longer than we. That ends soon, and nobody tells when.
func seal(mount int) error {
	for tries := 1; ; tries++ {
		err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if !errors.Is(err, unix.EBUSY) || tries == sealTries {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// write makes a file. No program is started while the file is open for writing: a child that is being forked has copies
// of all open files until it executes its program, and while one of them can be written to, the kernel refuses to make
// the mount read-only.
func write(folder int, name string, owner entry.User, value []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	descriptor, err := unix.Openat(folder, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(descriptor), name)
	_, err = file.Write(value)
	if err == nil && !owner.IsSelf() {
		err = file.Chown(owner.UID, owner.GID)
	}
	if err == nil {
		err = file.Chmod(0o400) // regardless of the umask
	}
	return errors.Join(err, file.Close())
}

// Hide removes the secrets folder of a sandbox with its content; it does nothing if there is none.
func Hide(sandbox beneath.Place) error {
	root, err := sandbox.Open()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	folder, err := opened(root, err)
	if err != nil {
		return err
	}
	defer folder.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), Folder)
	return errors.Join(wipe(path), unmount(path))
}

// wipe empties a secrets folder. Each process with mounts of its own that began while the folder was mounted has a
// hidden copy of the mount, which would keep the files in memory for as long as that process lives.
func wipe(path string) error {
	descriptor, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) { // the task's, and no mount
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	folder := os.NewFile(uintptr(descriptor), path)
	defer folder.Close()
	if os.Geteuid() != 0 || !Holds(folder) { // a process that is not root has mounted nothing
		return nil
	}
	if err := unix.MountSetattr(descriptor, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	names, err := folder.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, wipeFile(descriptor, name))
	}
	return err
}

// wipeFile removes the content of a file, also for a process that has it open, and then the file.
func wipeFile(folder int, name string) error {
	descriptor, err := unix.Openat(folder, name, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(descriptor)
	}
	return errors.Join(err, unix.Unlinkat(folder, name, 0))
}

// opened opens the folder itself, and closes its root.
func opened(root *os.Root, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(".")
}

// unmount removes a mount at once, even if somebody still uses it.
func unmount(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	switch {
	case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // nothing is mounted there
		return nil
	case errors.Is(err, unix.EPERM) && os.Geteuid() != 0: // a process that can't unmount has mounted nothing
		return nil
	}
	return &os.PathError{Op: "unmount", Path: path, Err: err}
}

// Sweep removes the secrets folders that an earlier agent has left below a folder, except in the known sandboxes.
func Sweep(below string, known func(sandbox string) bool) error {
	from, err := filepath.EvalSymlinks(below) // in the form in which the kernel names mounts
	if err == nil {
		from, err = filepath.Abs(from)
	}
	if err != nil {
		return err
	}
	var wrong error
	err = eachMount(func(_, place string) {
		rest, err := filepath.Rel(from, place)
		if err == nil && filepath.IsLocal(rest) && !known(filepath.Join(below, filepath.Dir(rest))) {
			wrong = errors.Join(wrong, wipe(place), unmount(place))
		}
	})
	return errors.Join(err, wrong)
}

// Holds says whether an open file is a secret, or a folder of secrets.
func Holds(file *os.File) bool {
	var status unix.Stat_t
	if unix.Fstat(int(file.Fd()), &status) != nil {
		return false
	}
	device := fmt.Sprintf("%d:%d", unix.Major(status.Dev), unix.Minor(status.Dev))
	held := false
	err := eachMount(func(mounted, _ string) { held = held || mounted == device })
	return held || err != nil
}

// eachMount visits the mounted secrets folders, with their devices and paths.
func eachMount(visit func(device, place string)) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	lines := bufio.NewReader(mounts)
	for {
		line, err := lines.ReadString('\n')
		place, rest, is := strings.Cut(line, " - tmpfs "+source+" ")
		if fields := strings.Fields(place); is && rest != "" && len(fields) > 4 {
			visit(fields[2], proc.Unescape(fields[4]))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
