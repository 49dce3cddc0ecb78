package entry

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/proc"
)

// rlimitNumbers are the kernel's numbers of limits.
var rlimitNumbers = map[string]int{
	"core": unix.RLIMIT_CORE, "fsize": unix.RLIMIT_FSIZE, "memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

// Give sets the limits of a process that waits to begin.
func (r Rlimits) Give(pid int) error {
	for _, one := range r {
		if err := unix.Prlimit(pid, rlimitNumbers[one.Name], &unix.Rlimit{Cur: one.Soft, Max: one.Hard}, nil); err != nil {
			return fmt.Errorf("limit %v can't be given to it: %w", one, err)
		}
	}
	return nil
}

// checkAllowed says why this process can't give the limit, or nil.
func (r Rlimit) checkAllowed() error {
	var own unix.Rlimit
	if err := unix.Prlimit(0, rlimitNumbers[r.Name], nil, &own); err != nil {
		return err
	}
	if r.Hard <= own.Max {
		return nil
	}
	if !maySetLimits() {
		return fmt.Errorf("this agent's own is %s, and it may give no more; raise Limit%s= of its unit, or start it with the right to (CAP_SYS_RESOURCE)",
			showRlimit(own.Max), strings.ToUpper(r.Name))
	}
	if most, err := mostFiles(); err == nil && r.Name == "nofile" && r.Hard > most {
		return fmt.Errorf("this machine lets a process have no more than %d open files; raise fs.nr_open by sysctl", most)
	}
	return nil
}

// maySetLimits reports whether this process may give others higher limits than it has itself.
func maySetLimits() bool {
	status, err := proc.Status("self")
	if err != nil {
		return false
	}
	set, err := strconv.ParseUint(status["CapEff"], 16, 64)
	return err == nil && set&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// mostFiles returns the highest limit of open files that the kernel accepts at all.
func mostFiles() (uint64, error) {
	text, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
