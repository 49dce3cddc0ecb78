package inside

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/protocol"
)

// namespaces lists the namespaces in the order in which they are joined: mounts last, because the others are named
// through them.
var namespaces = []string{"user", "cgroup", "ipc", "uts", "net", "pid", "mnt"}

// look finds out what the walls of a process are.
func look(target core.Process) (*Entry, error) {
	gone := errors.New("the task has no process now that a command could join; it may have ended just now")
	folder := "/proc/" + strconv.Itoa(target.PID)
	if target.PID <= 0 || !proc.Alive(target.PID, target.Start) {
		return nil, gone
	}
	standsForIt := target.PID
	if program := spaces.ProgramOf(target.PID); program != target.PID { // what stands for the task is its helper
		stat, err := proc.Read(program)
		if err != nil {
			return nil, gone
		}
		target = core.Process{PID: stat.PID, Start: stat.Start}
		folder = "/proc/" + strconv.Itoa(target.PID)
	}
	e := &Entry{Target: target}
	var err error
	e.Join, err = cell.JoinFiles(target.PID)
	err = errors.Join(err, e.readEnvironment(folder), e.readStatus(), e.readNamespaces(folder), e.readLimits(folder),
		e.readFilters(standsForIt))
	if !proc.Alive(target.PID, target.Start) { // what was read may be another process's
		return nil, gone
	}
	return e, err
}

// readEnvironment reads the environment that the process was started with. While the process becomes another program
// there is nothing to read, so an empty environment is believed only after some tries.
func (e *Entry) readEnvironment(folder string) error {
	const looks, pause = 20, 10 * time.Millisecond
	for look := 0; look < looks && len(e.Env) == 0; look++ {
		if look > 0 {
			time.Sleep(pause)
		}
		environ, err := os.ReadFile(folder + "/environ")
		if err != nil {
			return fmt.Errorf("the task's environment can't be read: %w", err)
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.IndexByte(variable, '=') > 0 {
				e.Env = append(e.Env, string(variable))
			}
		}
	}
	return nil
}

// readStatus reads the user and the rights of the process.
func (e *Entry) readStatus() error {
	status, err := proc.Status(strconv.Itoa(e.Target.PID))
	if err != nil {
		return err
	}
	var wrong []error
	number := func(text string, base int) uint64 {
		n, err := strconv.ParseUint(text, base, 64)
		wrong = append(wrong, err)
		return n
	}
	for group := range strings.FieldsSeq(status["Groups"]) {
		e.Groups = append(e.Groups, uint32(number(group, 10)))
	}
	if ids := strings.Fields(status["Uid"]); len(ids) == 4 {
		e.UID = int(number(ids[1], 10))
	}
	if ids := strings.Fields(status["Gid"]); len(ids) == 4 {
		e.GID = int(number(ids[1], 10))
	}
	e.Bounding, e.Permitted = number(status["CapBnd"], 16), number(status["CapPrm"], 16)
	e.NoNewPrivs = status["NoNewPrivs"] == "1"
	return errors.Join(wrong...)
}

// readFilters compares the system call filters of the process with our own. The process may have one more only if it is
// the agent's filter: then the task's helper, which runs no other program, has it too.
func (e *Entry) readFilters(standsForIt int) error {
	own, err := filtersOf("thread-self") // other threads may have filters for what they start
	has, err2 := filtersOf(strconv.Itoa(e.Target.PID))
	if err := errors.Join(err, err2); err != nil || has == own {
		return err
	}
	if standsForIt != e.Target.PID {
		if given, err := filtersOf(strconv.Itoa(standsForIt)); err == nil && has == given && has == own+1 {
			e.Deny = true
			return nil
		}
	}
	return errors.New("the task has a filter of system calls, which can't be given to another process")
}

// filtersOf returns how many system call filters a process has. Before Linux 5.9 it only tells 0 from more.
func filtersOf(process string) (int, error) {
	status, err := proc.Status(process)
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"Seccomp_filters", "Seccomp"} {
		if number, told := status[name]; told {
			return strconv.Atoi(number)
		}
	}
	return 0, nil // this kernel has no filters
}

// readNamespaces finds the namespaces that are not the agent's own, and whether the process has another root.
func (e *Entry) readNamespaces(folder string) error {
	for _, name := range namespaces {
		// A process is in the namespace of its children, unless it has made that one for them.
		theirs, err := os.Readlink(folder + "/ns/" + ofChildren(name))
		if errors.Is(err, os.ErrNotExist) {
			continue // this kernel has no such namespace, or nobody is in it yet
		}
		if err != nil {
			return err
		}
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return err
		}
		if theirs != own {
			e.Namespaces = append(e.Namespaces, name)
		}
	}
	var theirs, own syscall.Stat_t
	if err := errors.Join(syscall.Stat(folder+"/root", &theirs), syscall.Stat("/", &own)); err != nil {
		return err
	}
	e.OtherRoot = theirs.Dev != own.Dev || theirs.Ino != own.Ino
	return nil
}

func ofChildren(name string) string {
	if name == "pid" {
		return "pid_for_children"
	}
	return name
}

// readLimits reads the rlimits of the process: a line for each, in the order of their numbers, below a headline.
func (e *Entry) readLimits(folder string) error {
	text, err := os.ReadFile(folder + "/limits")
	if err != nil {
		return err
	}
	const name = 26 // the width of the first column
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines[1:] {
		var limit unix.Rlimit
		fields := strings.Fields(line[min(name, len(line)):])
		if len(fields) < 2 {
			return fmt.Errorf("the task's limits can't be read: %q", line)
		}
		var failed error
		limit.Cur, err = readLimit(fields[0])
		limit.Max, failed = readLimit(fields[1])
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		e.Limits = append(e.Limits, limit)
	}
	score, err := os.ReadFile(folder + "/oom_score_adj")
	e.Score = strings.TrimSpace(string(score))
	return err
}

func readLimit(text string) (uint64, error) {
	if text == "unlimited" {
		return unix.RLIM_INFINITY, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// prepare adds what the session and its command determine.
func (e *Entry) prepare(s *Session, command frames.Command) {
	e.Argv, e.TTY, e.Dir, e.Reach = command.Argv, command.TTY, s.Sandbox, s.Reach
	e.Env = slices.DeleteFunc(e.Env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "TERM":
			return command.TTY
		case protocol.TaskSandboxEnv:
			_, e.Dir, _ = strings.Cut(variable, "=") // where the task itself sees it
		}
		return false
	})
	if command.TTY && command.Term != "" && !strings.ContainsRune(command.Term, 0) {
		e.Env = append(e.Env, "TERM="+command.Term)
	}
}
