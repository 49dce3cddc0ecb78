package entry

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tenderhq/tender/api"
)

// Dynamic stands for a user of its own for each framework, and for each owner of its tasks: one of DynamicCount numbers from DynamicFirst on, without a
// name. By the conventions of Linux distributions these numbers are free: they are above those of accounts and
// services, and below those of containers.
const (
	Dynamic      = "dynamic"
	DynamicFirst = 70_000
	DynamicCount = 10_000
)

// Unprivileged returns the user as which an agent of root starts tasks by default. That is Dynamic where the machine
// has these numbers, which many containers do not; else the user "nobody"; and "" where that user can't be used either.
func Unprivileged() string {
	if usable(User{UID: DynamicFirst, GID: DynamicFirst}) == nil && usable(User{UID: DynamicFirst + DynamicCount - 1}) == nil {
		return Dynamic
	}
	if nobody, err := lookup("nobody"); err == nil && usable(nobody) == nil {
		return "nobody"
	}
	return ""
}

// usable returns why the kernel does not let this process act as a user, or nil.
func usable(user User) error { return As(user, func() error { return nil }) }

// Users say as which users tasks run. Whether a task may ask for a user is decided elsewhere; but Users let no task
// become root by another name of root.
type Users struct {
	// Default is the user of commands that ask for none: a name, or Dynamic. "": the user of this process.
	Default string
	// Allowed are the names of the users that commands may ask for; "*" stands for all but root.
	Allowed []string
}

// Check returns why tasks can't run as these users on this machine, or nil. reached is a folder that tasks must be able
// to get to.
func (u Users) Check(reached string) error {
	if os.Geteuid() != 0 && !u.onlySelf() {
		return fmt.Errorf("only an agent of root starts tasks as other users, and this one runs as user %d; leave out --task-user and --task-users, "+
			"or run it as root", os.Geteuid())
	}
	if u.Default == "" || os.Geteuid() != 0 {
		return nil
	}
	one := User{UID: DynamicFirst, GID: DynamicFirst}
	if u.Default != Dynamic {
		found, err := u.Find(u.Default)
		if err != nil {
			return err
		}
		one = found
	}
	err := As(one, func() error {
		_, err := os.Lstat(reached)
		return err
	})
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("tasks run as %s, which can't get to %s: allow others to pass through each folder on the way (chmod o+x), "+
			"choose another data folder, or say --task-user root", u.Default, reached)
	}
	return err
}

// onlySelf reports whether all tasks run as the user of this process.
func (u Users) onlySelf() bool {
	if u.Default == "" {
		return len(u.Allowed) == 0
	}
	found, err := lookup(u.Default)
	return err == nil && found.IsSelf() && len(u.Allowed) == 0
}

// Abilities returns the abilities by which users keep tasks apart: "users" where tasks run as other users than the
// agent, and also "frameworks" where each framework has a user of its own.
func (u Users) Abilities() []string {
	switch {
	case os.Geteuid() != 0 || u.Default == "":
		return nil
	case u.Default == Dynamic:
		return []string{"frameworks", "users"}
	}
	if found, err := u.Find(u.Default); err != nil || found.IsRoot() {
		return nil
	}
	return []string{"users"}
}

// Lack returns a sentence for people that says what tasks can do to the agent; "" where they run as other users.
func (u Users) Lack() string {
	switch {
	case len(u.Abilities()) > 0:
		return ""
	case os.Geteuid() == 0:
		return "tasks run as root: whoever may launch one owns this machine; name another user by --task-user"
	}
	return "tasks run as the agent's own user, so they reach each other's files and the agent's; only an agent of root starts them as others, " +
		"and one that is not keeps them from these files with --landlock"
}

// Find looks a user up by name. It takes no numbers, as 0 would be root. "" is the user of this process.
func (u Users) Find(name string) (User, error) {
	if name == "" {
		return Self(), nil
	}
	found, err := lookup(name)
	if err != nil {
		return User{}, err
	}
	if found.UID == 0 && name != u.Default && !slices.Contains(u.Allowed, name) {
		return User{}, fmt.Errorf("user %s is root by another name; it must be allowed by just that name", name)
	}
	return found, nil
}

func lookup(name string) (User, error) {
	account, err := user.Lookup(name)
	if err != nil {
		return User{}, fmt.Errorf("this machine has no user %s; add the user, or ask for another", name)
	}
	uid, err := strconv.Atoi(account.Uid)
	gid, err2 := strconv.Atoi(account.Gid)
	if err := errors.Join(err, err2); err != nil {
		return User{}, fmt.Errorf("user %s: %w", name, err)
	}
	return User{UID: uid, GID: gid, Groups: GroupsOf(uid)}, nil
}

