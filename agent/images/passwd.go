package images

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// listBytesMax bounds the size of an image's list of users or groups.
const listBytesMax = 1 << 20

// UserNamed returns the user that the image's configuration names, looked up in the image's lists of users and groups.
// says is a NAME or a NUMBER, or one of them with :GROUP; "" is root. home is the user's folder; "": the image does not
// know the user.
func (i Image) UserNamed(says string) (user entry.User, home string, err error) {
	users, err := i.list("etc/passwd")
	if err != nil {
		return user, "", err
	}
	groups, err := i.list("etc/group")
	if err != nil {
		return user, "", err
	}
	name, group, _ := strings.Cut(says, ":")
	if name == "" {
		name = "0"
	}
	if user, home, err = findUser(users, name); err != nil {
		return user, "", err
	}
	if group != "" {
		user.GID, err = findGroup(groups, group)
		return user, home, err
	}
	called := nameOf(users, user.UID)
	for _, row := range groups {
		if gid, ok := number(row, 2); ok && called != "" && len(row) > 3 && gid != user.GID && slices.Contains(strings.Split(row[3], ","), called) {
			user.Groups = append(user.Groups, gid)
		}
	}
	return user, home, nil
}

// HomeOf returns the home of a user by the image's list; "": the image does not know the user.
func (i Image) HomeOf(uid int) string {
	users, err := i.list("etc/passwd")
	if err != nil {
		return ""
	}
	if _, home, err := findUser(users, strconv.Itoa(uid)); err == nil {
		return home
	}
	return ""
}

// findUser finds a user by name or number. A number need not be in the list.
func findUser(users [][]string, name string) (user entry.User, home string, err error) {
	asked, notNumber := strconv.ParseUint(name, 10, 31)
	for _, row := range users {
		uid, ok := number(row, 2)
		if !ok || row[0] != name && (notNumber != nil || uid != int(asked)) {
			continue
		}
		gid, ok := number(row, 3)
		if !ok {
			continue
		}
		user = entry.User{UID: uid, GID: gid}
		if len(row) > 5 && path.IsAbs(row[5]) {
			home = path.Clean(row[5])
		}
		return user, home, nil
	}
	if notNumber != nil {
		return user, "", fmt.Errorf("the image is to run as %.100q, and it has no such user", name)
	}
	return entry.User{UID: int(asked)}, "", nil
}

func findGroup(groups [][]string, name string) (int, error) {
	for _, row := range groups {
		if gid, ok := number(row, 2); ok && row[0] == name {
			return gid, nil
		}
	}
	if asked, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(asked), nil
	}
	return 0, fmt.Errorf("the image is to run with group %.100q, and it has no such group", name)
}

func nameOf(users [][]string, uid int) string {
	for _, row := range users {
		if number, ok := number(row, 2); ok && number == uid {
			return row[0]
		}
	}
	return ""
}

func number(row []string, column int) (int, bool) {
	if column >= len(row) {
		return 0, false
	}
	n, err := strconv.ParseUint(row[column], 10, 31)
	return int(n), err == nil
}

// list reads a file whose rows have fields separated by colons.
func (i Image) list(name string) (rows [][]string, err error) {
	file, err := i.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, listBytesMax))
	for lines.Scan() {
		rows = append(rows, strings.Split(lines.Text(), ":"))
	}
	return rows, lines.Err()
}

// open opens a file as all layers together show it. A link in the image can't lead out of its layer.
func (i Image) open(name string) (*os.File, error) {
	for _, layer := range slices.Backward(i.Layers) {
		file, more, err := openIn(layer, name)
		if file != nil || !more || err != nil {
			return file, err
		}
	}
	return nil, fs.ErrNotExist
}

// openIn opens a file of one layer. more says that the layers below may have it.
func openIn(layer, name string) (file *os.File, more bool, err error) {
	root, err := os.OpenRoot(layer)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	folder := path.Dir(name)
	info, err := root.Lstat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, true, nil
	case err != nil || !info.IsDir():
		return nil, false, cmpNotExist(err)
	}
	info, err = root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, !hidesBelow(root, folder), nil
	case err != nil || !info.Mode().IsRegular():
		return nil, false, cmpNotExist(err)
	}
	file, err = root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	return file, false, err
}

func cmpNotExist(err error) error {
	if err == nil {
		return fs.ErrNotExist
	}
	return err
}

func hidesBelow(root *os.Root, name string) bool {
	folder, err := root.Open(name)
	if err != nil {
		return true
	}
	defer folder.Close()
	return isOpaque(folder)
}

// StopSignal returns the number of the signal that ends the image's program; 0: the image names none.
func (i Image) StopSignal() (int, error) {
	const firstRealtime, lastRealtime = 34, 64 // as programs number them
	says := strings.ToUpper(i.Config.StopSignal)
	if says == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(says); err == nil && n > 0 && n <= lastRealtime {
		return n, nil
	}
	says = "SIG" + strings.TrimPrefix(says, "SIG")
	if rest, is := strings.CutPrefix(says, "SIGRTMIN"); is {
		if n, err := strconv.Atoi(cmpZero(rest)); err == nil && n >= 0 && n <= lastRealtime-firstRealtime {
			return firstRealtime + n, nil
		}
	}
	if n := unix.SignalNum(says); n != 0 {
		return int(n), nil
	}
	return 0, fmt.Errorf("the image is to be ended by %.50q, which is no signal", i.Config.StopSignal)
}

func cmpZero(text string) string {
	if text == "" {
		return "0"
	}
	return strings.TrimPrefix(text, "+")
}
