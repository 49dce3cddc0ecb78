package images

import (
	"os"

	"golang.org/x/sys/unix"
)

// opaqueMark is how the kernel's overlayfs is told that a folder shows nothing of the layers below.
const opaqueMark = "trusted.overlay.opaque"

// markGone hides a name of the layers below: overlayfs takes such a device for nothing.
func markGone(folder *os.File, name string) error {
	return os.NewSyscallError("mknodat", unix.Mknodat(int(folder.Fd()), name, unix.S_IFCHR, 0))
}

// markOpaque hides all that the layers below have in a folder.
func markOpaque(folder *os.File) error {
	return os.NewSyscallError("fsetxattr", unix.Fsetxattr(int(folder.Fd()), opaqueMark, []byte("y"), 0))
}

// isOpaque tells whether it does.
func isOpaque(folder *os.File) bool {
	var value [1]byte
	n, err := unix.Fgetxattr(int(folder.Fd()), opaqueMark, value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// settleDisk waits until what was written is on the disk: a layer that is called whole must be so after a crash of the
// machine too.
func settleDisk(folder *os.File) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(int(folder.Fd())))
}
