//go:build !linux

package birth

import "syscall"

// OpenFiles does nothing: package syscall knows the limit.
func OpenFiles() *syscall.Rlimit { return nil }

// Process starts the program as the leader of a process group of its own, and returns its number. There are no control
// groups here.
func (s Start) Process() (pid int, err error) {
	return syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{
		Dir: s.Folder, Env: s.Env, Files: s.Files[:], Sys: &syscall.SysProcAttr{Setpgid: true, Credential: s.User},
	})
}
