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
	path := filepath.Join(folder, name)
	descriptor, err := open(path, syscall.O_WRONLY)
	if err != nil {
		return failed("open", path, err)
	}
	defer syscall.Close(descriptor)
	for {
		_, err := syscall.Write(descriptor, []byte(word))
		switch err {
		case nil:
			return nil
		case syscall.EINTR:
		default:
			return failed("write "+word, path, err)
		}
	}
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
	path := filepath.Join(folder, name)
	descriptor, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return "", failed("open", path, err)
	}
	defer syscall.Close(descriptor)
	text := make([]byte, 0, 512)
	for {
		n, err := syscall.Read(descriptor, text[len(text):cap(text)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return "", failed("read", path, err)
		case n == 0:
			return strings.TrimSpace(string(text)), nil
		default:
			text = slices.Grow(text[:len(text)+n], 1)
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

// readTable reads a file whose lines hold a name and a number each. It leaves other lines out.
func readTable(folder, name string) (map[string]uint64, error) {
	text, err := read(folder, name)
	if err != nil {
		return nil, err
	}
	table := map[string]uint64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseUint(value, 10, 64); err == nil {
			table[key] = number
		}
	}
	return table, nil
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
