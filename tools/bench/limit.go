package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// within is how much slower than a bare loop something may be that misses its aim: then the machine is the limit.
const within = 1.3

// someUser is nobody's number, as a dynamic user's is.
const someUser = 62_000

// walledSpawn runs /bin/true n times with so many workers, each time with what a task has by default: a control group with
// limits, a user, a folder and two files for its output. Each worker makes these once. So it does what the kernel has
// to for each task, and nothing else. It returns processes per second.
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
	var left atomic.Int64
	left.Store(int64(n))
	var workers sync.WaitGroup
	failed := make(chan error, of)
	began := time.Now()
	for i := range of {
		workers.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread, which moves between control groups, ends with its goroutine
			failed <- spawnWithin(all.Child(fmt.Sprint("worker-", i)), filepath.Join(folder, fmt.Sprint(i)), &left)
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

// spawnWithin runs /bin/true in a cell and a folder until nothing is left to run.
func spawnWithin(its cell.Cell, sandbox string, left *atomic.Int64) (err error) {
	if err := errors.Join(its.Make(), its.Limit(cell.Limits{CPUs: 10, Memory: 64 << 20}), os.Mkdir(sandbox, 0o700), os.Chown(sandbox, someUser, someUser)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, its.Remove()) }()
	home, err := its.Home()
	if err != nil {
		return err
	}
	for err == nil && left.Add(-1) >= 0 {
		err = spawnOnce(its, home, sandbox)
	}
	return err
}

// spawnOnce runs /bin/true in a cell, as its user, with the files of its output.
func spawnOnce(its, home cell.Cell, sandbox string) error {
	files := []*os.File{nil}
	for _, name := range []string{"stdout", "stderr"} {
		file, err := os.OpenFile(filepath.Join(sandbox, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		files = append(files, file)
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: someUser, Gid: someUser}}
	closing, err := its.Start(attr)
	if err != nil {
		return err
	}
	process, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Dir: sandbox, Files: files, Sys: attr})
	closing()
	if err = errors.Join(err, home.Return()); err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}
