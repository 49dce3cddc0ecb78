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

// treeName is how every agent's cell is named: by its data folder.
var treeName = regexp.MustCompile(`^tender-[0-9a-f]{12}$`)

func nameOfTree(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return "tender-" + hex.EncodeToString(sum[:6])
}

// hold makes the agent's cell and holds it for as long as the agent lives: one that nobody holds, and in which nothing
// runs, is of an agent that was killed and never came back, and goes.
func (t *Tree) hold() error {
	for range 100 { // whoever takes it for such a one does so once
		if err := t.Root.MakeParent(); err != nil {
			return err
		}
		locks, err := lock(t.Root, syscall.LOCK_SH)
		if err == nil && len(locks) == len(t.Root.folders()) && t.Root.Whole() {
			t.locks = locks
			return t.Root.Limit(Limits{CPUs: int64(runtime.NumCPU()) * 1000}) // its share beside what else runs here
		}
		unlock(locks)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return failed("flock", t.Root.String(), syscall.EBUSY)
}

// Restore makes the agent's cell again, with its limits, when somebody has removed it or a part of it, and tells whether
// it had to. The group around it is not ours to make: it has limits of which we do not know.
func (t *Tree) Restore() (had bool, err error) {
	if t.Root.Whole() {
		return false, nil
	}
	t.release() // what it holds is of the one that was removed
	return true, t.hold()
}

// Whole tells whether all of the cell is there.
func (c Cell) Whole() bool {
	for _, folder := range c.folders() {
		if _, err := os.Lstat(folder); err != nil {
			return false
		}
	}
	return true
}

// lock locks the folders of a cell that are there. Of an error nothing is locked.
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

// removeDead removes the cells of agents beside this one that were killed and whose folders nobody has started an agent on
// since. Nothing is killed: where something runs, its agent may come back.
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
			_ = other.Remove() // what has come to life meanwhile stays
			unlock(locks)
		}
	}
}
