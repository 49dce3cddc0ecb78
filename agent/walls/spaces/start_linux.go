package spaces

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Started is a helper that waits for its order.
type Started struct {
	// PID is the helper's, and that of its process group.
	PID           int
	order, answer int // descriptors
}

// Start starts a helper with the files of the program. It is where attr puts it from its first instruction on; beside
// says that it gets no walls of its own. The caller's thread has more to do than wait for it: see Finish.
func Start(attr *syscall.SysProcAttr, beside bool, files [3]uintptr, ends *Ends) (*Started, error) {
	var order, answers [2]int
	if err := unix.Pipe2(order[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(order[0])
	if err := unix.Pipe2(answers[:], unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("pipe2", err), unix.Close(order[1]))
	}
	defer unix.Close(answers[1])
	attr.Setpgid = true
	if !beside {
		attr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Helper}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1"}, // it has nothing to do, and few threads for that
		Files: []uintptr{files[0], files[1], files[2], uintptr(order[0]), uintptr(answers[1]), uintptr(ends.write)},
		Sys:   attr,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("namespaces can't be made: %w", err), unix.Close(order[1]), unix.Close(answers[0]))
	}
	return &Started{PID: pid, order: order[1], answer: answers[0]}, nil
}

// Finish has the helper do what the order says. Without an error the program was executed; the error is the kernel's
// where it has refused the program. A helper that fails ends by itself.
func (s *Started) Finish(order Order) error {
	in, out := os.NewFile(uintptr(s.order), "order"), os.NewFile(uintptr(s.answer), "answer")
	defer out.Close()
	order.Number = s.PID
	err := json.NewEncoder(in).Encode(order)
	err = errors.Join(err, in.Close())
	var said answer
	switch heard := json.NewDecoder(out).Decode(&said); {
	case said.Error != "":
		return errors.New(said.Error)
	case said.Errno != 0:
		return said.Errno
	case heard != nil:
		return errors.Join(errors.New("the helper that makes the task's namespaces has ended early"), err)
	}
	return nil
}

// Ends is where helpers tell how their programs have ended.
type Ends struct {
	read, write int
	mutex       sync.Mutex
	told        map[int]syscall.WaitStatus
}

// OpenEnds opens it.
func OpenEnds() (*Ends, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
	}
	return &Ends{read: ends[0], write: ends[1], told: map[int]syscall.WaitStatus{}}, nil
}

// Close closes it.
func (e *Ends) Close() error { return errors.Join(unix.Close(e.read), unix.Close(e.write)) }

// Of is how the program of a helper has ended that has itself ended like this and was waited for. One that was killed
// has told nothing, and its program was killed with it.
func (e *Ends) Of(helper int, own syscall.WaitStatus) syscall.WaitStatus {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var records [64 * recordBytes]byte
	for {
		n, err := unix.Read(e.read, records[:])
		if err == unix.EINTR {
			continue
		}
		for one := records[:max(n, 0)]; len(one) >= recordBytes; one = one[recordBytes:] {
			e.told[int(binary.LittleEndian.Uint64(one))] = syscall.WaitStatus(binary.LittleEndian.Uint32(one[8:]))
		}
		if n < len(records) {
			break
		}
	}
	status, is := e.told[helper]
	if !is {
		return own
	}
	delete(e.told, helper)
	return status
}

// Try says why tasks can't have namespaces here, or nil: it builds walls once.
func Try(view View) error {
	ends, err := OpenEnds()
	if err != nil {
		return err
	}
	defer ends.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	started, err := Start(&syscall.SysProcAttr{}, false, [3]uintptr{null.Fd(), null.Fd(), null.Fd()}, ends)
	if err != nil {
		return err
	}
	err = started.Finish(Order{View: view, User: User{UID: os.Geteuid(), GID: os.Getegid()}})
	for {
		if _, waited := syscall.Wait4(started.PID, nil, 0, nil); waited != syscall.EINTR {
			return err
		}
	}
}

// ProgramOf is the task's own first process, when the process is a helper; else the process itself.
func ProgramOf(pid int) int {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || string(name) != Helper+"\x00" {
		return pid
	}
	return oldestChild(pid)
}
