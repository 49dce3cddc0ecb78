package entry

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// As does something with a user's rights to files, and makes files that are the user's. Root only can do that; for
// anybody else it is done as it would be without. It must not hand work to other goroutines: these have other rights.
//
// The kernel keeps these rights for each thread, so the work has a thread of its own until they are given back.
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

// Ours does something with the rights of this process, in the midst of work that As does for a user.
func Ours(work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	return <-done
}

// take gives this thread the rights of a user. Root comes back first, as nobody else may set groups.
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

// setUser takes the rights of a user's number. The kernel says nothing of a failure, so it is asked what there is.
func setUser(id int) error {
	if err := unix.Setfsuid(id); err != nil {
		return err
	}
	if got, err := unix.SetfsuidRetUid(-1); err != nil || got != id {
		return unix.EPERM
	}
	return nil
}
