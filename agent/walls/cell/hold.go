package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
)

// treeName matches the names of agents' cells, as nameOfTree makes them.
var treeName = regexp.MustCompile(`^tender-[0-9a-f]{12}$`)

func nameOfTree(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return "tender-" + hex.EncodeToString(sum[:6])
}

// hold makes the agent's cell and keeps shared locks on its folders for as long as the agent lives. A cell without such
// locks in which nothing runs belongs to an agent that was killed and never came back; another agent removes it.
func (t *Tree) hold() error {
	for range 100 { // another agent that starts just now may remove the cell before it is locked, but only once
		if err := t.Root.MakeParent(); err != nil {
			return err
		}
		locks, err := lock(t.Root, syscall.LOCK_SH)
		if err == nil && len(locks) == len(t.Root.folders()) && t.Root.Whole() {
			t.locks = locks
			return t.Root.Limit(Limits{CPUs: int64(runtime.NumCPU()) * 1000}) // its share beside all else that runs here
		}
		unlock(locks)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return failed("flock", t.Root.String(), syscall.EBUSY)
}

// Restore makes the agent's cell again, with its limits, if somebody has removed it or a part of it, and reports
// whether that was so. It does not make the group around the cell: that group had limits which we do not know.
func (t *Tree) Restore() (had bool, err error) {
	if t.Root.Whole() {
		return false, nil
	}
	t.release() // its locks are on folders that were removed
	return true, t.hold()
}

// Whole reports whether all folders of the cell are there.
func (c Cell) Whole() bool {
	for _, folder := range c.folders() {
		if _, err := os.Lstat(folder); err != nil {
			return false
		}
	}
	return true
}

// lock locks those folders of a cell that are there, with flock(2). On an error it leaves nothing locked.
func lock(c Cell, how int) (locks []int, err error) {
	for _, folder := range c.folders() {
		descriptor, err := open(folder, syscall.O_RDONLY|syscall.O_DIRECTORY)
		if errors.Is(err, syscall.ENOENT) {
			continue
		}
		if err == nil {
			locks = append(locks, descriptor)
			err = syscall.Flock(descriptor, how)
		}
		if err != nil {
			unlock(locks)
			return nil, failed("flock", folder, err)
		}
	}
	return locks, nil
}

func unlock(locks []int) {
	for _, descriptor := range locks {
		_ = syscall.Close(descriptor) // nothing was written
	}
}

// removeDead removes the cells beside this one that belong to agents which were killed and not started again since.
// Nothing is killed: a cell in which something runs stays, as its agent may come back.
func (t *Tree) removeDead() {
	around := t.Root.move(filepath.Dir)
	for _, name := range around.Children() {
		other := around.Child(name)
		if !treeName.MatchString(name) || other == t.Root {
			continue
		}
		if populated, err := other.Populated(); populated || err != nil {
			continue
		}
		if locks, err := lock(other, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = other.Remove() // if something runs in it by now it stays
			unlock(locks)
		}
	}
}
