package process

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Prepare makes the folders of a place, and fetches files into the task's, or into the executor's if there is no task.
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
	fetcher := l.Fetch
	fetcher.DiskMax = place.DiskMax
	if err := fetcher.Fetch(ctx, root, uris); err != nil {
		return &executor.FetchError{Err: err, Away: fetch.IsAway(err), TooLarge: errors.Is(err, fetch.ErrDisk)}
	}
	return nil
}

// makePlace makes the executor's folder, then the task's if there is one, each for its user. It returns the last of
// them.
func (l *Launcher) makePlace(place executor.Place) (beneath.Place, error) {
	user, err := l.userOf(place)
	if err != nil {
		return beneath.Place{}, err
	}
	owner, mode := user, beneath.Private
	if place.Builtin {
		owner, mode = entry.Self(), beneath.Passage // its tasks must pass through it to their own folders
	}
	l.making.RLock()
	defer l.making.RUnlock()
	if err := ensure(l.at(place.Sandbox), owner, mode); err != nil || place.Task == "" {
		return l.at(place.Sandbox), err
	}
	if err := l.reuse(place.Task, user); err != nil {
		return beneath.Place{}, err
	}
	return l.at(place.Task), ensure(l.at(place.Task), user, beneath.Private)
}

// ensure makes a folder that belongs to the user, unless it is there as it should be. Mostly it is: the executor's was
// made before, and the task's is a spare.
func ensure(place beneath.Place, user entry.User, mode fs.FileMode) error {
	if _, made := place.IsMade(user, mode); made {
		return nil
	}
	root, err := place.Make(user, mode)
	if err != nil {
		return err
	}
	return root.Close()
}

// ShowSecrets puts files into the folder for secrets of a task's folder, which only the owner of that folder can read.
func (l *Launcher) ShowSecrets(folder string, files map[string]protocol.Hidden) error {
	info, err := l.at(folder).Lstat(".")
	if err != nil {
		return err
	}
	return secrets.Show(l.at(folder), entry.OwnerOf(info), files)
}

// HideSecrets removes the files of ShowSecrets.
func (l *Launcher) HideSecrets(folder string) error { return secrets.Hide(l.at(folder)) }

// userOf returns the user as which the task of a place runs, or the executor if there is no task.
func (l *Launcher) userOf(place executor.Place) (entry.User, error) {
	switch {
	case place.Builtin && place.Task == "":
		return entry.Self(), nil
	case place.User != "":
		user, err := l.Users.Find(place.User)
		if err != nil {
			err = &executor.CommandError{Err: err}
		}
		return user, err
	case l.Users.Default == entry.Dynamic:
		return l.ownOf(place)
	}
	return l.Users.Find(l.Users.Default)
}

// ownOf returns the user that the place's framework has for itself or, if the task has an owner, for that owner.
func (l *Launcher) ownOf(place executor.Place) (entry.User, error) {
	framework := filepath.Dir(place.Sandbox)
	made := []string{framework}
	if place.Owner != "" {
		made = append(made, place.Sandbox, filepath.Join(place.Sandbox, entry.Owners), filepath.Join(place.Sandbox, entry.Owners, place.Owner))
	}
	modeOf := func(i int) fs.FileMode {
		if i > 1 {
			return beneath.Private // who has which number is nobody's business
		}
		return beneath.Passage
	}
	if group, is := l.at(made[len(made)-1]).IsMade(entry.Self(), modeOf(len(made)-1)); is && entry.IsDynamic(group) {
		return entry.User{UID: group, GID: group}, nil // as for all tasks but the first
	}
	l.making.Lock()
	defer l.making.Unlock()
	for i, path := range made {
		root, err := l.at(path).Make(entry.Self(), modeOf(i))
		if err != nil {
			return entry.User{}, err
		}
		if err := root.Close(); err != nil {
			return entry.User{}, err
		}
	}
	all, err := l.at(filepath.Dir(framework)).Open()
	if err != nil {
		return entry.User{}, err
	}
	defer all.Close()
	marked, err := filepath.Rel(filepath.Dir(framework), made[len(made)-1])
	if err != nil {
		return entry.User{}, err
	}
	return entry.OwnOf(all, marked)
}

// credential returns what an executor's child needs to run as the owner of its folder. Nil: it runs as this process.
func (l *Launcher) credential(place executor.Place) (*syscall.Credential, error) {
	info, err := l.at(place.Sandbox).Lstat(".")
	if err != nil {
		return nil, err
	}
	return entry.Credential(entry.OwnerOf(info)), nil
}

// at returns the place of a path, as seen from l.Below.
func (l *Launcher) at(path string) beneath.Place {
	if l.Below == nil {
		return everything.At(path)
	}
	return l.Below.At(path)
}

// everything is the root of the file system.
var everything = beneath.New("/")
