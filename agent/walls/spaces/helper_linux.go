package spaces

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/birth"
)

// spawnFD is the file descriptor of the socket on which the spawner receives orders. Those below it are the standard
// files of its parent.
const spawnFD = 3

// The files that are sent with each order: the three standard files of the program, then ends of three pipes.
const (
	orderFile  = 3 + iota // the order is read from it
	answerFile            // the answer is written to it
	endsFile              // the helper writes to it how its program has ended
	filesSent
)

// init makes this process the spawner when it was started as one. It does so before main, which prepares a whole agent.
// (runc starts its own init in the same way.)
func init() {
	if len(os.Args) == 1 && os.Args[0] == Helper {
		birth.Exit(spawn())
	}
}

// spawn is what the spawner does until its parent closes the socket. The first thread of the process stands for the
// process in /proc, so its namespaces are never changed.
func spawn() (code uintptr) {
	runtime.LockOSThread()
	unix.CloseOnExec(spawnFD)
	// Only processes with CAP_SYS_PTRACE can read the memory of this process, and of helpers, which are forks of it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 1
	}
	birth.OpenFiles()                   // later this thread would be in the walls of a task
	for taken := 0; taken < openedFD; { // what is opened from here on has a higher number than the descriptors of helpers
		var err error
		if taken, err = unix.FcntlInt(spawnFD, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return 1
		}
	}
	home, err := openHome()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &spawning{home: home, over: make(chan error, 1)}
	s.listening.Add(1)
	go s.serve()
	if err := <-s.over; err != nil {
		fmt.Fprintln(os.Stderr, "agents start this; there is nothing to do here:", err)
		return 2
	}
	return 0
}

