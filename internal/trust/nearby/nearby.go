//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package nearby

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/api"
)

// UsersOf returns the users of this process, given its environment.
func UsersOf(lookup func(string) (string, bool)) Users {
	users := Users{os.Geteuid()}
	sudo, _ := lookup("SUDO_UID")
	if person, err := strconv.Atoi(sudo); err == nil && person > 0 && users[0] == 0 {
		users = append(users, person)
	}
	return users
}

// parent is the same for all processes of the machine, whatever their environment names as the folder for temporary
// files.
const parent = "/tmp"

func folderOf(user int) string { return filepath.Join(parent, "tender-dev-"+strconv.Itoa(user)) }

// fileOf returns the name of the file for a master, by its address.
func fileOf(master string) string {
	if port, is := strings.CutPrefix(master, "localhost:"); is {
		master = net.JoinHostPort("127.0.0.1", port)
	}
	return filepath.Base(master)
}

// Announce lets programs of these users find the token by the address of each master, until withdraw is called or the
// process ends. If there is an error, nobody finds the token. It is of kind Exists if another process runs a cluster at
// one of the addresses.
func Announce(users Users, masters []string, token string) (withdraw func() error, err error) {
	var all []announcement
	withdraw = func() (err error) {
		for _, one := range all {
			err = errors.Join(err, one.withdraw())
		}
		return err
	}
	for _, user := range users {
		for _, master := range masters {
			one, err := announce(user, fileOf(master), token+"\n"+strings.Join(masters, ","))
			if err != nil {
				return nil, errors.Join(err, withdraw())
			}
			all = append(all, one)
		}
	}
	return withdraw, nil
}

// announcement is a file that this process holds.
type announcement struct {
	folder *os.Root
	file   *os.File
	name   string
}

func (a announcement) withdraw() error {
	return errors.Join(ignoreMissing(a.folder.Remove(a.name)), a.file.Close(), a.folder.Close())
}

func announce(user int, name, text string) (announcement, error) {
	if err := makeFolder(user); err != nil {
		return announcement{}, err
	}
	folder, err := openFolder(user)
	if err != nil {
		return announcement{}, err
	}
	file, err := write(folder, name, user, text)
	if err != nil {
		return announcement{}, errors.Join(err, folder.Close())
	}
	return announcement{folder, file, name}, nil
}

func makeFolder(user int) error {
	err := os.Mkdir(folderOf(user), 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err == nil && user != os.Geteuid():
		return os.Lchown(folderOf(user), user, -1)
	}
	return err
}

// openFolder opens the folder of a user. It refuses one that somebody else may have filled, because everybody can write
// to the parent. What is opened through it is in the folder that was checked, whatever has its name by then.
func openFolder(user int) (*os.Root, error) {
	folder, err := os.OpenRoot(folderOf(user))
	if err != nil {
		return nil, err
	}
	info, err := folder.Stat(".")
	if err == nil && !isOf(info, user) {
		err = api.E("nearby", api.Invalid, folderOf(user), fmt.Errorf("it is no folder of user %d alone; remove it", user))
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// isOf says whether something belongs to the user and nobody else has access.
func isOf(info fs.FileInfo, user int) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && int(owner.Uid) == user && info.Mode().Perm()&0o077 == 0
}

// write makes a file that nobody else may have opened, and keeps it locked until it is closed. It replaces the file of
// a process that has ended.
func write(folder *os.Root, name string, user int, text string) (*os.File, error) {
	if held(folder, name) {
		return nil, api.E("nearby", api.Exists, name, errors.New("another process of this user runs a cluster there"))
	}
	if err := ignoreMissing(folder.Remove(name)); err != nil {
		return nil, err
	}
	file, err := folder.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// A process that checks whether the file is locked holds the lock for a moment.
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err == nil && user != os.Geteuid() {
		err = file.Chown(user, -1)
	}
	if err == nil {
		_, err = file.WriteString(text + "\n")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), folder.Remove(name))
	}
	return file, nil
}

// Token returns the token of a cluster that has one of the masters; "" if none runs.
func Token(users Users, masters []string) string {
	token, _, _ := strings.Cut(find(users, masters), "\n")
	return token
}

// Masters returns these addresses of masters, or the default when there are none, and behind them those of the other
// masters of the cluster that has one of them, if it runs. So who knows only one finds the others when that one is gone.
func Masters(users Users, known []string, otherwise string) []string {
	if len(known) == 0 {
		known = []string{otherwise}
	}
	all := slices.Clone(known)
	_, others, _ := strings.Cut(find(users, known), "\n")
	for other := range strings.SplitSeq(others, ",") {
		if other != "" && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	return all
}

// find returns the content of the first file for one of the masters that a process holds: a token, and all masters.
func find(users Users, masters []string) string {
	for _, user := range users {
		if text := findOf(user, masters); text != "" {
			return text
		}
	}
	return ""
}

func findOf(user int, masters []string) string {
	folder, err := openFolder(user)
	if err != nil {
		return ""
	}
	defer folder.Close()
	for _, master := range masters {
		if text := read(folder, fileOf(master), user); text != "" {
			return text
		}
	}
	return ""
}

// fileBytesMax limits what is read of a file.
const fileBytesMax = 4096

// read returns the content of the file if a process holds it.
func read(folder *os.Root, name string, user int) string {
	file, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !isOf(info, user) || !isHeld(file) {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}

// held says whether a living process holds the file.
func held(folder *os.Root, name string) bool {
	file, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return isHeld(file)
}

func isHeld(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
