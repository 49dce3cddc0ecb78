package spaces

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// rootKeeps are the capabilities that a task of root has: those over its own files and processes. None of them leads
// out of its walls, as the capabilities to mount, to make devices, or to open files by their handles would.
var rootKeeps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_NET_BIND_SERVICE,
}

// giveUp takes from the calling thread, and so from all programs that it starts, every capability but those in keeps
// for good, and lets none of them gain rights by what it executes (no_new_privs).
func giveUp(keeps []uintptr) error {
	for capability := range uintptr(64) {
		if slices.Contains(keeps, capability) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err == unix.EINVAL {
			break // the kernel has no more of them
		}
		if err != nil {
			return fmt.Errorf("capability %d can't be dropped: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new rights can't be refused: %w", err)
	}
	return nil
}

// rights returns the capabilities that a task of the user keeps.
func rights(uid int) []uintptr {
	if uid == 0 {
		return rootKeeps
	}
	return nil
}

// rightsSteps returns the steps that give up the capabilities that only tasks of root keep, unless the user is root.
// All other capabilities were given up by the thread that forks the helper.
func rightsSteps(uid int) (steps []step) {
	if uid == 0 {
		return nil
	}
	for _, capability := range rootKeeps {
		steps = append(steps, step{
			what: fmt.Sprintf("capability %d can't be dropped", capability),
			call: call{trap: unix.SYS_PRCTL, arguments: [arguments]uintptr{unix.PR_CAPBSET_DROP, capability}},
		})
	}
	return steps
}
