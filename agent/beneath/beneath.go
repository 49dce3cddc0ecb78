// Package beneath opens paths below a folder of the agent's of which tasks own parts. No link is ever followed, whoever
// has put it there and when: each step must be a real folder. What belongs to another user is opened and made with that
// user's rights, so that a link which the user has made to somebody else's file opens nothing.
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// Modes of folders: others may pass through those on the way, and have no business in what is a user's own.
const (
	Passage fs.FileMode = 0o711
	Private fs.FileMode = 0o700
)

// Folder is a folder that is ours. It may be used from any goroutine.
type Folder struct {
	path  string
	mutex sync.Mutex
	top   *os.Root // nil until it is used
	raw   *os.File // the same, for calls that os.Root has not; nil like it
}

// New names the folder, which need not be there yet.
func New(path string) *Folder { return &Folder{path: path} }

// open opens the folder once for all.
func (f *Folder) open() (*os.Root, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.top == nil {
		top, err := os.OpenRoot(f.path)
		if err != nil {
			return nil, err
		}
		raw, err := top.Open(".")
		if err != nil {
			return nil, errors.Join(err, top.Close())
		}
		f.top, f.raw = top, raw
	}
	return f.top, nil
}

// handle is the open folder's descriptor, which stays open while it is used.
func (f *Folder) handle() (syscall.RawConn, error) {
	if _, err := f.open(); err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.raw == nil {
		return nil, fs.ErrClosed // meanwhile
	}
	return f.raw.SyscallConn()
}

// Close lets go of the folder; it is opened again when it is used again.
func (f *Folder) Close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.top == nil {
		return nil
	}
	top, raw := f.top, f.raw
	f.top, f.raw = nil, nil
	return errors.Join(raw.Close(), top.Close())
}

// At is the place of a path that lies in the folder. It need not be there.
func (f *Folder) At(path string) Place { return Place{folder: f, path: path} }

// Place is a folder beneath, opened anew each time.
type Place struct {
	folder *Folder
	path   string
}

// Path is where the place is.
func (p Place) Path() string { return p.path }

// Parent is the place that this one is in.
func (p Place) Parent() Place { return Place{p.folder, filepath.Dir(p.path)} }

// In is the place of that name in this one.
func (p Place) In(name string) Place { return Place{p.folder, filepath.Join(p.path, name)} }

// IsMissing says at one look that nothing is there, which saves the way to it: most tasks have no sandbox. It follows links
// on that way, so a task that has put one there may hide its own folder from it, and nobody else's.
func (p Place) IsMissing() bool {
	_, err := os.Lstat(p.path)
	return errors.Is(err, fs.ErrNotExist)
}

// way is the path from the folder to the place.
func (p Place) way() (string, error) {
	way, err := filepath.Rel(p.folder.path, p.path)
	if err != nil || !filepath.IsLocal(way) {
		return "", &fs.PathError{Op: "open", Path: p.path, Err: errors.New("it is not beneath " + p.folder.path)}
	}
	return way, nil
}

// steps are the names on that way.
func (p Place) steps() ([]string, error) {
	way, err := p.way()
	if err != nil || way == "." {
		return nil, err
	}
	return strings.Split(way, string(filepath.Separator)), nil
}

// Open opens the place, with the rights of this process to what is in it.
func (p Place) Open() (*os.Root, error) {
	return p.walk(func(here *os.Root, name string, _ bool) (*os.Root, error) { return enter(here, name) })
}

