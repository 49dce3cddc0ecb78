package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/birth"
	"github.com/tenderhq/tender/agent/walls/cell"
)

// someUser is nobody's number, as a dynamic user's is.
const someUser = 62_000

// walledSpawn runs /bin/true n times with so many workers, each time with what a task has by default: a control group with
// limits that nothing else is in, a user, and a folder with two files for its output, which stays. Groups are proven
// empty and used again, and so are the oldest of as many folders as an agent keeps. So it does what the kernel has to for
// each task, and nothing else. It returns processes per second.
func walledSpawn(parent string, n, of int) (rate float64, err error) {
	place, err := openWalls(parent)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	each := make([]*walledWorker, of)
	for i := range each {
		if each[i], err = place.worker(i, spawnsBefore/of); err != nil {
			return 0, err
		}
	}
	var workers sync.WaitGroup
	failed := make(chan error, of)
	began := time.Now()
	for _, w := range each {
		workers.Go(func() {
			failed <- errors.Join(w.spawn(n/of), w.close())
		})
	}
	workers.Wait()
	took := time.Since(began).Seconds()
	close(failed)
	for failure := range failed {
		err = errors.Join(err, failure)
	}
	return float64(n) / took, err
}

// walledPlace has the groups and folders of such tasks.
type walledPlace struct {
	folder string
	tree   cell.Tree
	all    cell.Cell
}

func openWalls(parent string) (*walledPlace, error) {
	folder, err := os.MkdirTemp(parent, "walls-")
	if err != nil {
		return nil, err
	}
	p := &walledPlace{folder: folder, tree: cell.Open(cell.Place{Folder: folder})}
	p.all = p.tree.Executor("bench", "walls")
	if err := errors.Join(os.Chmod(folder, 0o711), p.all.MakeParent()); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *walledPlace) close() error {
	return errors.Join(p.all.Remove(), p.tree.Close(), os.RemoveAll(p.folder))
}

// worker makes a worker with a group, and with the folders of so many tasks that have ended.
func (p *walledPlace) worker(number, ended int) (*walledWorker, error) {
	w := &walledWorker{all: p.all, number: number, folder: p.folder}
	return w, w.prepare(ended)
}

// walledWorker is one worker, with the group of its last task.
type walledWorker struct {
	all, its    cell.Cell
	grip        *cell.Grip // of its; nil: not opened yet
	folder      string
	number      int
	kept, begun int // folders of ended tasks, and tasks
}

var walledLimits = cell.Limits{CPUs: 10, Memory: 64 << 20}

func (w *walledWorker) cell(task int) cell.Cell {
	return w.all.Child(fmt.Sprint("task-", w.number, "-", task)).Brief()
}

func (w *walledWorker) sandbox(task int) string {
	return filepath.Join(w.folder, fmt.Sprint(w.number, "-", task))
}

// prepare makes a group, and the folders of tasks that have ended.
func (w *walledWorker) prepare(kept int) (err error) {
	w.its, w.kept = w.cell(-1), kept
	if err := errors.Join(w.its.Make(), w.its.Limit(walledLimits)); err != nil {
		return err
	}
	for i := 0; i < kept && err == nil; i++ {
		err = errors.Join(os.Mkdir(w.sandbox(i), 0o700), os.Chown(w.sandbox(i), someUser, someUser))
		for _, name := range []string{"stdout", "stderr"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(w.sandbox(i), name), nil, 0o600))
		}
	}
	return err
}

func (w *walledWorker) spawn(n int) (err error) {
	for i := 0; i < n && err == nil; i++ {
		err = w.run(func() {})
	}
	return err
}

// run runs one task, and calls running when its process has begun.
func (w *walledWorker) run(running func()) error {
	sandbox := w.sandbox(w.kept + w.begun)
	if err := os.Rename(w.sandbox(w.begun), sandbox); err != nil {
		return err
	}
	process, err := w.start(sandbox)
	if err != nil {
		return err
	}
	running()
	if _, err := process.Wait(); err != nil {
		return err
	}
	ended, next := w.its, w.cell(w.begun)
	w.begun++
	if ended.CanSpare() {
		ended, err = ended.SetAside(w.all.Child(cell.SpareName(uint64(w.number))).Brief())
		if err == nil && w.grip == nil {
			w.grip, err = ended.Grip()
		}
		if err == nil && w.grip.IsAsNew() {
			w.its, err = next.TakeOver(ended)
			return err
		}
	}
	w.grip.Close()
	w.its, w.grip = next, nil
	return errors.Join(err, ended.Remove(), next.Make(), next.Limit(walledLimits))
}

// close removes the worker's group.
func (w *walledWorker) close() error {
	w.grip.Close()
	return w.its.Remove()
}

// start starts /bin/true in the cell, as its user, with the files of its output.
func (w *walledWorker) start(sandbox string) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	files := [3]uintptr{null.Fd()}
	for i, name := range []string{"stdout", "stderr"} {
		file, err := os.OpenFile(filepath.Join(sandbox, name), os.O_APPEND|os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		files[1+i] = file.Fd()
	}
	groups, closing, err := w.its.Groups(w.grip.Entrance())
	if err != nil {
		return nil, err
	}
	defer closing()
	pid, err := birth.Start{
		Path: "/bin/true", Argv: []string{"true"}, Folder: sandbox, Files: files, Groups: groups,
		User: &syscall.Credential{Uid: someUser, Gid: someUser},
	}.Process()
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}
