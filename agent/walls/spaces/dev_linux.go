package spaces

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// device is a device file that every program may expect.
type device struct {
	name         string
	major, minor uint32
}

// devices are the device files that every task has. They give access to nothing of the machine but its random numbers,
// and to the program's own terminal.
var devices = []device{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// deviceLinks are the usual links in /dev, each with its target first and its name second.
var deviceLinks = [][2]string{
	{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"pts/ptmx", "ptmx"},
}

// deviceMounts are the file systems that are mounted in a task's /dev. Each mount of devpts has terminals of its own.
var deviceMounts = []struct {
	name, kind string
	options    [][2]string
	flags      int
}{
	{"pts", "devpts", [][2]string{{"mode", "0620"}, {"ptmxmode", "0666"}}, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC},
	{"shm", "tmpfs", [][2]string{{"mode", "1777"}}, inert},
	{"mqueue", "mqueue", nil, inert},
}

// inert are the flags of file systems that hold data, but neither programs nor devices.
const inert = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// buildDev mounts a new /dev below root, which is "/" or the folder of an image. The new /dev has the devices that
// every program may expect, the named devices of the machine (such as /dev/nvidia0), and terminals, shared memory and
// message queues of the task's own. What the root has at /dev is covered; if it is a link it is not followed. The
// calling thread must have a mount namespace and an IPC namespace of its own.
func buildDev(root string, named ...string) error {
	machine, err := unix.Open("/dev", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = fillDev(root, machine, named)
		_ = unix.Close(machine)
	}
	if err != nil {
		return fmt.Errorf("%s/dev can't be built: %w", strings.TrimSuffix(root, "/"), err)
	}
	return nil
}

// fillDev does what buildDev says. machine is the machine's /dev, open.
func fillDev(root string, machine int, named []string) error {
	dev, err := newDev()
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	if err := coverDev(root, dev); err != nil {
		return err
	}
	if err := makeDevices(dev, machine); err != nil {
		return err
	}
	for _, path := range named {
		if err := copyDevice(dev, machine, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return mountInDev(dev)
}

// newDev makes an empty file system for a /dev, mounted nowhere yet.
func newDev() (int, error) {
	return newMount("tmpfs", [][2]string{{"mode", "0755"}, {"size", "1m"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// makeDevices makes the device files and links that every program may expect in the new /dev.
func makeDevices(dev, machine int) error {
	for _, one := range devices {
		if err := one.make(dev, machine); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	for _, link := range deviceLinks {
		if err := unix.Symlinkat(link[0], dev, link[1]); err != nil {
			return fmt.Errorf("%s: %w", link[1], err)
		}
	}
	for _, one := range deviceMounts {
		if err := makeFolder(dev, one.name, 0o755); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// mountInDev mounts the task's own terminals, shared memory and message queues in the new /dev.
func mountInDev(dev int) error {
	for _, one := range deviceMounts {
		if err := mountAt(dev, one.name, one.kind, one.options, one.flags); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// sharedDev is a read-only /dev that tasks share, without what is mounted in it. A copy of its mount costs a fraction
// of a new /dev. Only tasks whose users could not change a /dev of their own get one, so they can do no more to each
// other by it than by any other file of the machine. -1: there is none.
type sharedDev int

// openSharedDev makes the shared /dev in the mount namespace of the calling thread. It returns -1 where device files
// can't be made, and where the kernel does not copy a mount that is mounted nowhere (Linux does since 6.15).
func openSharedDev() sharedDev {
	dev, err := newDev()
	if err != nil {
		return -1
	}
	if makeDevices(dev, -1) == nil && unix.MountSetattr(dev, "", unix.AT_EMPTY_PATH, &readOnlyAttribute) == nil {
		if one, err := copyTree(dev, ""); err == nil {
			_ = unix.Close(one)
			return sharedDev(dev)
		}
	}
	_ = unix.Close(dev)
	return -1
}

// copyFor returns a copy of the shared /dev for a task that may have one, else -1. It must be called before the thread
// leaves the mount namespace in which the shared /dev was made.
func (d sharedDev) copyFor(v View, user User) int {
	inDev := func(path string) bool { return baseOf(path, []string{"/dev"}) != "" }
	if d < 0 || user.UID == 0 || v.Root != nil || len(v.Devices) > 0 || slices.ContainsFunc(v.Shown, inDev) {
		return -1
	}
	one, err := copyTree(int(d), "")
	if err != nil {
		return -1
	}
	return one
}

// useDev mounts a copy of the shared /dev as the task's /dev.
func useDev(dev int) error {
	err := coverDev("/", dev)
	if err == nil {
		err = mountInDev(dev)
	}
	if err != nil {
		return fmt.Errorf("/dev can't be built: %w", err)
	}
	return nil
}

// coverDev mounts something over the /dev of a root. It makes the folder if there is none.
func coverDev(root string, mount int) error {
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	top, err := unix.Open(root, how, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	place, err := unix.Openat(top, "dev", how|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		if err = makeFolder(top, "dev", 0o755); err == nil {
			place, err = unix.Openat(top, "dev", how|unix.O_NOFOLLOW, 0)
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(place)
	return unix.MoveMount(mount, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// make makes the device file in the folder at. If the agent may not make device files, as in many containers, make
// mounts the machine's own file there.
func (d device) make(at, machine int) error {
	const mode = 0o666
	err := unix.Mknodat(at, d.name, unix.S_IFCHR|mode, int(unix.Mkdev(d.major, d.minor)))
	if err == unix.EPERM {
		return bindDevice(at, machine, d.name)
	}
	if err != nil {
		return err
	}
	return unix.Fchmodat(at, d.name, mode, 0) // whatever the umask
}

// copyDevice makes the device file that the machine has at a path, with the same mode and owner.
func copyDevice(dev, machine int, path string) error {
	name, is := strings.CutPrefix(path, "/dev/")
	if !is {
		return errors.New("it is not in /dev")
	}
	var status unix.Stat_t
	if err := unix.Fstatat(machine, name, &status, 0); err != nil {
		return err
	}
	for i, char := range name {
		if char != '/' {
			continue
		}
		if err := makeFolder(dev, name[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	err := unix.Mknodat(dev, name, status.Mode, int(status.Rdev))
	if err == unix.EPERM {
		return bindDevice(dev, machine, name)
	}
	if err == nil {
		err = unix.Fchmodat(dev, name, status.Mode&0o777, 0) // whatever the umask
	}
	if err == nil {
		err = unix.Fchownat(dev, name, int(status.Uid), int(status.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}

// bindDevice mounts the machine's device file of that name in the folder at.
func bindDevice(at, machine int, name string) error {
	one, err := copyTree(machine, name)
	if err != nil {
		return err
	}
	file, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	return tree{one, name}.moveTo(at, name)
}

// makeFolder makes a folder in the folder at, with exactly this mode.
func makeFolder(at int, name string, mode uint32) error {
	if err := unix.Mkdirat(at, name, mode); err != nil {
		return err
	}
	return unix.Fchmodat(at, name, mode, 0) // whatever the umask
}

// newMount makes a file system that is mounted nowhere yet.
func newMount(kind string, options [][2]string, flags int) (int, error) {
	made, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(made)
	for _, option := range options {
		if err := unix.FsconfigSetString(made, option[0], option[1]); err != nil {
			return -1, fmt.Errorf("%s=%s: %w", option[0], option[1], err)
		}
	}
	if err := unix.FsconfigCreate(made); err != nil {
		return -1, err
	}
	return unix.Fsmount(made, unix.FSMOUNT_CLOEXEC, flags)
}

// mountAt mounts a new file system on a folder.
func mountAt(at int, name, kind string, options [][2]string, flags int) error {
	mount, err := newMount(kind, options, flags)
	if err != nil {
		return err
	}
	return tree{mount, name}.moveTo(at, name)
}
