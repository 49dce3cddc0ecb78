package entry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rlimit is a limit of the kernel that each process has for itself, and passes on to what it starts (getrlimit(2)).
type Rlimit struct {
	// Name is the kernel's name, in small letters and without RLIMIT, such as nofile.
	Name string
	// Soft is the limit that counts; a process may raise its own up to Hard. Both may be Unlimited.
	Soft, Hard uint64
}

// Unlimited is the value of a limit that limits nothing.
const Unlimited = math.MaxUint64

// rlimitKinds are the limits that can be set, each with the lowest value with which executors still work, because
// limits hold for executors as well. Limits of address space and data are not among them, since Go programs reserve far
// more than they use; memory is limited by control groups.
var rlimitKinds = []struct {
	name  string
	least uint64
}{
	{"core", 0},        // bytes of a core dump
	{"fsize", 1 << 20}, // bytes of a file
	{"memlock", 0},     // bytes that can't be swapped out
	{"nofile", 256},    // open files
	{"nproc", 64},      // processes and threads of the user, of all its tasks on the machine together; root has none
	{"stack", 1 << 20}, // bytes of the first thread's stack
}

// Rlimits are the limits that executors and their tasks begin with. For limits that are not named they have the agent's
// own, with two exceptions: the soft limit of open files is 65536 where the agent's own is a million or more, and the
// soft limit of core dumps is 0.
type Rlimits []Rlimit

// ParseRlimits reads limits, each as NAME=SOFT or NAME=SOFT:HARD, in the kernel's units or "unlimited".
func ParseRlimits(words []string) (Rlimits, error) {
	var all Rlimits
	for _, word := range words {
		name, values, _ := strings.Cut(word, "=")
		softly, hardly, both := strings.Cut(values, ":")
		if !both {
			hardly = softly
		}
		soft, err := parseRlimit(softly)
		hard, err2 := parseRlimit(hardly)
		if name == "" || errors.Join(err, err2) != nil {
			return nil, fmt.Errorf("%q is no limit; write NAME=SOFT or NAME=SOFT:HARD, such as nofile=1024:4096 or core=unlimited", word)
		}
		all = append(all, Rlimit{name, soft, hard})
	}
	return all, nil
}

func parseRlimit(text string) (uint64, error) {
	if text == "unlimited" {
		return Unlimited, nil
	}
	return strconv.ParseUint(text, 10, 63)
}

// String returns the limit as ParseRlimits reads it.
func (r Rlimit) String() string {
	text := r.Name + "=" + showRlimit(r.Soft)
	if r.Hard != r.Soft {
		text += ":" + showRlimit(r.Hard)
	}
	return text
}

func showRlimit(value uint64) string {
	if value == Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(value, 10)
}

// Has reports whether a limit of that name is among them.
func (r Rlimits) Has(name string) bool {
	return slices.ContainsFunc(r, func(one Rlimit) bool { return one.Name == name })
}

// Check says which of the limits this process can't give to others, and why; nil if it can give them all.
func (r Rlimits) Check() error {
	var wrong []error
	for i, one := range r {
		err := one.check()
		if r[:i].Has(one.Name) {
			err = errors.New("it is named twice")
		}
		if err == nil {
			err = one.checkAllowed()
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("limit %v: %w", one, err))
		}
	}
	return errors.Join(wrong...)
}

func (r Rlimit) check() error {
	names := make([]string, len(rlimitKinds))
	for i, kind := range rlimitKinds {
		if names[i] = kind.name; kind.name != r.Name {
			continue
		}
		if r.Soft > r.Hard {
			return errors.New("the first number is what counts, and the second, which is smaller, the most that a process may raise it to")
		}
		if r.Soft < kind.least {
			return fmt.Errorf("executors live by it too, and need at least %d", kind.least)
		}
		return nil
	}
	return fmt.Errorf("there is none of that name; there are %s", strings.Join(names, ", "))
}