// walk opens one step after the other.
func (p Place) walk(step func(here *os.Root, name string, last bool) (*os.Root, error)) (*os.Root, error) {
	steps, err := p.steps()
	if err != nil {
		return nil, err
	}
	top, err := p.folder.open()
	if err != nil {
		return nil, err
	}
	here, err := top.OpenRoot(".")
	for i, name := range steps {
		if err != nil {
			break
		}
		next, failed := step(here, name, i == len(steps)-1)
		err = errors.Join(failed, here.Close())
		if here = next; failed == nil && err != nil {
			err = errors.Join(err, next.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return here, nil
}

// errNoFolder says what was found in a folder's place.
var errNoFolder = errors.New("something else stands where a folder of the agent should be, perhaps a link that a task has made")

// enter opens a folder in a folder. What it has opened is what the name stood for before, and that is no link.
func enter(here *os.Root, name string) (*os.Root, error) {
	info, err := here.Lstat(name)
	if err != nil {
		return nil, err
	}
	wrong := &fs.PathError{Op: "open", Path: filepath.Join(here.Name(), name), Err: errNoFolder}
	if !info.IsDir() {
		return nil, wrong
	}
	next, err := here.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(wrong, next.Close())
	}
	return next, nil
}

// OpenFile opens a file in the place with the rights of the place's owner; a link is followed as long as it stays in it.
func (p Place) OpenFile(name string, flag int, mode fs.FileMode) (file *os.File, err error) {
	root, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = AsOwner(root, func() error {
		file, err = root.OpenFile(name, flag, mode)
		return err
	})
	return file, err
}

// Lstat looks at a file in the place.
func (p Place) Lstat(name string) (fs.FileInfo, error) {
	root, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Lstat(name)
}

// List names what is in the place; nothing when it is not there.
func (p Place) List() []string {
	folder, err := p.OpenFolder()
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil
	}
	return names
}

// AsOwner does something with the rights of whose the folder is.
func AsOwner(root *os.Root, work func() error) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner := entry.OwnerOf(info)
	owner.Groups = entry.GroupsOf(owner.UID)
	return entry.As(owner, work)
}

// Make opens the place as the user's, and makes it if it is not there. Folders on the way that are missing belong to
// whom the folder belongs that they are in. One that was another's is given to the user with all in it.
func (p Place) Make(user entry.User, mode fs.FileMode) (*os.Root, error) {
	return p.walk(func(here *os.Root, name string, last bool) (*os.Root, error) {
		next, err := enter(here, name)
		if errors.Is(err, fs.ErrNotExist) {
			next, err = makeFolder(here, name, Passage)
		}
		if err != nil || !last {
			return next, err
		}
		if err := settle(here, next, name, user, mode); err != nil {
			return nil, errors.Join(err, next.Close())
		}
		return next, nil
	})
}

// Ensure opens the place, and makes it if it is not there, as something that belongs to whom the folder belongs that it is
// in. One that is there stays whose it is.
func (p Place) Ensure() (*os.Root, error) {
	return p.walk(func(here *os.Root, name string, last bool) (*os.Root, error) {
		next, err := enter(here, name)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return next, err
		case last:
			return makeFolder(here, name, Private)
		}
		return makeFolder(here, name, Passage)
	})
}

// makeFolder makes a folder as the one it is in: of the same owner.
func makeFolder(here *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	err := AsOwner(here, func() error { return here.Mkdir(name, Private) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	next, err := enter(here, name)
	if err != nil {
		return nil, err
	}
	if err := AsOwner(next, func() error { return next.Chmod(".", mode) }); err != nil { // whatever the umask
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// settle makes an open folder the user's, with this mode as long as it was nobody else's.
func settle(here, folder *os.Root, name string, user entry.User, mode fs.FileMode) error {
	info, err := folder.Stat(".")
	if err != nil {
		return err
	}
	owner := entry.OwnerOf(info)
	if owner.IsSelf() && info.Mode().Perm() != mode {
		if err := folder.Chmod(".", mode); err != nil {
			return err
		}
	}
	if owner.UID == user.UID {
		return nil
	}
	if err := entry.Give(folder, owner, user); err != nil {
		return fmt.Errorf("%s can't be given to user %d: %w", filepath.Join(here.Name(), name), user.UID, err)
	}
	return nil
}
