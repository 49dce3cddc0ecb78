package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// looksMax is how often a process is looked at that has no environment just then. Who does nothing but execute one program
// after the other has one at least at every third look.
const looksMax = 64

// Environ is the environment with which the program of a process was started: NAME=value, each ended by a zero byte. It is
// empty for a process that has ended, or that is another user's. known is false for one that has none at the moment, as
// between two programs (execve) and at its end.
func Environ(pid int) (environment []byte, known bool) {
	folder := "/proc/" + strconv.Itoa(pid)
	for range looksMax {
		environment, err := readAtOnce(folder + "/environ")
		if err != nil || len(environment) > 0 {
			return environment, true
		}
		if hasNone(folder) {
			return nil, true
		}
	}
	return nil, false
}

// readAtOnce reads a file of the kernel by one call: a second one could tell of another program.
func readAtOnce(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for size := 8 << 10; ; size *= 8 {
		text := make([]byte, size)
		n, err := unix.Pread(fd, text, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < size {
			return text[:max(n, 0)], err
		}
	}
}

// hasNone tells whether a process has no environment, and will have none before it starts another program: it has ended,
// or is a thread of the kernel, or was started without. The kernel says where a program's code begins when all else of it is
// in place: before that its environment may only seem empty.
func hasNone(folder string) bool {
	line, err := os.ReadFile(folder + "/stat")
	end := bytes.LastIndexByte(line, ')')
	if err != nil || end < 0 {
		return true
	}
	const stateAt, flagsAt, codeAt, fromAt, toAt, kernelThread = 3, 9, 26, 50, 51, 0x200000 // as in proc(5)
	fields := bytes.Fields(line[end+1:])
	if len(fields) <= toAt-stateAt {
		return true
	}
	state, code, from, to := fields[0][0], fields[codeAt-stateAt], fields[fromAt-stateAt], fields[toAt-stateAt]
	flags, err := strconv.ParseUint(string(fields[flagsAt-stateAt]), 10, 64)
	switch {
	case err != nil, state == 'Z', state == 'X', flags&kernelThread != 0:
		return true
	case string(code) == "0":
		return false // it is between two programs, or ends
	}
	return bytes.Equal(from, to)
}
