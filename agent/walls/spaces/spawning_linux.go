package spaces

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawning is the spawner's work. Its threads listen to the same socket, so that each order wakes one of them; what a
// start waits for keeps no other one waiting.
type spawning struct {
	home      home
	memory    lean
	listening atomic.Int32 // threads that listen, or are about to
	over      chan error   // with why: nil, when nobody sends any more
}

// listeningMax is how many threads wait for orders; one more that has done its own ends.
const listeningMax = 4

// serve starts helpers, one after the other. The thread becomes a part of each one's walls, and comes home. One that does
// not ends with its goroutine.
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
		if s.listening.Add(-1) == 0 { // somebody always listens
			s.listening.Add(1)
			go s.serve()
		}
		stays := false
		s.start(files, refused, func(home bool) { // who sends the next order finds this thread counted
			stays = s.listening.Add(1) <= listeningMax && home && refused == nil
		})
		if !stays {
			return
		}
	}
}

// tell ends the process, if that was not done already.
func (s *spawning) tell(err error) {
	select {
	case s.over <- err:
	default:
	}
}

// home is where the spawner's threads belong.
type home struct {
	root   int    // a folder
	spaces [2]int // of mounts, and of what processes share
	dev    sharedDev
}

// openHome opens the calling thread's.
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

// comeBack brings the calling thread back from a task's walls.
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

// plan is a life that is being laid down.
type plan struct {
	*life
	room  room
	steps []step
}

// begun makes room for the life.
func (p *plan) begun() error {
	one, err := take[life](&p.room, 1)
	p.life = unsafe.SliceData(one)
	return err
}

// keepSteps lays the steps down.
func (p *plan) keepSteps() (err error) {
	calls, err := take[call](&p.room, len(p.steps))
	for i := 0; err == nil && i < len(p.steps); i++ {
		calls[i], err = p.room.keepCall(&p.steps[i])
	}
	p.calls = calls
	return err
}

// keepProgram lays down what the program is.
func (p *plan) keepProgram(o *Order) error {
	one, err := take[executed](&p.room, 1)
	if err != nil {
		return err
	}
	its := &one[0]
	*its = executed{become: os.Geteuid() == 0, uid: uintptr(o.User.UID), gid: uintptr(o.User.GID)}
	var wrong [5]error
	its.path, wrong[0] = p.room.keepText(o.Path)
	its.folder, wrong[1] = p.room.keepText(o.Folder)
	its.argv, wrong[2] = p.room.keepTexts(o.Argv)
	its.env, wrong[3] = p.room.keepTexts(o.Env)
	its.groups, wrong[4] = keep(&p.room, o.User.Groups)
	p.program = its
	return errors.Join(wrong[:]...)
}