// receiveFiles receives the files that are sent with an order. It returns nil when the parent has closed the socket.
func receiveFiles(socket int) ([]int, error) {
	var word [1]byte
	control := make([]byte, unix.CmsgSpace(4*filesSent))
	n, controls, _, _, err := unix.Recvmsg(socket, word[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("a message without files")
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err == nil && len(files) != filesSent {
		err = errors.New("a message with other files")
	}
	return files, err
}

// start reads an order, starts its helper, and answers how that went. Just before the answer it calls before, with
// whether the thread has returned to the spawner's own namespaces.
func (s *spawning) start(files []int, refused error, before func(home bool)) {
	in, out := os.NewFile(uintptr(files[orderFile]), "order"), os.NewFile(uintptr(files[answerFile]), "answer")
	defer out.Close()
	var order Order
	var said answer
	err := json.NewDecoder(in).Decode(&order)
	_ = in.Close()
	home := true
	if err == nil {
		err = refused
	}
	if err == nil {
		said, home, err = s.fulfil(&order, files)
	}
	for i, file := range files {
		if i != orderFile && i != answerFile {
			_ = unix.Close(file)
		}
	}
	if err != nil {
		said.Error = err.Error()
		_ = errors.As(err, &said.Cause) // there may be none
	}
	before(home)
	_ = json.NewEncoder(out).Encode(said) // an error says that the parent has ended
}

// fulfil builds those parts of the walls that one process can build for another, and starts a helper that does the
// rest. home says whether the thread has returned to the spawner's own namespaces.
func (s *spawning) fulfil(o *Order, files []int) (said answer, home bool, err error) {
	var report [2]int
	if report, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return said, true, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(report[0])
	s.memory.open()
	defer s.memory.shut()
	p := &plan{}
	defer p.room.close()
	opened := []int{report[1]}
	shut := func() {
		for _, file := range opened {
			_ = unix.Close(file)
		}
		opened = nil
	}
	defer shut()
	if err = p.allocate(); err != nil {
		return said, true, err
	}
	p.files, p.report, p.ends = [3]int(files), report[1], files[endsFile]
	p.stop, p.beside = syscall.Signal(o.Stop), o.Beside != 0
	p.born.Flags = unix.CLONE_PARENT | birth.ResetSignals
	if opened, err = p.openGroups(o, opened); err != nil {
		return said, true, err
	}
	if said.Errno, err = o.layDown(p, s.home.dev); err == nil && said.Errno == 0 {
		if err = p.keepSteps(); err == nil {
			said.PID, err = p.begin()
		}
	}
	home = o.Beside == 0 && s.home.comeBack() == nil
	shut() // also our copy of the helper's end of the report: reading ours then ends when the helper does
	if err != nil || said.Errno != 0 {
		return said, home, err
	}
	said.Errno, err = p.hear(report[0], said.PID)
	return said, home, err
}

// openGroups opens the files of the control groups that the helper is to enter, and adds them to opened, also on an
// error.
func (p *plan) openGroups(o *Order, opened []int) ([]int, error) {
	var joins []int
	for _, path := range o.Join {
		file, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return opened, astrayed(&os.PathError{Op: "open", Path: path, Err: err})
		}
		joins, opened = append(joins, file), append(opened, file)
	}
	if o.Born != "" {
		file, err := unix.Open(o.Born, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return opened, astrayed(&os.PathError{Op: "open", Path: o.Born, Err: err})
		}
		p.born.Flags, p.born.Group = p.born.Flags|unix.CLONE_INTO_CGROUP, uint64(file)
		opened = append(opened, file)
	}
	var err error
	p.joins, err = keep(&p.room, joins)
	return opened, err
}

func astrayed(err error) error { return fmt.Errorf("its control group can't be entered: %w", err) }

// layDown moves the calling thread into the walls, and prepares the steps that the helper takes there, and the program.
// refusal is the kernel's error when the program can't be found or executed.
func (o *Order) layDown(p *plan, dev sharedDev) (refusal syscall.Errno, err error) {
	if err := o.enter(p, dev); err != nil {
		return 0, err
	}
	p.steps = append(p.steps, rightsSteps(o.User.UID)...)
	if o.Score != "" {
		p.steps = append(p.steps, writeSteps("/proc/self/oom_score_adj", o.Score)...)
	}
	if o.Deny { // after all else that the helper has to do
		one, err := denyStep()
		if err != nil {
			return 0, err
		}
		p.steps = append(p.steps, one)
	}
	if o.Path == "" && !o.Find {
		return 0, nil
	}
	if refusal := o.find(); refusal != 0 {
		return refusal, nil
	}
	if err := p.keepProgram(o); errors.Is(err, syscall.EINVAL) {
		return syscall.EINVAL, nil
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}

// enter moves this thread into the namespaces of the task, which it makes unless the order is to start something beside
// a task that runs.
func (o *Order) enter(p *plan, shared sharedDev) error {
	if o.Beside != 0 {
		return join(o.Beside)
	}
	dev := shared.copyFor(o.View, o.User)
	if dev >= 0 {
		defer unix.Close(dev)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("namespaces can't be made: %w", err)
	}
	p.born.Flags |= unix.CLONE_NEWPID | unix.CLONE_NEWUTS
	p.steps = renewProc()
	return o.View.build(o.User, dev)
}

// hear tells the helper its process number, which is another one in its own PID namespace, and waits until the helper
// says how far it has come. refusal is the kernel's error when it has refused to execute the program.
func (p *plan) hear(report, pid int) (refusal syscall.Errno, err error) {
	said := binary.LittleEndian.AppendUint64(nil, uint64(pid))
	_, _ = unix.Write(report, said) // when this fails the helper has ended, and has said why
	for {
		n, err := unix.Read(report, said)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < len(said) {
			return 0, errEndedEarly
		}
		break
	}
	what, number := binary.NativeEndian.Uint32(said), syscall.Errno(binary.NativeEndian.Uint32(said[4:]))
	switch {
	case what == begun:
		return 0, nil
	case what == refused:
		return number, nil
	case what == astray:
		return 0, astrayed(number)
	case what == unborn:
		return 0, fmt.Errorf("no process can be made for it: %w", number)
	case int(what) < len(p.steps):
		return 0, fmt.Errorf("%s: %w", p.steps[what].what, number)
	}
	return 0, errEndedEarly
}

var errEndedEarly = errors.New("the helper that makes the task's namespaces has ended early")
