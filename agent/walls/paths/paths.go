// Package paths restricts programs to certain files, by rules of the kernel that need no root (Landlock). A process
// that adopts rules passes them on to all that it starts, and never loses them.
//
// A rule allows something beneath a path, and no rule can forbid what another one allows. So the agent's folder is kept
// from a program by allowing everything beside it, and beside each folder on the way to it. Those folders themselves
// can't be listed, and files that are made in them after a program's start are out of its reach.
//
// The kernel checks only when a file is opened, run, made, moved or deleted. Modes, owners and times of files can be
// seen and changed as without rules. The package never decides who has rules.
//
// The library for this, go-landlock, restricts all threads of a process at once, and where there is cgo takes over how
// threads are made. Here one thread restricts itself for the child that it starts, and ends; that takes three calls.
package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Ability is the rules' name in the list of an agent's abilities (see package walls).
const Ability = "landlock"

// Reach says which files a program may use. Files of the machine that are neither hidden nor its own it may read and
// run, as far as its user may.
type Reach struct {
	// Hidden is a folder in which the program may use nothing but its Own folders.
	Hidden string `json:"hidden"`
	// Own are folders in which the program may use everything.
	Own []string `json:"own,omitempty"`
}

// Rule lets a program read and run the file or folder at a path and all beneath it. With Change the program may change
// it too.
type Rule struct {
	Path   string
	Change bool
}

// shared are the folders that every user may write to, as far as modes allow.
var shared = []string{"/dev", "/proc", "/tmp", "/var/tmp"}

// besideMax is how many rules there may be for files and folders beside the hidden folder and beside those on the way
// to it. Each start of a program looks at all of these.
const besideMax = 2000

// Rules returns the rules that the kernel is told. A link gets no rule: access through it is judged by the rules for
// what it leads to.
func (r Reach) Rules() ([]Rule, error) {
	hidden, err := filepath.EvalSymlinks(r.Hidden)
	if err != nil {
		return nil, err
	}
	var rules []Rule
	var changed []string
	for _, folder := range shared {
		path, err := filepath.EvalSymlinks(folder)
		if err != nil {
			continue // this machine has no such folder
		}
		changed = append(changed, path)
		if !isWithin(hidden, path) {
			rules = append(rules, Rule{path, true})
		}
	}
	may := func(path string) bool {
		return slices.ContainsFunc(changed, func(folder string) bool { return isWithin(path, folder) })
	}
	for folder := filepath.Dir(hidden); ; folder = filepath.Dir(folder) {
		beside, err := listBeside(folder, hidden)
		if err != nil {
			return nil, err
		}
		for _, path := range beside {
			rules = append(rules, Rule{path, may(path)})
		}
		if len(rules) > besideMax {
			return nil, fmt.Errorf("more than %d files and folders lie beside %s and the folders on the way to it; give it a place with fewer", besideMax, hidden)
		}
		if folder == "/" {
			break
		}
	}
	for _, folder := range r.Own {
		rules = append(rules, Rule{folder, true})
	}
	return rules, nil
}

// listBeside returns the paths of all that is in a folder, except links, and except what the path leads through.
func listBeside(folder, path string) (beside []string, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil // nobody who runs as this user can list it; what is in there is out of reach with rules
	}
	for _, entry := range entries {
		one := filepath.Join(folder, entry.Name())
		if entry.Type()&fs.ModeSymlink == 0 && !isWithin(path, one) {
			beside = append(beside, one)
		}
	}
	return beside, err
}

// isWithin reports whether a path is the folder itself or beneath it.
func isWithin(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// The versions of Landlock that brought an ability, with the kernels that brought the versions.
const (
	versionRenames   = 2 // Linux 5.19
	versionTruncates = 3 // Linux 6.2
	versionSignals   = 6 // Linux 6.12
)

// lacks returns what a version can't prevent, a sentence each. The error says why a version is of no use at all.
func lacks(version int) (sentences []string, err error) {
	if version < versionRenames {
		return nil, errors.New("this kernel's Landlock refuses each rename from one folder to another: Linux 5.19 does not")
	}
	if version < versionTruncates {
		sentences = append(sentences, "tasks can empty files that they can't read, the agent's and each other's: Landlock keeps them from it since Linux 6.2")
	}
	if version < versionSignals {
		sentences = append(sentences, "tasks can send signals to the agent, and to those of others: Landlock keeps them from it since Linux 6.12")
	}
	return sentences, nil
}
