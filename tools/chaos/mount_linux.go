package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// apart is the argument that says that this process has file systems of its own.
const apart = "apart"

// runApart runs this program again with mounts that only it sees and that end with it. ended is false if that is not
// allowed.
func runApart(ctx context.Context, args []string) (ended bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return true, err
	}
	command := exec.CommandContext(ctx, self, append([]string{apart}, args...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) } // it cleans up
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		}
	}
	if err := command.Start(); err != nil {
		return false, nil //nolint:nilerr // without them, then
	}
	return true, command.Wait()
}

// smallDiskSize has room for a log of many rounds.
const smallDiskSize = "size=96m"

func mountSmallDisk(dir string) (*smallDisk, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tender-chaos", dir, "tmpfs", 0, smallDiskSize); err != nil {
		return nil, err
	}
	return &smallDisk{dir: dir}, nil
}

// ownMounts gives a process mounts of its own, which end with it.
func ownMounts(of *syscall.SysProcAttr) { of.Unshareflags |= syscall.CLONE_NEWNS }

// bootAs replaces this process by another program, on a machine with the boot ID in a file.
func bootAs(file string, command []string) error {
	if err := syscall.Mount(file, "/proc/sys/kernel/random/boot_id", "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ())
}

func (d *smallDisk) unmount() {
	_ = syscall.Unmount(d.dir, syscall.MNT_DETACH) // otherwise it ends with this process
}
