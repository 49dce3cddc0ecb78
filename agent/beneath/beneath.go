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

// Modes of folders: other users may pass through those on the way, and have no access to a user's own folder.
const (
	Passage fs.FileMode = 0o711
	Private fs.FileMode = 0o700
)

// Folder is a folder of the agent. It may be used from any goroutine.
type Folder struct {
	path  string
	mutex sync.Mutex
	top   *os.Root // nil until it is used
	raw   *os.File // the same folder, for calls that os.Root does not have; nil while top is
}

// New names the folder, which need not exist yet.
func New(path string) *Folder { return &Folder{path: path} }

// open opens the folder, once for all later uses.
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

// handle returns the descriptor of the open folder, which stays open while it is used.
func (f *Folder) handle() (syscall.RawConn, error) {
	if _, err := f.open(); err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.raw == nil {
		return nil, fs.ErrClosed // it was closed meanwhile
	}
	return f.raw.SyscallConn()
}

// Close closes the folder. The next use opens it again.
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

// At returns the place of a path that lies in the folder. The place need not exist.
func (f *Folder) At(path string) Place { return Place{folder: f, path: path} }

// Place is a folder below a Folder. Each use opens it anew.
type Place struct {
	folder *Folder
	path   string
}

// Path returns the path of the place.
func (p Place) Path() string { return p.path }

// Parent returns the place that contains this one.
func (p Place) Parent() Place { return Place{p.folder, filepath.Dir(p.path)} }

// In returns the place with that name in this one.
func (p Place) In(name string) Place { return Place{p.folder, filepath.Join(p.path, name)} }

// IsMissing says with one call that the place does not exist, which saves walking to it: most tasks have no sandbox. It
// follows links on the way, so a task that has made one there may hide its own folder from this check, but nobody
// else's.
func (p Place) IsMissing() bool {
	_, err := os.Lstat(p.path)
	return errors.Is(err, fs.ErrNotExist)
}

// way returns the path from the folder to the place.
func (p Place) way() (string, error) {
	way, err := filepath.Rel(p.folder.path, p.path)
	if err != nil || !filepath.IsLocal(way) {
		return "", &fs.PathError{Op: "open", Path: p.path, Err: errors.New("it is not beneath " + p.folder.path)}
	}
	return way, nil
}

// steps returns the names on that path.
func (p Place) steps() ([]string, error) {
	way, err := p.way()
	if err != nil || way == "." {
		return nil, err
	}
	return strings.Split(way, string(filepath.Separator)), nil
}

// Open opens the place. What is in it is then accessed with the rights of this process.
func (p Place) Open() (*os.Root, error) {
	if root, err := p.openAtOnce(); err == nil {
		return root, nil
	}
	return p.walk(func(here *os.Root, name string, _ bool) (*os.Root, error) { return p.enter(here, name) })
}

// walk opens one step after the other, or only the last one if the folder around it is there, as it mostly is.
func (p Place) walk(step func(here *os.Root, name string, last bool) (*os.Root, error)) (*os.Root, error) {
	steps, err := p.steps()
	if err != nil {
		return nil, err
	}
	here, err := p.Parent().openAtOnce()
	if err == nil && len(steps) > 0 {
		steps = steps[len(steps)-1:]
	} else {
		top, failed := p.folder.open()
		if failed != nil {
			return nil, failed
		}
		here, err = top.OpenRoot(".")
	}
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

// errNoFolder says that something else was found in the place of a folder.
var errNoFolder = errors.New("something else stands where a folder of the agent should be, perhaps a link that a task has made")

// enter opens a folder in a folder on the way to the place. It makes sure that what it opened is what the name stood for
// before, and not a link.
func (p Place) enter(here *os.Root, name string) (*os.Root, error) {
	info, err := here.Lstat(name)
	if err != nil {
		return nil, err
	}
	wrong := &fs.PathError{Op: "open", Path: name + " of " + p.path, Err: errNoFolder}
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

// OpenFile opens a file in the place with the rights of the place's owner. A link is followed as long as it stays in
// the place.
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

// Lstat returns the information about a file in the place.
func (p Place) Lstat(name string) (fs.FileInfo, error) {
	root, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Lstat(name)
}

// List returns the names in the place; nothing if it does not exist.
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

// AsOwner does something with the rights of the folder's owner.
func AsOwner(root *os.Root, work func() error) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner := entry.OwnerOf(info)
	owner.Groups = entry.GroupsOf(owner.UID)
	return entry.As(owner, work)
}

// Make opens the place, owned by the user, and makes it if it does not exist. Missing folders on the way get the owner
// of the folder that they are in. A place that belonged to another user is given to this one with everything in it.
func (p Place) Make(user entry.User, mode fs.FileMode) (*os.Root, error) {
	return p.walk(func(here *os.Root, name string, last bool) (*os.Root, error) {
		next, err := p.enter(here, name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && last:
			next, err = p.makeFolder(here, name, mode)
		case errors.Is(err, fs.ErrNotExist):
			next, err = p.makeFolder(here, name, Passage)
		}
		if err != nil || !last {
			return next, err
		}
		if err := p.settle(next, user, mode); err != nil {
			return nil, errors.Join(err, next.Close())
		}
		return next, nil
	})
}

// Ensure opens the place, and makes it if it does not exist, with the owner of the folder that it is in. A place that
// exists keeps its owner.
func (p Place) Ensure() (*os.Root, error) {
	return p.walk(func(here *os.Root, name string, last bool) (*os.Root, error) {
		next, err := p.enter(here, name)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return next, err
		case last:
			return p.makeFolder(here, name, Private)
		}
		return p.makeFolder(here, name, Passage)
	})
}

// makeFolder makes a folder with the owner of the folder that it is in.
func (p Place) makeFolder(here *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	err := AsOwner(here, func() error { return here.Mkdir(name, Private) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	next, err := p.enter(here, name)
	if err != nil {
		return nil, err
	}
	if err := AsOwner(next, func() error { return next.Chmod(".", mode) }); err != nil { // regardless of the umask
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// settle gives the place, which is open, to the user. It sets the mode, unless the folder belonged to another user.
func (p Place) settle(folder *os.Root, user entry.User, mode fs.FileMode) error {
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
		return fmt.Errorf("%s can't be given to user %d: %w", p.path, user.UID, err)
	}
	return nil
}
