package process

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// How many spares are kept at most for one executor, for any, and in all. Each takes a folder and two empty files on the
// disk.
const (
	sparesOfOneMax = 256
	sparesOfAnyMax = 1024
	sparesMax      = 4096
)

// home is whom spares serve: the tasks of one executor with one user, or all.
type home struct {
	folder string // that they were in and go back to
	user   int
}

// anyHome is the home of spares that may serve any task.
var anyHome = home{}

// spares are sandboxes of ended tasks that were emptied instead of deleted. They wait in the trash until the same
// executor is given another task of their user, or any executor a task if no process can have them open. To make a folder with two files and to delete it again is most of what a short task
// costs a file system: ext4 without a journal looks past all inodes that were deleted within the last minutes before it
// takes one.
//
// The zero value is ready, and may be used from any goroutine. The folders that it names may be gone: the trash can be
// emptied without its knowledge.
type spares struct {
	mutex  sync.Mutex
	byHome map[home][]string // the paths of spares
	count  int
}

// hasRoom reports whether one more spare with this home would be kept.
func (s *spares) hasRoom(at home) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	most := sparesOfOneMax
	if at == anyHome {
		most = sparesOfAnyMax
	}
	return s.count < sparesMax && len(s.byHome[at]) < most
}

func (s *spares) put(at home, path string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.byHome == nil {
		s.byHome = map[home][]string{}
	}
	s.byHome[at] = append(s.byHome[at], path)
	s.count++
}

// take removes and returns the spare with this home that was put last, whose inodes are the most likely to be cached,
// else one for any task. It returns "" if there is none. from is its home.
func (s *spares) take(at home) (path string, from home) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.byHome[at]) == 0 {
		at = anyHome
	}
	here := s.byHome[at]
	if len(here) == 0 {
		return "", at
	}
	last := len(here) - 1
	path = here[last]
	if s.byHome[at] = here[:last]; last == 0 {
		delete(s.byHome, at)
	}
	s.count--
	return path, at
}

// takeBelow removes and returns all spares whose home is in a folder.
func (s *spares) takeBelow(folder string) (paths []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for at, here := range s.byHome {
		if strings.HasPrefix(at.folder, folder+string(filepath.Separator)) {
			paths = append(paths, here...)
			delete(s.byHome, at)
		}
	}
	s.count -= len(paths)
	return paths
}

// spare keeps the sandbox at path for the next task of its user there, or for any task if it is free, if it is fit for
// that, and reports whether it did. folder is the open folder that holds it.
func (l *Launcher) spare(folder *os.File, path, trash string, free bool) bool {
	name := filepath.Base(path)
	user, fit := emptySandbox(folder, name)
	at := home{filepath.Dir(path), user}
	if free {
		at = anyHome
	}
	if !fit || !l.spares.hasRoom(at) {
		return false
	}
	to := filepath.Join(trash, "spare-"+rand.Text())
	if unix.Renameat(int(folder.Fd()), name, unix.AT_FDCWD, to) != nil {
		return false
	}
	l.spares.put(at, to)
	return true
}

// reuse makes a spare the sandbox of a task of the user, if there is one for its executor, and nothing at the task's path.
func (l *Launcher) reuse(task string, user entry.User) error {
	around := filepath.Dir(task)
	spare, from := l.spares.take(home{around, user.UID})
	if spare == "" {
		return nil
	}
	if !l.at(task).IsMissing() { // the start is repeated, and the task has its sandbox
		l.spares.put(from, spare)
		return nil
	}
	folder, err := l.at(around).OpenFolder()
	if errors.Is(err, fs.ErrNotExist) { // the first task of its executor, with which its home is made
		l.spares.put(from, spare)
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	if from == anyHome {
		give(spare, user)
	}
	err = unix.Renameat(unix.AT_FDCWD, spare, int(folder.Fd()), filepath.Base(task))
	if err != nil && !errors.Is(err, unix.ENOENT) { // the trash may have been emptied
		return &os.LinkError{Op: "rename", Old: spare, New: task, Err: err}
	}
	return nil
}

// give gives a spare in the trash, where only the agent reaches it, to a user. What could not be given is seen when the
// folder is looked at in its new place.
func give(spare string, user entry.User) {
	for _, name := range []string{"stdout", "stderr", ".tmp", ""} {
		_ = unix.Lchown(filepath.Join(spare, name), user.UID, user.GID) // mostly there is no .tmp
	}
}