// account is what the machine's own list says of a user; nothing of one without a name.
type account struct {
	name   string
	groups []int
}

// accounts remembers users, by number, for as long as the process lives.
var accounts sync.Map

func accountOf(uid int) account {
	if known, is := accounts.Load(uid); is {
		return known.(account)
	}
	var found account
	if listed, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		found.name = listed.Username
		ids, err := listed.GroupIds()
		for _, id := range ids {
			if group, wrong := strconv.Atoi(id); err == nil && wrong == nil {
				found.groups = append(found.groups, group)
			}
		}
	}
	accounts.Store(uid, found)
	return found
}

// GroupsOf returns the groups of a user by the machine's own list; none for a user without a name.
func GroupsOf(uid int) []int { return accountOf(uid).groups }

// Session returns the variables that programs expect to find, as cron, sshd and containers set them: for a program that
// the user runs in the sandbox. (R33)
//   - HOME is the sandbox: the home of an account may be hidden, read-only or missing, and others' programs write there.
//   - USER and LOGNAME are the name of the account, or its number if it has no name.
//   - SHELL is /bin/sh, as for cron: the shell of a service's account often only refuses to run.
//   - TMPDIR is /tmp, which belongs to the task where it has namespaces. A folder in the sandbox would be too long for
//     the path of a socket, which many programs make there.
func Session(user User, sandbox string) map[string]string {
	name := cmp.Or(accountOf(user.UID).name, strconv.Itoa(user.UID))
	return map[string]string{
		"HOME": sandbox, "PWD": sandbox, "USER": name, "LOGNAME": name, "SHELL": "/bin/sh", "TMPDIR": "/tmp",
	}
}

// emptyFrom is how many folders of frameworks there may be: with more, the empty ones are removed before a number is
// chosen, which frees their numbers.
const emptyFrom = DynamicCount / 4

// Owners is the name of a folder in the folder of a framework's built-in executor. In it each owner of tasks of that
// framework has an empty folder, which goes no sooner than the sandboxes beside it.
const Owners = "owners"

// OwnOf returns the user that belongs to a folder among those of frameworks: to the folder of a framework itself, or to
// that of an owner of its tasks. The number is the group of the folder, so it stays the same as long as the folder is
// there, also after a restart. A folder without a number is given one that no other such folder has. Calls must not run
// at the same time, and nothing may be made in the folders meanwhile.
func OwnOf(frameworks *os.Root, name string) (User, error) {
	info, err := frameworks.Lstat(name)
	if err != nil {
		return User{}, err
	}
	if number := OwnerOf(info).GID; IsDynamic(number) {
		return User{UID: number, GID: number}, nil
	}
	framework, _, _ := strings.Cut(name, string(filepath.Separator))
	taken, err := numbersTaken(frameworks, framework)
	if err != nil {
		return User{}, err
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // it never fails
	for i := range DynamicCount {
		number := DynamicFirst + (int(sum.Sum32()%DynamicCount)+i)%DynamicCount
		if taken[number] {
			continue
		}
		if err := frameworks.Lchown(name, -1, number); err != nil {
			return User{}, fmt.Errorf("user %d can't be given to %s: %w", number, name, err)
		}
		return User{UID: number, GID: number}, nil
	}
	return User{}, fmt.Errorf("all %d users for frameworks and owners are taken; let old sandboxes go sooner (--sandbox-age, --sandboxes-max), "+
		"or name one user for all by --task-user", DynamicCount)
}

// IsDynamic reports whether a number is one of those that Dynamic stands for.
func IsDynamic(number int) bool { return number >= DynamicFirst && number < DynamicFirst+DynamicCount }

// numbersTaken returns the numbers of all frameworks' folders and of their owners'. Where there are more than emptyFrom
// folders of frameworks it removes the empty ones, except beside.
func numbersTaken(frameworks *os.Root, beside string) (map[int]bool, error) {
	names, err := namesIn(frameworks, ".")
	if err != nil {
		return nil, err
	}
	taken := make(map[int]bool, len(names))
	for _, name := range names {
		if len(names) > emptyFrom && name != beside && frameworks.Remove(name) == nil {
			continue // it was empty
		}
		if info, err := frameworks.Lstat(name); err == nil {
			taken[OwnerOf(info).GID] = true
		}
		owners := filepath.Join(name, string(api.CommandExecutor), Owners)
		marked, err := namesIn(frameworks, owners)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, owner := range marked {
			if info, err := frameworks.Lstat(filepath.Join(owners, owner)); err == nil {
				taken[OwnerOf(info).GID] = true
			}
		}
	}
	return taken, nil
}

func namesIn(root *os.Root, path string) ([]string, error) {
	folder, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return folder.Readdirnames(-1)
}
