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
// What Go adds to its memory is found again from time to time; until then it is copied, as everything was.
type lean struct {
	mutex sync.Mutex
	forks int
	rooms int  // that are open, for forks: they look like Go's memory
	due   bool // Go's memory is to be looked for again
}

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

// leaveOut has all memory left out that this process has of its own, but for the variables of its program. What can't be
// found out or left out is copied.
func leaveOut() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	variables := "" // where those end that the program's file has values for: the others follow
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

// takeAlong has forks take along what a helper has of Go's memory: the page of the stack that the caller stands on, and
// that where the compiler and the kernel keep of each thread what they look at after calls of assembly and after a change
// of processors, as the thread's register says, with the pages beside them: a helper's functions call one another right
// below, and have their arguments right above. Nothing moves either between beforeFork and afterFork. They stay as they
// are until Go's memory is looked for again: what is beside them need not be Go's.
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
