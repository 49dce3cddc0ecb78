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
)

// spawnFD is the spawner's descriptor on which it is sent what to start, beside the three that are its parent's.
const spawnFD = 3

// What is sent for each helper: the program's three files, and three pipes.
const (
	orderFile  = 3 + iota // what to do
	answerFile            // whether that was done
	endsFile              // how the program has ended
	filesSent
)

// init makes this process the spawner when it was started as one. It does so before main, which prepares a whole agent.
// (runc starts its own init in the same way.)
func init() {
	if len(os.Args) == 1 && os.Args[0] == Helper {
		exit(spawn())
	}
}

// spawn is the spawner's life, which ends with its parent's connection. The thread that it begins with stands for the
// process in /proc, so it is kept as it is.
func spawn() (code uintptr) {
	runtime.LockOSThread()
	unix.CloseOnExec(spawnFD)
	// Nobody looks into the memory of helpers, which are forks of this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 1
	}
	openFiles = findOpenFiles()
	for taken := 0; taken < openedFD; { // what is opened from here on lies above
		var err error
		if taken, err = unix.FcntlInt(spawnFD, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return 1
		}
	}
	for {
		files, err := receiveFiles(spawnFD)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "agents start this; there is nothing to do here:", err)
			return 2
		}
		if files == nil {
			return 0
		}
		go start(files)
	}
}

// receiveFiles receives what is sent for a helper. Nil: nobody sends any more.
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

// start starts a helper and says how it went. The thread ends with the goroutine: what it becomes a part of, it stays.
func start(files []int) {
	in, out := os.NewFile(uintptr(files[orderFile]), "order"), os.NewFile(uintptr(files[answerFile]), "answer")
	defer out.Close()
	var order Order
	var said answer
	err := json.NewDecoder(in).Decode(&order)
	_ = in.Close()
	if err == nil {
		runtime.LockOSThread()
		said, err = order.start(files)
	}
	for i, file := range files {
		if i != orderFile && i != answerFile {
			_ = unix.Close(file)
		}
	}
	if err != nil {
		said.Error = err.Error()
	}
	_ = json.NewEncoder(out).Encode(said) // who does not listen any more has ended
}

// start builds the walls, as far as that can be done for another process, and has a helper do the rest.
func (o *Order) start(files []int) (said answer, err error) {
	var report [2]int
	if report, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return said, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(report[0])
	l := &life{
		files: [3]int(files), report: report[1], ends: files[endsFile], stop: syscall.Signal(o.Stop), beside: o.Beside != 0,
		born: cloneArguments{flags: unix.CLONE_PARENT},
	}
	opened := []int{report[1]}
	for _, path := range o.Join {
		file, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return said, astrayed(&os.PathError{Op: "open", Path: path, Err: err})
		}
		l.joins, opened = append(l.joins, file), append(opened, file)
	}
	if o.Born != "" {
		file, err := unix.Open(o.Born, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return said, astrayed(&os.PathError{Op: "open", Path: o.Born, Err: err})
		}
		l.born.flags, l.born.cgroup = l.born.flags|unix.CLONE_INTO_CGROUP, uint64(file)
		opened = append(opened, file)
	}
	if said.Errno, err = o.layDown(l); err == nil && said.Errno == 0 {
		said.PID, err = l.begin()
	}
	for _, file := range opened {
		_ = unix.Close(file)
	}
	if err != nil || said.Errno != 0 {
		return said, err
	}
	said.Errno, err = l.hear(report[0], said.PID)
	return said, err
}

func astrayed(err error) error { return fmt.Errorf("its control group can't be entered: %w", err) }

// layDown enters the walls, and lays down what the helper does in them.
func (o *Order) layDown(l *life) (refusal syscall.Errno, err error) {
	if err := o.enter(l); err != nil {
		return 0, err
	}
	if err := giveUp(o.User.UID); err != nil {
		return 0, err
	}
	l.steps = append(l.steps, fileSteps()...)
	if o.Score != "" {
		l.steps = append(l.steps, writeSteps("/proc/self/oom_score_adj", o.Score)...)
	}
	if o.Deny { // after all else that the helper has to do
		one, err := denyStep()
		if err != nil {
			return 0, err
		}
		l.steps = append(l.steps, one)
	}
	if o.Path == "" && !o.Find {
		return 0, nil
	}
	if refusal := o.find(); refusal != 0 {
		return refusal, nil
	}
	p := &executed{become: os.Geteuid() == 0, uid: uintptr(o.User.UID), gid: uintptr(o.User.GID), groups: o.User.Groups}
	var wrong [4]error
	p.path, wrong[0] = unix.BytePtrFromString(o.Path)
	p.folder, wrong[1] = unix.BytePtrFromString(o.Folder)
	p.argv, wrong[2] = syscall.SlicePtrFromStrings(o.Argv)
	p.env, wrong[3] = syscall.SlicePtrFromStrings(o.Env)
	l.program = p
	if errors.Join(wrong[:]...) != nil {
		return syscall.EINVAL, nil // as the kernel says of a word with a zero byte
	}
	return 0, nil
}

// enter makes this thread a part of the task's walls.
func (o *Order) enter(l *life) error {
	if o.Beside != 0 {
		return join(o.Beside)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("namespaces can't be made: %w", err)
	}
	l.born.flags |= unix.CLONE_NEWPID | unix.CLONE_NEWUTS
	l.steps = renewProc()
	return o.View.build(o.User)
}

// hear tells a helper how it is called here, and hears how far it has come. refused is the kernel's word when it has
// refused the program itself.
func (l *life) hear(report, pid int) (refusal syscall.Errno, err error) {
	said := binary.LittleEndian.AppendUint64(nil, uint64(pid))
	_, _ = unix.Write(report, said) // one that has ended has said why
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
	case int(what) < len(l.steps):
		return 0, fmt.Errorf("%s: %w", l.steps[what].what, number)
	}
	return 0, errEndedEarly
}

var errEndedEarly = errors.New("the helper that makes the task's namespaces has ended early")

// rootKeeps are the rights that a task of root has: those over its own files and processes. None of them leads out of
// its walls, as mounting, devices, or reading files by their numbers would.
const rootKeeps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE

// giveUp drops all that no program of the task is ever to have.
func giveUp(uid int) error {
	keeps := uint64(0)
	if uid == 0 {
		keeps = rootKeeps
	}
	for capability := range 64 {
		if keeps&(1<<capability) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0)
		if err == unix.EINVAL {
			break // the kernel has no more of them
		}
		if err != nil {
			return fmt.Errorf("capability %d can't be dropped: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new rights can't be refused: %w", err)
	}
	return nil
}
