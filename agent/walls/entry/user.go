// Package entry prepares what happens between a fork and a task's first instruction, control groups aside: as which
// user a task runs, with which rights and limits. It starts nothing itself.
package entry

import (
	"io/fs"
	"os"
	"syscall"
)

// User is as whom something is done.
type User struct {
	UID, GID int
	// Groups are those that the user has beside GID.
	Groups []int
}

// Self is the user of this process.
func Self() User { return User{UID: os.Geteuid(), GID: os.Getegid()} }

// IsSelf tells whether it is the user of this process.
func (u User) IsSelf() bool { return u.UID == os.Geteuid() }

// IsRoot tells whether it is root.
func (u User) IsRoot() bool { return u.UID == 0 }

// OwnerOf is whose a file is.
func OwnerOf(info fs.FileInfo) User {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return User{UID: int(stat.Uid), GID: int(stat.Gid)}
	}
	return Self()
}

// Credential is how a child becomes a user: with the user's groups, and with no other rights. Nil: it stays what this
// process is.
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
