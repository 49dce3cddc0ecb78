package spaces

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/birth"
)

// spawning is the spawner's work: it starts a helper for each order. Several threads read orders from the same socket,
// so that each order wakes one of them, and a start that has to wait for the kernel does not hold up the next one.
type spawning struct {
	home      home
	memory    lean
	listening atomic.Int32 // threads that wait for an order, or are about to
	over      chan error   // why the process is to end; nil when its parent has closed the socket
}

// listeningMax is how many threads wait for orders at most. A thread that has carried out its order and finds so many
// of them ends.
const listeningMax = 4

// serve reads orders and starts a helper for each of them. To build the namespaces of a task its thread enters them,
// and returns to those of the spawner afterwards. A thread that can't return ends with its goroutine, so that nothing
// else is ever done inside the walls of a task.
func (s *spawning) serve() {
	runtime.LockOSThread()
	defer s.listening.Add(-1)
	refused := giveUp(rootKeeps)
	for {
		files, err := receiveFiles(spawnFD)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || files == nil {
			s.tell(err)
			return
		}
		if s.listening.Add(-1) == 0 { // there is always a thread that listens
			s.listening.Add(1)
			go s.serve()
		}
		stays := false
		s.start(files, refused, func(home bool) { // counted before the answer: whoever reads it may send the next order at once
			stays = s.listening.Add(1) <= listeningMax && home && refused == nil
		})
		if !stays {
			return
		}
	}
}

// tell lets the process end, with the error if there is one. Only the first call counts.
func (s *spawning) tell(err error) {
	select {
	case s.over <- err:
	default:
	}
}

// home is the root folder and the namespaces of the spawner itself, to which its threads return after each start.
type home struct {
	root   int    // the root folder, open
	spaces [2]int // the namespaces of mounts and of IPC, open
	dev    sharedDev
}

// openHome opens the root folder and the namespaces that the calling thread is in.
func openHome() (h home, err error) {
	const how = unix.O_RDONLY | unix.O_CLOEXEC
	if h.root, err = unix.Open("/", how|unix.O_DIRECTORY, 0); err != nil {
		return h, err
	}
	for i, name := range []string{"mnt", "ipc"} {
		path := "/proc/thread-self/ns/" + name
		if h.spaces[i], err = unix.Open(path, how, 0); err != nil {
			return h, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	h.dev = openSharedDev()
	return h, nil
}

// comeBack returns the calling thread from the namespaces of a task to those of the spawner.
func (h home) comeBack() error {
	for _, one := range h.spaces {
		if err := unix.Setns(one, 0); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(h.root); err != nil {
		return err
	}
	return unix.Chroot(".")
}

// plan prepares the life of a helper: it writes down, outside Go's memory, all that the helper will need.
type plan struct {
	*life
	room  room
	steps []step
}

// allocate takes room for the life itself.
func (p *plan) allocate() error {
	one, err := take[life](&p.room, 1)
	p.life = unsafe.SliceData(one)
	return err
}

// keepSteps copies the steps into the room.
func (p *plan) keepSteps() (err error) {
	calls, err := take[call](&p.room, len(p.steps))
	for i := 0; err == nil && i < len(p.steps); i++ {
		calls[i], err = p.room.keepCall(&p.steps[i])
	}
	p.calls = calls
	return err
}

// keepProgram copies into the room what the helper needs to execute the program.
func (p *plan) keepProgram(o *Order) error {
	one, err := take[birth.Program](&p.room, 1)
	if err != nil {
		return err
	}
	its := &one[0]
	*its = birth.Program{Become: os.Geteuid() == 0, UID: uintptr(o.User.UID), GID: uintptr(o.User.GID)}
	var wrong [6]error
	its.Path, wrong[0] = p.room.keepText(o.Path)
	its.Folder, wrong[1] = p.room.keepText(o.Folder)
	its.Argv, wrong[2] = p.room.keepTexts(o.Argv)
	its.Env, wrong[3] = p.room.keepTexts(o.Env)
	its.Groups, wrong[4] = keep(&p.room, o.User.Groups)
	if limit := birth.OpenFiles(); limit != nil {
		var kept []syscall.Rlimit
		kept, wrong[5] = keep(&p.room, []syscall.Rlimit{*limit})
		its.OpenFiles = unsafe.SliceData(kept)
	}
	p.program = its
	return errors.Join(wrong[:]...)
}
