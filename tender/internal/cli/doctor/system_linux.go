package doctor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// system looks at what the kernel says of its clock and of the limits of masters and agents that run here. Where none
// runs, the limits of this command count, which are those of whoever starts one by hand.
func system() []Finding {
	found := []Finding{clock()}
	daemons := 0
	if all, err := procfs.AllProcs(); err == nil {
		for _, process := range all {
			if what := daemonOf(process); what != "" {
				daemons++
				found = append(found, limits(process, what)...)
			}
		}
	}
	if self, err := procfs.Self(); err == nil && daemons == 0 {
		found = append(found, limits(self, machine)...)
	}
	return found
}

// clock asks the kernel whether somebody sets its clock.
func clock() Finding {
	f := Finding{State: Good, Of: machine, What: "clock", Is: "synchronized", Right: "synchronized"}
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		f.State, f.Is = Unknown, "the kernel does not say: "+err.Error()
	case state == unix.TIME_ERROR:
		f.State, f.Is = Warn, "not synchronized, as the kernel says"
	}
	return f.advise("run chrony or systemd-timesyncd; where the host of a container or a hypervisor does that, all is well")
}

// daemonOf returns what a process is if it is a master or an agent, such as "agent (pid 17)".
func daemonOf(process procfs.Proc) string {
	words, err := process.CmdLine()
	if err != nil || len(words) < 2 || !strings.HasSuffix(words[0], "tender") || words[1] != "master" && words[1] != "agent" {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", words[1], process.PID)
}

func limits(process procfs.Proc, of string) []Finding {
	l, err := process.Limits()
	if err != nil {
		return []Finding{{State: Unknown, Of: of, What: "limits", Is: err.Error(), Do: "run it as root"}}
	}
	files := l.OpenFiles
	if of == machine {
		var own unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &own) == nil {
			files = own.Max // a program in Go raises its own to what is allowed
		}
	}
	processes := min(l.Processes, number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max"))
	return []Finding{
		judgeLimit(of, "open files", files, filesLeast, "LimitNOFILE=65536 in its unit, or ulimit -n 65536 before it starts"),
		judgeLimit(of, "processes", processes, processesLeast, "TasksMax=infinity and LimitNPROC=infinity in its unit; ulimit -u; sysctl kernel.pid_max"),
	}
}

// number reads a file that holds one; what can't be read limits nothing.
func number(file string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 1 << 62
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 1 << 62
	}
	return n
}

// portOwner returns the name and the number of the process that listens at a port; "" if that can't be seen.
func portOwner(port uint64) string {
	inode := listenerInode(port)
	all, err := procfs.AllProcs()
	if inode == "" || err != nil {
		return ""
	}
	for _, process := range all {
		targets, _ := process.FileDescriptorTargets() // those of others can't be seen
		if slices.Contains(targets, inode) {
			name, _ := process.Comm() // it may have ended
			return fmt.Sprintf("%s (pid %d)", name, process.PID)
		}
	}
	return ""
}

// listenerInode returns the socket that listens at a port, as processes' folders of descriptors name it.
func listenerInode(port uint64) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // a system may lack either
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st ... inode; an address is IP:PORT in hex, and 0A is a listener.
			words := strings.Fields(line)
			if len(words) > 9 && words[3] == "0A" && strings.HasSuffix(words[1], fmt.Sprintf(":%04X", port)) {
				return "socket:[" + words[9] + "]"
			}
		}
	}
	return ""
}
