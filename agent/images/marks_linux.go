package images

import (
	"os"

	"golang.org/x/sys/unix"
)

// opaqueMark is the attribute that tells overlayfs that a folder hides what the layers below have in it.
const opaqueMark = "trusted.overlay.opaque"

// markGone hides a name of the layers below: overlayfs treats such a device as a whiteout.
func markGone(folder *os.File, name string) error {
	return os.NewSyscallError("mknodat", unix.Mknodat(int(folder.Fd()), name, unix.S_IFCHR, 0))
}

// markOpaque hides everything that the layers below have in a folder.
func markOpaque(folder *os.File) error {
	return os.NewSyscallError("fsetxattr", unix.Fsetxattr(int(folder.Fd()), opaqueMark, []byte("y"), 0))
}

// isOpaque says whether a folder has that mark.
func isOpaque(folder *os.File) bool {
	var value [1]byte
	n, err := unix.Fgetxattr(int(folder.Fd()), opaqueMark, value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// settleDisk waits until everything that was written is on the disk, because a layer that counts as whole must be whole
// after a crash of the machine too.
func settleDisk(folder *os.File) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(int(folder.Fd())))
}
