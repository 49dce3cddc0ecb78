// Package machine lets a test skip only where the kernel lacks what it needs, because a fault of ours looks the same.
package machine

import (
	"os"
	"syscall"
	"testing"
)

// GivesNamespaces skips the test if nobody can make the namespaces for tasks here. trying is the result of building
// walls with them: if that is an error although a plain program can have the same namespaces, the test fails.
func GivesNamespaces(t testing.TB, trying error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces for tasks")
	}
	if trying == nil {
		return
	}
	if refused := plain(); refused != nil {
		t.Skipf("no namespaces here: %v; a plain program: %v", trying, refused)
	}
	t.Fatalf("a plain program gets namespaces here, and a task does not: %v", trying)
}

// plain returns why a plain program can't have the namespaces of tasks, or nil.
func plain() error {
	const spaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID
	program, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: spaces}})
	if err != nil {
		return err
	}
	_, err = program.Wait()
	return err
}
