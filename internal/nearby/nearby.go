//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package nearby

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// UsersOf are those of this process in such an environment.
func UsersOf(getenv func(string) string) Users {
	users := Users{os.Geteuid()}
	if person, err := strconv.Atoi(getenv("SUDO_UID")); err == nil && person > 0 && users[0] == 0 {
		users = append(users, person)
	}
	return users
}

// parent is the same for all processes of the machine, whatever their environment calls the folder of temporary files.
const parent = "/tmp"

func folderOf(user int) string { return filepath.Join(parent, "tender-dev-"+strconv.Itoa(user)) }

// fileOf is that of one master, by its address.
func fileOf(user int, master string) string {
	if port, is := strings.CutPrefix(master, "localhost:"); is {
		master = net.JoinHostPort("127.0.0.1", port)
	}
	return filepath.Join(folderOf(user), filepath.Base(master))
}

// Announce lets programs of these users find the token by the address of each master. They find it until withdraw is called,
// or the process ends.
func Announce(users Users, masters []string, token string) (withdraw func() error, err error) {
	files := map[string]*os.File{}
	withdraw = func() (err error) {
		for name, file := range files {
			err = errors.Join(err, ignoreMissing(os.Remove(name)), file.Close())
			delete(files, name)
		}
		return err
	}
	for _, user := range users {
		if err := makeFolder(user); err != nil {
			return nil, errors.Join(err, withdraw())
		}
		for _, master := range masters {
			name := fileOf(user, master)
			if files[name], err = write(name, user, token); err != nil {
				delete(files, name)
				return nil, errors.Join(err, withdraw())
			}
		}
	}
	return withdraw, nil
}

func makeFolder(user int) error {
	err := os.Mkdir(folderOf(user), 0o700)
	switch {
	case err == nil && user != os.Geteuid():
		return os.Lchown(folderOf(user), user, -1)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return check(user)
}

// check refuses a folder that somebody else may have filled: the parent is everybody's.
func check(user int) error {
	info, err := os.Lstat(folderOf(user))
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !known || int(owner.Uid) != user || info.Mode().Perm()&0o077 != 0 {
		return api.E("nearby", api.Invalid, folderOf(user), fmt.Errorf("it is no folder of user %d alone; remove it", user))
	}
	return nil
}

// write puts a file whole in the place of another one, and holds it locked until it is closed.
func write(name string, user int, token string) (*os.File, error) {
	draft := fmt.Sprintf("%s.%d", name, os.Getpid())
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_RDWR|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil && user != os.Geteuid() {
		err = file.Chown(user, -1)
	}
	if err == nil {
		_, err = file.WriteString(token + "\n")
	}
	if err == nil {
		err = os.Rename(draft, name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(draft))
	}
	return file, nil
}

// Token is that of the cluster which has one of the masters; "" if none runs.
func Token(users Users, masters []string) string {
	for _, user := range users {
		if check(user) != nil {
			continue
		}
		for _, master := range masters {
			if token := read(fileOf(user, master)); token != "" {
				return token
			}
		}
	}
	return ""
}

// read is what the file says while somebody holds it.
func read(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return "" // nobody runs the cluster any more
	}
	text, err := trust.ReadSecret(name)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
