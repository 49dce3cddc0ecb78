package spaces

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/internal/execpath"
)

// machineFiles are the machine's files that say how names are looked up. A task in an image has copies of them, as they
// are when it starts.
var machineFiles = []string{"/etc/hosts", "/etc/resolv.conf"}

// build makes the image the root of the calling thread, which must have a mount namespace of its own, and adds what a
// task has beside the image: folders of the machine, devices, and the files of the kernel. Whatever the image has in
// their places is covered or replaced. No link of the image is followed before the image is the root; after that its
// links can't lead out of it.
func (r *Root) build(user User, devices []string) error {
	shown, err := r.openShown()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, path := range machineFiles {
		if files[path], err = os.ReadFile(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := r.mount(); err != nil {
		return fmt.Errorf("the image can't be made its root: %w", err)
	}
	if err := buildDev(r.Folder+"/"+rootName, devices...); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return fmt.Errorf("the image can't become its root: %w", err)
	}
	if err := r.fill(files); err != nil {
		return err
	}
	for _, one := range shown {
		place, err := makeFolders("/", one.path)
		if err == nil {
			err = errors.Join(one.moveTo(place, ""), unix.Close(place))
		}
		if err != nil {
			return fmt.Errorf("%s can't be shown: %w", one.path, err)
		}
	}
	if err := protectKernel(); err != nil {
		return err
	}
	if err := r.makeBegin(user); err != nil {
		return fmt.Errorf("the folder that the program begins in can't be made: %w", err)
	}
	return nil
}

// makeBegin makes the program's working directory if the image lacks it, and gives it to the program's user.
func (r *Root) makeBegin(user User) error {
	path, made := "", false
	for name := range strings.SplitSeq(strings.Trim(r.Begin, "/"), "/") {
		path += "/" + name
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil { // whatever the umask
			return err
		}
		made = true
	}
	if made {
		return os.Chown(path, user.UID, user.GID)
	}
	return nil
}

// The names of the folders in Root.Folder.
const (
	rootName  = "root"
	upperName = "upper"
	workName  = "work"
)

// openShown opens the folders that are shown, while the machine's files can still be seen.
func (r *Root) openShown() (shown []tree, err error) {
	for _, one := range append([]Shown{{From: "/sys", At: "/sys"}}, r.Shown...) {
		from, err := copyTree(unix.AT_FDCWD, one.From)
		if err != nil {
			return nil, fmt.Errorf("%s can't be shown: %w", one.From, err)
		}
		shown = append(shown, tree{from, one.At})
	}
	return shown, nil
}

// mount mounts the image on the folder root in the agent's folder: either its layers, with what the task changes on
// top, or the copy. It first checks that the agent's folder belongs to the agent's user alone: so it is certain that
// the task's user, who owns the sandbox, has not put something else in its place.
func (r *Root) mount() error {
	folder, err := unix.Open(r.Folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: r.Folder, Err: err}
	}
	defer unix.Close(folder)
	var status unix.Stat_t
	if err := unix.Fstat(folder, &status); err != nil {
		return err
	}
	if int(status.Uid) != os.Geteuid() || status.Mode&0o077 != 0 {
		return fmt.Errorf("%s is not the agent's own folder; something else was put in its place", r.Folder)
	}
	if len(r.Layers) > 0 {
		return r.overlay(folder)
	}
	one, err := copyTree(folder, rootName)
	if err == nil {
		err = unix.MountSetattr(one, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	}
	if err == nil {
		err = tree{one, rootName}.moveTo(folder, rootName)
	}
	return err
}

// overlay mounts the layers one above the other. It names them by file descriptors, because the paths of many layers
// together would be too long for the kernel. What a task changes need not survive a crash of the machine, which ends
// the task too. So the mount is "volatile": neither a task's calls of fsync nor its end make the disk write all that is
// waiting for it. This does not concern volumes.
func (r *Root) overlay(folder int) error {
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var opened []int
	defer func() {
		for _, one := range opened {
			_ = unix.Close(one)
		}
	}()
	open := func(at int, path string) (string, error) {
		one, err := unix.Openat(at, path, how, 0)
		if err != nil {
			return "", &os.PathError{Op: "open", Path: path, Err: err}
		}
		opened = append(opened, one)
		return "/proc/self/fd/" + strconv.Itoa(one), nil
	}
	var lower []string
	for _, layer := range slices.Backward(r.Layers) {
		path, err := open(unix.AT_FDCWD, layer)
		if err != nil {
			return err
		}
		lower = append(lower, path)
	}
	upper, err := open(folder, upperName)
	if err != nil {
		return err
	}
	work, err := open(folder, workName)
	if err != nil {
		return err
	}
	root, err := open(folder, rootName)
	if err != nil {
		return err
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work + ",volatile"
	return os.NewSyscallError("mount overlay", unix.Mount("tender", root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options))
}

// enter makes the mounted image the root, and unmounts the root before it with all that was mounted there.
func (r *Root) enter() error {
	const how = unix.O_DIRECTORY | unix.O_RDONLY | unix.O_CLOEXEC
	before, err := unix.Open("/", how, 0)
	if err != nil {
		return err
	}
	defer unix.Close(before)
	root, err := unix.Open(r.Folder+"/"+rootName, how|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Fchdir(before); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	return unix.Chdir("/")
}

// fill makes the folders and files that every program may expect, but that an image may lack.
func (r *Root) fill(files map[string][]byte) error {
	for _, one := range []struct {
		path string
		mode os.FileMode
	}{{"/etc", 0o755}, {"/proc", 0o555}, {"/sys", 0o555}, {"/tmp", 0o777 | os.ModeSticky}} {
		switch info, err := os.Lstat(one.path); {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s of the image is no folder", one.path)
		case err == nil:
			continue
		}
		if err := os.Mkdir(one.path, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(one.path, one.mode); err != nil { // whatever the umask
			return err
		}
	}
	for _, path := range machineFiles {
		if err := replaceFile(path, files[path]); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a copy of a file of the machine, in place of what the image has there, which may be a link.
// Without content it leaves the image's as it is.
func replaceFile(path string, content []byte) error {
	if content == nil {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Chmod(0o644), file.Close())
}

// find sets Path to the program that the first word of Argv names to the task: in the folders of its PATH, or, for a
// word with a slash, relative to its working directory.
func (o *Order) find() syscall.Errno {
	if !o.Find {
		return 0
	}
	if o.Path = execpath.Find(o.Argv[0], execpath.Of(o.Env), o.Folder); o.Path != "" {
		return 0
	}
	return syscall.ENOENT
}
