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

// anyHome is the home of spares that may serve any executor.
const anyHome = ""

// spares are sandboxes of ended tasks that were emptied instead of deleted. They wait in the trash until the same
// executor is given another task, or any executor if no process can have them open. To make a folder with two files and to delete it again is most of what a short task
// costs a file system: ext4 without a journal looks past all inodes that were deleted within the last minutes before it
// takes one.
//
// The zero value is ready, and may be used from any goroutine. The folders that it names may be gone: the trash can be
// emptied without its knowledge.
type spares struct {
	mutex  sync.Mutex
	byHome map[string][]string // the paths of spares, by their home: the folder that they were in and go back to, or anyHome
	count  int
}

// hasRoom reports whether one more spare with this home would be kept.
func (s *spares) hasRoom(home string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	most := sparesOfOneMax
	if home == anyHome {
		most = sparesOfAnyMax
	}
	return s.count < sparesMax && len(s.byHome[home]) < most
}

func (s *spares) put(home, path string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.byHome == nil {
		s.byHome = map[string][]string{}
	}
	s.byHome[home] = append(s.byHome[home], path)
	s.count++
}

// take removes and returns the spare with this home that was put last, whose inodes are the most likely to be cached,
// else one for any executor. It returns "" if there is none. from is its home.
func (s *spares) take(home string) (path, from string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.byHome[home]) == 0 {
		home = anyHome
	}
	here := s.byHome[home]
	if len(here) == 0 {
		return "", ""
	}
	last := len(here) - 1
	path = here[last]
	if s.byHome[home] = here[:last]; last == 0 {
		delete(s.byHome, home)
	}
	s.count--
	return path, home
}

// takeBelow removes and returns all spares whose home is in a folder.
func (s *spares) takeBelow(folder string) (paths []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for home, here := range s.byHome {
		if strings.HasPrefix(home, folder+string(filepath.Separator)) {
			paths = append(paths, here...)
			delete(s.byHome, home)
		}
	}
	s.count -= len(paths)
	return paths
}

// spare keeps the sandbox called name in an open folder for the next task there, if it is fit for that, and reports
// whether it did.
func (l *Launcher) spare(folder *os.File, home, name, trash string) bool {
	if !l.spares.hasRoom(home) || !emptySandbox(folder, name) {
		return false
	}
	to := filepath.Join(trash, "spare-"+rand.Text())
	if unix.Renameat(int(folder.Fd()), name, unix.AT_FDCWD, to) != nil {
		return false
	}
	l.spares.put(home, to)
	return true
}

// reuse makes a spare the sandbox of a task of the user, if there is one for its executor, and nothing at the task's path.
func (l *Launcher) reuse(task string, user entry.User) error {
	home := filepath.Dir(task)
	spare, from := l.spares.take(home)
	if spare == "" {
		return nil
	}
	if !l.at(task).IsMissing() { // the start is repeated, and the task has its sandbox
		l.spares.put(from, spare)
		return nil
	}
	folder, err := l.at(home).OpenFolder()
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
