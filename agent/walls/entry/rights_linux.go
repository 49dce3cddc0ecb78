package entry

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// As does work with a user's rights to files; files that the work makes belong to the user. Only root can do that. In a
// process that is not root, the work is done with that process's own rights. The work must not hand anything to other
// goroutines, as these have other rights.
//
// The kernel keeps these rights for each thread, so the work has a thread of its own until the thread has its former
// rights again.
func As(user User, work func() error) error {
	if os.Geteuid() != 0 || user.UID == 0 {
		return work()
	}
	var err error
	OnThread(func() (asBefore bool) {
		own, wrong := unix.Getgroups()
		if wrong == nil {
			wrong = take(user)
		}
		if wrong != nil {
			err = fmt.Errorf("files can't be looked at as user %d: %w", user.UID, wrong)
			return false
		}
		err = work()
		return take(User{UID: 0, GID: os.Getegid(), Groups: own}) == nil
	})
	return err
}

// Ours does work with the rights of this process. It is for use within work that As does for a user.
func Ours(work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	return <-done
}

// take gives this thread a user's rights to files. Where that user is root, the user is set before the groups, as only
// root may set groups.
func take(user User) error {
	if user.UID == 0 {
		if err := setUser(0); err != nil {
			return err
		}
	}
	if err := unix.Setgroups(user.Groups); err != nil {
		return err
	}
	if err := unix.Setfsgid(user.GID); err != nil {
		return err
	}
	if got, err := unix.SetfsgidRetGid(-1); err != nil || got != user.GID {
		return unix.EPERM
	}
	if user.UID == 0 {
		return nil
	}
	return setUser(user.UID)
}

// setUser gives this thread the rights to files of the user with this number. The kernel reports no failure, so it is
// asked for the result.
func setUser(id int) error {
	if err := unix.Setfsuid(id); err != nil {
		return err
	}
	if got, err := unix.SetfsuidRetUid(-1); err != nil || got != id {
		return unix.EPERM
	}
	return nil
}
