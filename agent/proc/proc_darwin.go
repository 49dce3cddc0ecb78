package proc

import (
	"golang.org/x/sys/unix"
)

// TellsUsage says whether Ticks and Resident are told: here they are not.
const TellsUsage = false

// Read reads one process. What it uses is not told here.
func Read(pid int) (Stat, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Stat{}, err
	}
	if int(p.Proc.P_pid) != pid {
		return Stat{}, unix.ESRCH
	}
	return stat(p), nil
}

// All lists the processes of this machine.
func All() ([]Stat, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]Stat, len(list))
	for i := range list {
		all[i] = stat(&list[i])
	}
	return all, nil
}

const zombie = 5 // SZOMB of sys/proc.h

func stat(p *unix.KinfoProc) Stat {
	pid := int(p.Proc.P_pid)
	session, err := unix.Getsid(pid)
	if err != nil {
		session = 0
	}
	return Stat{
		PID:     pid,
		Parent:  int(p.Eproc.Ppid),
		Group:   int(p.Eproc.Pgid),
		Session: session,
		Dead:    p.Proc.P_stat == zombie,
		Start:   uint64(p.Proc.P_starttime.Sec)*1_000_000 + uint64(p.Proc.P_starttime.Usec),
	}
}

// Environ is not known here, and nobody need wait until it is.
func Environ(int) (environment []byte, known bool) { return nil, true }
