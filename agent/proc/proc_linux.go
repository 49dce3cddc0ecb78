package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

var pageBytes = uint64(os.Getpagesize())

// TellsUsage says whether Ticks and Resident are told: here they are.
const TellsUsage = true

// Read reads one process.
func Read(pid int) (Stat, error) {
	var buffer [1024]byte
	return read(pid, buffer[:])
}

func read(pid int, buffer []byte) (Stat, error) {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	n, err := file.Read(buffer)
	if err = errors.Join(err, file.Close()); err != nil {
		return Stat{}, err
	}
	return parse(buffer[:n])
}

// parse reads a line of /proc/PID/stat. The program's name stands in parentheses and
// may hold anything, parentheses too: what counts stands behind the last one.
func parse(line []byte) (Stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || end < open {
		return Stat{}, fmt.Errorf("%q is no line of /proc/PID/stat", line)
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 22 {
		return Stat{}, fmt.Errorf("%q is too short for a line of /proc/PID/stat", line)
	}
	number := func(field []byte) uint64 {
		n, _ := strconv.ParseInt(string(field), 10, 64)
		return uint64(max(n, 0))
	}
	at := func(i int) uint64 { return number(fields[i-3]) } // numbered as in proc(5)
	return Stat{
		PID:      int(number(bytes.TrimSpace(line[:open]))),
		Dead:     fields[0][0] == 'Z' || fields[0][0] == 'X',
		Parent:   int(at(4)),
		Group:    int(at(5)),
		Session:  int(at(6)),
		Ticks:    at(14) + at(15) + at(16) + at(17),
		Start:    at(22),
		Resident: at(24) * pageBytes,
	}, nil
}

// All lists the processes of this machine (of this container, inside one). One that
// ends while it is read is left out.
func All() ([]Stat, error) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(-1)
	if err = errors.Join(err, folder.Close()); err != nil {
		return nil, err
	}
	all := make([]Stat, 0, len(names))
	var buffer [1024]byte
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, err := read(pid, buffer[:]); err == nil {
			all = append(all, stat)
		}
	}
	return all, nil
}
