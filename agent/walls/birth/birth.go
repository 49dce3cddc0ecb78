// Package birth starts programs. Between fork and exec the child itself enters its control groups and becomes its user, so
// that no thread of this process ever has to. A thread that moves between the groups of version 1 goes to the end of the
// processor's queue each time: where others want the processor too, a start in groups took ten times as long as a plain
// one for that alone.
package birth

import "syscall"

// Start says what to start. Argv, Env and Folder are as in syscall.ProcAttr.
type Start struct {
	Path      string
	Argv, Env []string
	Folder    string
	Files     [3]uintptr // standard input, output and error; each above these three
	User      *syscall.Credential
	Groups    Groups
}

// Groups are the control groups that a child enters. The zero value stands for none.
type Groups struct {
	// Entrance holds open files of groups of version 1, which move the thread that writes to them.
	Entrance []int
	// Folder is the open folder of a group of version 2, in which the kernel makes the child. 0: there is none.
	Folder int
}

// AstrayError says that a child could not enter its control groups. Nothing was executed.
type AstrayError struct{ Err error }

func (e *AstrayError) Error() string { return "its control group can't be entered: " + e.Err.Error() }
func (e *AstrayError) Unwrap() error { return e.Err }
