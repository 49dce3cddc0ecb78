package cell

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// write writes a word into a file of the kernel. It uses system calls directly, because package os would register each
// such file with the runtime's poller.
func write(folder, name, word string) error {
	descriptor, err := openFile(folder, name, syscall.O_WRONLY)
	if err != nil {
		return err
	}
	defer syscall.Close(descriptor)
	if err := writeTo(descriptor, word); err != nil {
		return failed("write "+word, filepath.Join(folder, name), err)
	}
	return nil
}

// writeTo writes a word into an open file of the kernel.
func writeTo(descriptor int, word string) error {
	for {
		if _, err := syscall.Write(descriptor, []byte(word)); err != syscall.EINTR {
			return err
		}
	}
}

// openFile opens a file of the kernel.
func openFile(folder, name string, mode int) (int, error) {
	path := filepath.Join(folder, name)
	descriptor, err := open(path, mode)
	if err != nil {
		return -1, failed("open", path, err)
	}
	return descriptor, nil
}

func open(path string, mode int) (int, error) {
	for {
		descriptor, err := syscall.Open(path, mode|syscall.O_CLOEXEC, 0)
		if err != syscall.EINTR {
			return descriptor, err
		}
	}
}

// read reads a file of the kernel, and trims the space around its text. It uses system calls directly, as write does.
func read(folder, name string) (string, error) {
	descriptor, err := openFile(folder, name, syscall.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer syscall.Close(descriptor)
	text := make([]byte, 0, 512)
	for {
		n, err := syscall.Read(descriptor, text[len(text):cap(text)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return "", failed("read", filepath.Join(folder, name), err)
		case n == 0:
			return strings.TrimSpace(string(text)), nil
		default:
			text = slices.Grow(text[:len(text)+n], 1)
		}
	}
}

// readAgain reads a file of the kernel that stays open, whose text is short, and trims the space around that.
func readAgain(descriptor int) (string, error) {
	var text [256]byte
	for {
		n, err := syscall.Pread(descriptor, text[:], 0)
		if err != syscall.EINTR {
			return strings.TrimSpace(string(text[:max(n, 0)])), err
		}
	}
}

// readNumber reads a file that holds one number. For "max" it returns the largest number.
func readNumber(folder, name string) (uint64, error) {
	text, err := read(folder, name)
	if err != nil {
		return 0, err
	}
	if text == "max" {
		return 1<<64 - 1, nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, failed("read", filepath.Join(folder, name), err)
	}
	return number, nil
}

// numberIn returns the number that follows a name on one of the lines of a text; 0 if no line begins with the name.
func numberIn(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			number, _ := strconv.ParseUint(value, 10, 64) // the kernel writes nothing else
			return number
		}
	}
	return 0
}

// readProcesses returns the processes in the group of a folder; none if the folder can't be read.
func readProcesses(folder string) (pids []int) {
	text, err := read(folder, "cgroup.procs")
	if err != nil {
		return nil
	}
	for line := range strings.FieldsSeq(text) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 { // 0: a process that our PID namespace does not show
			pids = append(pids, pid)
		}
	}
	return pids
}
