// Package entry prepares what happens between a fork and a task's first instruction, except control groups: as which
// user a task runs, with which rights and limits. It starts nothing itself.
package entry

import (
	"io/fs"
	"os"
	"syscall"
)

// User is a user of the machine, by numbers.
type User struct {
	UID, GID int
	// Groups are the groups that the user has beside GID.
	Groups []int
}

// Self returns the user of this process.
func Self() User { return User{UID: os.Geteuid(), GID: os.Getegid()} }

// IsSelf reports whether the user is that of this process.
func (u User) IsSelf() bool { return u.UID == os.Geteuid() }

// IsRoot reports whether the user is root.
func (u User) IsRoot() bool { return u.UID == 0 }

// OwnerOf returns the owner and group of a file. Where the system does not tell, it returns the user of this process.
func OwnerOf(info fs.FileInfo) User {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return User{UID: int(stat.Uid), GID: int(stat.Gid)}
	}
	return Self()
}

// Credential returns what a child needs to run as the user, with the user's groups and no other rights. Nil: the child
// runs as the user of this process.
func Credential(user User) *syscall.Credential {
	if user.IsSelf() || os.Geteuid() != 0 {
		return nil
	}
	credential := &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID)}
	for _, group := range GroupsOf(user.UID) {
		credential.Groups = append(credential.Groups, uint32(group))
	}
	return credential
}
