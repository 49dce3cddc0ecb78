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

// Spawner starts helpers. They are children of this process, so code that reaps all its children reaps helpers too.
// They are forked by a process of the spawner's own, another child, which is started with the first helper, and again
// should it have ended.
type Spawner struct {
	ends    *ends
	mutex   sync.Mutex
	socket  int // to that process; -1: there is none
	process int
	closed  bool
}

// OpenSpawner returns a spawner, which is usable until Close.
func OpenSpawner() (*Spawner, error) {
	ends, err := openEnds()
	if err != nil {
		return nil, err
	}
	return &Spawner{ends: ends, socket: -1}, nil
}

// Close lets the spawner's process end. Helpers live on, and Ended tells how their programs end until Forget is called.
func (s *Spawner) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hangUp()
	s.closed = true
}

// Forget closes what Ended needs, and the spawner if that was not done before. Ended must not be called any more.
func (s *Spawner) Forget() error {
	s.Close()
	return s.ends.close()
}

func (s *Spawner) hangUp() {
	if s.socket >= 0 {
		_ = unix.Close(s.socket)
		s.socket = -1
	}
}

// Start starts a helper that carries the order out. files are the program's standard input, output and error. pid is
// the number of the helper and of its process group. Without an error the program was executed. If the kernel has
// refused the program, the error is the kernel's. After an error the helper, if there is one, has ended or ends by
// itself.
func (s *Spawner) Start(order Order, files [3]uintptr) (pid int, err error) {
	var orders, answers [2]int
	if err := unix.Pipe2(orders[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	in := os.NewFile(uintptr(orders[1]), "order")
	defer in.Close()
	defer unix.Close(orders[0])
	if err := unix.Pipe2(answers[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	out := os.NewFile(uintptr(answers[0]), "answer")
	defer out.Close()
	err = s.send([]int{int(files[0]), int(files[1]), int(files[2]), orders[0], answers[1], s.ends.write})
	_ = unix.Close(answers[1])
	if err != nil {
		return 0, fmt.Errorf("namespaces can't be made: %w", err)
	}
	err = errors.Join(json.NewEncoder(in).Encode(order), in.Close())
	var said answer
	switch heard := json.NewDecoder(out).Decode(&said); {
	case said.Error != "":
		return said.PID, &failure{said.Error, said.Cause}
	case said.Errno != 0:
		return said.PID, said.Errno
	case heard != nil:
		return 0, errors.Join(errEndedEarly, err)
	}
	return said.PID, nil
}

// failure is an error of a helper, in its words.
type failure struct {
	text  string
	cause syscall.Errno // 0: the kernel was not the cause
}

func (f *failure) Error() string { return f.text }

// Unwrap returns the error of the kernel, if there was one.
func (f *failure) Unwrap() error {
	if f.cause == 0 {
		return nil
	}
	return f.cause
}

// send sends files to the spawner's process.
func (s *Spawner) send(files []int) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		if s.closed {
			return os.ErrClosed
		}
		started := s.socket < 0
		if started {
			if err := s.begin(); err != nil {
				return err
			}
		}
		err := unix.Sendmsg(s.socket, []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL)
		if err == nil {
			return nil
		}
		if err == unix.EINTR {
			continue
		}
		s.hangUp()
		if started {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// begin starts the spawner's process.
func (s *Spawner) begin() error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(ends[1])
	s.process, err = syscall.ForkExec("/proc/self/exe", []string{Helper}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GOGC=25"}, // it has little to do, and few threads for that
		Files: []uintptr{0, 1, 2, uintptr(ends[1])},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return errors.Join(err, unix.Close(ends[0]))
	}
	s.socket = ends[0]
	return nil
}

// Ended returns how the program of a helper has ended. It may be called once the helper itself was waited for. own is
// the helper's wait status, which Ended returns if the helper was killed before it could tell: its program was killed
// with it.
func (s *Spawner) Ended(helper int, own syscall.WaitStatus) syscall.WaitStatus {
	return s.ends.of(helper, own)
}

// ends is the pipe on which helpers tell how their programs have ended, and what was read from it.
type ends struct {
	read, write int
	mutex       sync.Mutex
	told        map[int]syscall.WaitStatus
}

// openEnds makes the pipe.
func openEnds() (*ends, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(pipe[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(pipe[0]), unix.Close(pipe[1]))
	}
	return &ends{read: pipe[0], write: pipe[1], told: map[int]syscall.WaitStatus{}}, nil
}

// close closes the pipe.
func (e *ends) close() error { return errors.Join(unix.Close(e.read), unix.Close(e.write)) }

// of returns the wait status that a helper has told of its program, and forgets it. If the helper has told none it
// returns own.
func (e *ends) of(helper int, own syscall.WaitStatus) syscall.WaitStatus {
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

// Try says why tasks can't have namespaces here, or nil. To find out it builds walls once.
func Try(view View) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	spawner, err := OpenSpawner()
	if err != nil {
		return err
	}
	helper, err := spawner.Start(Order{View: view, User: User{UID: os.Geteuid(), GID: os.Getegid()}}, [3]uintptr{null.Fd(), null.Fd(), null.Fd()})
	return errors.Join(err, spawner.Forget(), await(helper), await(spawner.process))
}

// await waits for a child's end.
func await(pid int) error {
	for pid != 0 {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return err
		}
	}
	return nil
}

// ProgramOf returns the first process of the task when pid is a helper, else pid itself.
func ProgramOf(pid int) int {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || string(name) != Helper+"\x00" {
		return pid
	}
	return oldestChild(pid)
}
