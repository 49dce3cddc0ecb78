package spaces

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// temporaries are the folders for temporary files.
var temporaries = []string{"/tmp", "/var/tmp"}

// build changes the mount namespace of the calling thread, which must be its own, so that the machine looks as the view
// says. Paths through folders that the task's user can change are followed only by file descriptors, and never by a
// link. dev is a copy of the shared /dev; -1: the task gets a /dev of its own.
func (v View) build(user User, dev int) error {
	// What is unmounted outside is unmounted here as well, and what is mounted here is not seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounts can't be made the task's own: %w", err)
	}
	if v.Root != nil {
		return v.Root.build(user, v.Devices)
	}
	var shown []tree
	for _, path := range v.Shown {
		one, err := copyTree(unix.AT_FDCWD, path)
		if err != nil {
			return fmt.Errorf("%s can't be shown: %w", path, err)
		}
		shown = append(shown, tree{one, path})
	}
	own, err := v.copyTemporary(user)
	if err != nil {
		return fmt.Errorf("%s/.tmp can't be made: %w", v.Temporary, err)
	}
	if v.ReadOnly { // all but the copies that were made so far and what is mounted from here on
		if err := setReadOnly("/", unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	for _, one := range own {
		if err := one.moveTo(unix.AT_FDCWD, one.path); err != nil {
			return err
		}
	}
	if dev >= 0 {
		err = useDev(dev)
	} else {
		err = buildDev("/", v.Devices...)
	}
	if err != nil {
		return err
	}
	if err := v.hide(shown); err != nil {
		return err
	}
	return protectKernel()
}

// tree is a copy of a folder with all that is mounted in it, as open_tree(2) makes it. The copy is mounted nowhere yet;
// path is where it is to be seen.
type tree struct {
	descriptor int
	path       string
}

func copyTree(at int, path string) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_SYMLINK_NOFOLLOW)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return unix.OpenTree(at, path, flags)
}

func (t tree) moveTo(at int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	if err := unix.MoveMount(t.descriptor, "", at, path, flags); err != nil {
		return fmt.Errorf("%s can't be mounted: %w", t.path, err)
	}
	return unix.Close(t.descriptor)
}

// copyTemporary makes a mount of the sandbox's folder for temporary files for each of /tmp and /var/tmp, which it is to
// cover.
func (v View) copyTemporary(user User) (copies []tree, err error) {
	own, err := v.openTemporary(user)
	if err != nil {
		return nil, err
	}
	defer unix.Close(own)
	for _, path := range temporaries {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue // one of them is often a link to the other
		}
		one, err := copyTree(own, "")
		if err != nil {
			return nil, err
		}
		copies = append(copies, tree{one, path})
	}
	return copies, nil
}

// openTemporary opens the sandbox's folder for temporary files, which it makes if it is not there. The sandbox belongs
// to the task's user, who may have put anything in its place.
func (v View) openTemporary(user User) (int, error) {
	sandbox, err := unix.Open(v.Temporary, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(sandbox)
	const name, how = ".tmp", unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	made := unix.Mkdirat(sandbox, name, 0o700)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	own, err := unix.Openat(sandbox, name, how, 0)
	if err != nil {
		return -1, err
	}
	var status unix.Stat_t
	err = unix.Fstat(own, &status)
	switch {
	case err != nil:
	case int(status.Uid) == user.UID: // from a start before this one, or its user is the agent's
		err = unix.Fchmod(own, 0o1777)
	case made == nil && int(status.Uid) == os.Geteuid():
		if err = unix.Fchmod(own, 0o1777); err == nil { // others reach it only through the sandbox, which is closed to them
			err = unix.Fchown(own, user.UID, user.GID)
		}
	default:
		err = errors.New("it belongs to somebody else")
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(own))
	}
	return own, nil
}

// hide empties the hidden folders, and puts back what is shown of them.
func (v View) hide(shown []tree) error {
	var covers []string
	for _, path := range v.Hidden {
		if _, err := os.Stat(path); err != nil {
			continue // a folder around it is covered already
		}
		if err := unix.Mount("tender", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0711,size=1m"); err != nil {
			return fmt.Errorf("%s can't be hidden: %w", path, err)
		}
		covers = append(covers, path)
	}
	for _, one := range shown {
		base := baseOf(one.path, slices.Concat(covers, temporaries, []string{"/dev"}))
		if base == "" && v.ReadOnly {
			base = "/"
		}
		if base == "" {
			if err := unix.Close(one.descriptor); err != nil { // nothing hides it
				return err
			}
			continue
		}
		place, err := makeFolders(base, one.path)
		if err == nil {
			err = errors.Join(one.moveTo(place, ""), unix.Close(place))
		}
		if err != nil {
			return fmt.Errorf("%s can't be shown: %w", one.path, err)
		}
	}
	for _, path := range covers {
		if err := setReadOnly(path, 0); err != nil {
			return err
		}
	}
	return nil
}

// baseOf returns the first of the folders that the path is in; "" if there is none.
func baseOf(path string, folders []string) string {
	for _, folder := range folders {
		if strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/") {
			return folder
		}
	}
	return ""
}

// makeFolders opens the folder at a path below base, and makes those that are missing on the way. It follows no link
// below base.
func makeFolders(base, path string) (int, error) {
	here, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(path, base), "/"), "/") {
		if err != nil {
			return -1, err
		}
		const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		next, missing := unix.Openat(here, name, how, 0)
		if missing == unix.ENOENT {
			if missing = unix.Mkdirat(here, name, 0o700); missing == nil {
				missing = unix.Fchmodat(here, name, 0o711, 0) // whatever the umask
			}
			if missing == nil {
				next, missing = unix.Openat(here, name, how, 0)
			}
		}
		err = errors.Join(missing, unix.Close(here))
		here = next
	}
	return here, err
}

func setReadOnly(path string, flags uint) error {
	err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return fmt.Errorf("%s can't be made read-only (Linux 5.12 can): %w", path, err)
	}
	return nil
}

// protectKernel makes /sys read-only, so that tasks of root can't control the kernel by it.
func protectKernel() error {
	if err := setReadOnly("/sys", unix.AT_RECURSIVE); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: nothing is mounted there
		return err
	}
	return nil
}

// join moves the calling thread into the namespaces of a task; helper is the process number of its helper.
func join(helper int) error {
	var spaces []int
	names := []string{"ipc", "uts", "pid", "mnt"} // the mounts last: from then on the thread sees the task's files
	for _, name := range names {
		one, err := unix.Open("/proc/"+strconv.Itoa(helper)+"/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the task's namespace %s can't be opened: %w", name, err)
		}
		spaces = append(spaces, one)
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a thread of several joins no mounts otherwise
		return err
	}
	for i, one := range spaces {
		if err := errors.Join(unix.Setns(one, 0), unix.Close(one)); err != nil {
			return fmt.Errorf("the task's namespace %s can't be joined: %w", names[i], err)
		}
	}
	return nil
}
