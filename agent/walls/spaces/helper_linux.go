package spaces

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The helper's descriptors, beside the three that are the program's.
const (
	orderFD  = 3 + iota // what to do
	answerFD            // whether that was done
	endsFD              // how the program has ended
)

// init makes this process the helper when it was started as one. It does so before main, because a helper is started for
// each task: all that a whole agent prepares takes six times as long. (runc starts its own init in the same way.) For that
// the package must be prepared early, which the linker does by the order of names, as soon as all imports of a package are:
// of what is late by that, such as path/filepath, nothing may be imported. GODEBUG=inittrace=1 tells.
func init() {
	if len(os.Args) == 1 && os.Args[0] == Helper {
		os.Exit(help())
	}
}

// passed are the signals that the program is told of.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT}

// help is the helper's life. What it returns is of use only where its end can't be told otherwise.
func help() int {
	runtime.LockOSThread() // rights and namespaces are a thread's, and the program is forked from this one
	for fd := orderFD; fd <= endsFD; fd++ {
		unix.CloseOnExec(fd)
	}
	_ = os.WriteFile("/proc/self/comm", []byte(Helper), 0) // for people; it was started as /proc/self/exe
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passed...) // the first process of a namespace is not sent what it does not ask for
	in, out := os.NewFile(orderFD, "order"), os.NewFile(answerFD, "answer")
	var order Order
	if err := json.NewDecoder(in).Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "agents start this; there is nothing to do here:", err)
		return 2
	}
	pid, said := order.begin()
	if err := json.NewEncoder(out).Encode(said); err != nil || pid == 0 {
		return 1
	}
	for fd := range endsFD { // the program's files are its own: they end with it
		_ = unix.Close(fd)
	}
	go order.pass(signals, pid)
	return order.tell(order.await(pid), pid)
}

// pass passes signals on, as long as the process lives. What is beside a task is only ever to be ended.
func (o *Order) pass(signals <-chan os.Signal, pid int) {
	for s := range signals {
		number := s.(syscall.Signal) //nolint:forcetypeassert // there is no other kind
		switch {
		case o.Beside != 0:
			number = syscall.SIGKILL
		case number == syscall.SIGTERM && o.Stop != 0:
			number = syscall.Signal(o.Stop)
		}
		_ = syscall.Kill(-pid, number)
	}
}

// begin builds the walls and starts the program in them.
func (o *Order) begin() (pid int, said answer) {
	if err := o.enter(); err != nil {
		return 0, answer{Error: err.Error()}
	}
	if o.Path == "" && !o.Find {
		return 0, answer{}
	}
	pid, err := o.launch()
	if refused := syscall.Errno(0); errors.As(err, &refused) {
		return 0, answer{Errno: refused}
	}
	if err != nil {
		return 0, answer{Error: err.Error()}
	}
	return pid, answer{}
}

// launch starts the program. What is wrong is the kernel's word about it.
func (o *Order) launch() (pid int, err error) {
	if o.Find {
		if err := o.find(); err != nil {
			return 0, err
		}
	}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: uint32(o.User.UID), Gid: uint32(o.User.GID), Groups: o.User.Groups}
	}
	return syscall.ForkExec(o.Path, o.Argv, &syscall.ProcAttr{Dir: o.Folder, Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: attributes})
}

// enter makes this thread a part of the task's walls.
func (o *Order) enter() error {
	if o.Score != "" {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(o.Score), 0) // without the right to it all stays as it is
	}
	var err error
	if o.Beside != 0 {
		err = join(o.Beside)
	} else {
		err = o.View.build(o.User)
	}
	if err != nil {
		return err
	}
	return giveUp(o.User.UID)
}

// await waits for the program, and for all that it orphans meanwhile.
func (o *Order) await(pid int) (status syscall.WaitStatus) {
	whom := -1
	if o.Beside != 0 {
		whom = pid
	}
	for {
		var one syscall.WaitStatus
		got, err := syscall.Wait4(whom, &one, 0, nil)
		if got == pid || err != nil && err != syscall.EINTR {
			return one
		}
	}
}

// recordBytes is the length of what tells of an end: a number, and a status as the kernel has it. A pipe takes it whole.
const recordBytes = 12

// tell tells how the program has ended. What it has left beside a task is killed; in walls of its own the kernel does it.
func (o *Order) tell(status syscall.WaitStatus, pid int) int {
	if o.Beside != 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	record := binary.LittleEndian.AppendUint64(nil, uint64(o.Number))
	record = binary.LittleEndian.AppendUint32(record, uint32(status))
	for {
		if _, err := syscall.Write(endsFD, record); err != syscall.EINTR {
			break
		}
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

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
