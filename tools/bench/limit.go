package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// someUser is nobody's number, as a dynamic user's is.
const someUser = 62_000

// walledSpawn runs /bin/true n times with so many workers, each time with what a task has by default: a control group with
// limits that nothing else is in, a user, and a folder with two files for its output, which stays. Groups are proven
// empty and used again, and so are the oldest of as many folders as an agent keeps. So it does what the kernel has to for
// each task, and nothing else. It returns processes per second.
func walledSpawn(parent string, n, of int) (rate float64, err error) {
	folder, err := os.MkdirTemp(parent, "walls-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	tree := cell.Open(cell.Place{Folder: folder})
	defer func() { err = errors.Join(err, tree.Close()) }()
	all := tree.Executor("bench", "walls")
	if err := errors.Join(os.Chmod(folder, 0o711), all.MakeParent()); err != nil {
		return 0, err
	}
	each := make([]walledWorker, of)
	for i := range each {
		each[i] = walledWorker{all: all, number: i, folder: folder}
		if err := each[i].prepare(spawnsBefore / of); err != nil {
			return 0, err
		}
	}
	var workers sync.WaitGroup
	failed := make(chan error, of)
	began := time.Now()
	for _, w := range each {
		workers.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread, which moves between control groups, ends with its goroutine
			failed <- errors.Join(w.spawn(n/of), w.its.Remove())
		})
	}
	workers.Wait()
	took := time.Since(began).Seconds()
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	return float64(n) / took, errors.Join(err, all.Remove())
}

// walledWorker is one worker, with the group and the folder of its last task.
type walledWorker struct {
	all, its, home cell.Cell
	folder         string
	number, kept   int
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
	if w.home, err = w.its.Home(); err != nil {
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
	aside := w.all.Child(cell.SpareName(uint64(w.number))).Brief()
	for i := 0; i < n && err == nil; i++ {
		sandbox := w.sandbox(w.kept + i)
		if err = errors.Join(os.Rename(w.sandbox(i), sandbox), w.spawnOnce(sandbox)); err != nil {
			return err
		}
		ended, next := w.its, w.cell(i)
		if ended.CanSpare() {
			if ended, err = ended.SetAside(aside); err == nil && ended.IsAsNew() {
				w.its, err = next.TakeOver(ended)
				continue
			}
		}
		w.its, err = next, errors.Join(err, ended.Remove(), next.Make(), next.Limit(walledLimits))
	}
	return err
}

// spawnOnce runs /bin/true in the cell, as its user, with the files of its output.
func (w *walledWorker) spawnOnce(sandbox string) error {
	files := []*os.File{nil}
	for _, name := range []string{"stdout", "stderr"} {
		file, err := os.OpenFile(filepath.Join(sandbox, name), os.O_APPEND|os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		files = append(files, file)
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: someUser, Gid: someUser}}
	closing, err := w.its.Start(attr)
	if err != nil {
		return err
	}
	process, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Dir: sandbox, Files: files, Sys: attr})
	closing()
	if err = errors.Join(err, w.home.MoveThread()); err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}
