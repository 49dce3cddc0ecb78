//go:build !wholeforks

package spaces

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lean has the kernel leave Go's memory out of helpers. They use nothing of it but the stack that they are born on. To
// copy and release the tables of four megabytes for each of them, and to copy each page that Go writes to next, takes
// longer than all that a helper does.
//
// Memory that Go adds later is looked for only from time to time. Until then helpers get a copy of it.
type lean struct {
	mutex sync.Mutex
	forks int
	rooms int  // rooms that are open for a fork; Go's memory is not looked for meanwhile, as rooms look like it
	due   bool // Go's memory is to be looked for again
}

// isLean says that helpers are born without Go's memory.
const isLean = true

// leaveOutEvery is how many forks pass at most until Go's memory is looked for again.
const leaveOutEvery = 1024

// open says that a room is used from here on.
func (l *lean) open() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.due = l.due || l.forks&(l.forks-1) == 0 || l.forks%leaveOutEvery == 0
	l.forks++
	if l.due && l.rooms == 0 {
		leaveOut()
		l.due = false
	}
	l.rooms++
}

// shut says that a room is used no more.
func (l *lean) shut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rooms--
}

// leaveOut tells the kernel to leave all private memory of this process out of forks, except the variables of its
// program. If that can't be found out or done, forks get a copy.
func leaveOut() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	variables := "" // the end of the last mapping of a file; the program's variables without initial values follow right there
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return
		}
		from, to, _ := strings.Cut(fields[0], "-")
		if len(fields) > 5 {
			variables = to
			continue
		}
		if fields[1] != "rw-p" || from == variables {
			continue
		}
		start, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err == nil && err2 == nil {
			_, _, _ = syscall.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTFORK)
		}
	}
}

const pageBytes = 4096

// takeAlong tells the kernel to copy into forks those pages of Go's memory that a helper needs. These are the page of
// the stack that the caller is on, and the page of the thread's local storage, whose address the thread's FS register
// holds: compiled code reads it after calls of assembly, and the kernel uses it after a change of processors. The pages
// beside both are copied too: a helper's functions call one another right below, and have their arguments right above.
// Neither page moves between birth.BeforeFork and birth.AfterFork. They are not left out again at once, because the pages beside
// them need not be Go's; that waits until Go's memory is looked for again.
//
//go:noinline
//go:norace
//go:nosplit
func takeAlong() {
	const getFS = 0x1003 // ARCH_GET_FS
	var thread uintptr
	_, _, _ = syscall.RawSyscall(unix.SYS_ARCH_PRCTL, getFS, uintptr(unsafe.Pointer(&thread)), 0)
	takePages(thread)
	takePages(uintptr(unsafe.Pointer(&thread)))
}

//go:noinline
//go:norace
//go:nosplit
func takePages(around uintptr) {
	start := around&^(pageBytes-1) - pageBytes
	_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, start, 3*pageBytes, unix.MADV_DOFORK)
}
