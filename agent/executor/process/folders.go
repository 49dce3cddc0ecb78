package process

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Prepare makes the folders of a place and fetches files into the last of them.
func (l *Launcher) Prepare(ctx context.Context, place executor.Place, uris []api.URI) error {
	made, err := l.makePlace(place)
	if err != nil || len(uris) == 0 {
		return err
	}
	root, err := made.Open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := l.Fetch.Fetch(ctx, root, uris); err != nil {
		return &executor.FetchError{Err: err}
	}
	return nil
}

// makePlace makes the executor's folder as its user's, then the task's, and tells which is the last of them.
func (l *Launcher) makePlace(place executor.Place) (beneath.Place, error) {
	user, err := l.userOf(place)
	if err != nil {
		return beneath.Place{}, err
	}
	owner, mode := user, beneath.Private
	if place.Builtin {
		owner, mode = entry.Self(), beneath.Passage // its tasks pass through it to what is theirs
	}
	l.making.RLock()
	defer l.making.RUnlock()
	if err := ensure(l.at(place.Sandbox), owner, mode); err != nil || place.Task == "" {
		return l.at(place.Sandbox), err
	}
	if err := l.reuse(place.Task); err != nil {
		return beneath.Place{}, err
	}
	return l.at(place.Task), ensure(l.at(place.Task), user, beneath.Private)
}

// ensure makes a folder as its user's, unless it is so already: mostly the executor's is there, and a task has a spare one.
func ensure(place beneath.Place, user entry.User, mode fs.FileMode) error {
	if place.IsMade(user, mode) {
		return nil
	}
	root, err := place.Make(user, mode)
	if err != nil {
		return err
	}
	return root.Close()
}

// ShowSecrets puts files into the folder of secrets of a task's, for whose that is to read.
func (l *Launcher) ShowSecrets(folder string, files map[string]protocol.Hidden) error {
	info, err := l.at(folder).Lstat(".")
	if err != nil {
		return err
	}
	return secrets.Show(l.at(folder), entry.OwnerOf(info), files)
}

// HideSecrets takes them away.
func (l *Launcher) HideSecrets(folder string) error { return secrets.Hide(l.at(folder)) }

// userOf is as whom a task runs, or an executor of a framework.
func (l *Launcher) userOf(place executor.Place) (entry.User, error) {
	switch {
	case place.Builtin && place.Task == "":
		return entry.Self(), nil
	case place.User != "":
		return l.Users.Find(place.User)
	case l.Users.Default == entry.Dynamic:
		return l.ownOf(filepath.Dir(place.Sandbox))
	}
	return l.Users.Find(l.Users.Default)
}

// ownOf is the user that a framework has for itself.
func (l *Launcher) ownOf(framework string) (entry.User, error) {
	l.making.Lock()
	defer l.making.Unlock()
	root, err := l.at(framework).Make(entry.Self(), beneath.Passage)
	if err != nil {
		return entry.User{}, err
	}
	if err := root.Close(); err != nil {
		return entry.User{}, err
	}
	all, err := l.at(filepath.Dir(framework)).Open()
	if err != nil {
		return entry.User{}, err
	}
	defer all.Close()
	return entry.OwnOf(all, api.FrameworkID(filepath.Base(framework)))
}

// credential is as whom the child of an executor runs: whose its folder is. Nil: as this process.
func (l *Launcher) credential(place executor.Place) (*syscall.Credential, error) {
	info, err := l.at(place.Sandbox).Lstat(".")
	if err != nil {
		return nil, err
	}
	return entry.Credential(entry.OwnerOf(info)), nil
}

// at is where a path is.
func (l *Launcher) at(path string) beneath.Place {
	if l.Below == nil {
		return everything.At(path)
	}
	return l.Below.At(path)
}

// everything is the root of the file system.
var everything = beneath.New("/")
