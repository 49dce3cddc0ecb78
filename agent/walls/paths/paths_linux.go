package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// reading are the kinds of access to files that are not hidden.
	reading = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// ofFiles are the kinds of access that a rule can allow for something that is no folder.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled returns the kinds of access that need a rule with this version. Calls to devices (ioctl), and connections to
// sockets, need none.
func handled(version int) uint64 {
	all := uint64(unix.LANDLOCK_ACCESS_FS_REFER) | (unix.LANDLOCK_ACCESS_FS_REFER - 1) // the kinds are consecutive bits, and REFER is the highest of version 2
	if version >= versionTruncates {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return all
}

// Try returns what the rules can't prevent on this machine, a sentence each. The error says why there can be no rules
// here.
func Try() (sentences []string, err error) {
	version, err := findVersion()
	if err != nil {
		return nil, err
	}
	return lacks(version)
}

// findVersion asks the kernel for its version of Landlock.
func findVersion() (int, error) {
	version, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch err {
	case 0:
		return int(version), nil
	case unix.ENOSYS:
		return 0, errors.New("this kernel has no Landlock: it is older than Linux 5.13, or was built without")
	case unix.EOPNOTSUPP:
		return 0, errors.New("this machine has Landlock switched off; name it in lsm= of the kernel's command line")
	}
	return 0, fmt.Errorf("the kernel does not tell its version of Landlock: %w", err)
}

// Confine restricts the calling thread, and all that it starts, to the reach, for ever. The thread must be locked to
// its goroutine.
func (r Reach) Confine() error {
	rules, err := r.Rules()
	if err != nil {
		return failed(err)
	}
	version, err := findVersion()
	if err != nil {
		return failed(err)
	}
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: handled(version)}
	return restrict(attributes, func(set int) error {
		for _, rule := range rules {
			if err := rule.add(set, attributes.Handled_access_fs); err != nil {
				return &fs.PathError{Op: "allow", Path: rule.Path, Err: err}
			}
		}
		return nil
	})
}

// Separate keeps the calling thread, and all that it starts, from sending signals to processes that it has not started,
// and from connecting to those unix sockets of such processes that are not files (abstract ones). It does nothing where
// the kernel can't do that. The thread must be locked to its goroutine.
func Separate() error {
	if version, err := findVersion(); err != nil || version < versionSignals {
		return err
	}
	return restrict(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
		func(int) error { return nil })
}

// restrict makes a set of rules, has fill add to it, and restricts the calling thread by it.
func restrict(attributes unix.LandlockRulesetAttr, fill func(set int) error) error {
	made, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if errno != 0 {
		return failed(errno)
	}
	set := int(made)
	defer unix.Close(set)
	err := fill(set)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err != nil {
		return failed(err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return failed(errno)
	}
	return nil
}

func failed(err error) error { return fmt.Errorf("files can't be kept from it: %w", err) }

// add adds the rule to a set. It adds nothing for a path that is gone by now, or that this user can't get to.
func (r Rule) add(set int, all uint64) error {
	file, err := unix.Open(r.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(file)
	var status unix.Stat_t
	if err := unix.Fstat(file, &status); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: reading, Parent_fd: int32(file)}
	if r.Change {
		rule.Allowed_access = all
	}
	switch status.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK: // it was no link when the rules were made
		return nil
	default:
		rule.Allowed_access &= ofFiles
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
