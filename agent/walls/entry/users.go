package entry

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"

	"github.com/tenderhq/tender/api"
)

// Dynamic stands for a user of its own for each framework: a number without a name, from DynamicFirst on. These numbers
// are nobody's by the conventions of Linux distributions: above those of accounts and services, below those of containers.
const (
	Dynamic      = "dynamic"
	DynamicFirst = 70_000
	DynamicCount = 10_000
)

// Unprivileged is as whom an agent of root starts tasks when it is not told: Dynamic, where the machine has these
// numbers, as many containers do not; else "nobody"; "" where there is nobody either.
func Unprivileged() string {
	if usable(User{UID: DynamicFirst, GID: DynamicFirst}) == nil && usable(User{UID: DynamicFirst + DynamicCount - 1}) == nil {
		return Dynamic
	}
	if nobody, err := lookup("nobody"); err == nil && usable(nobody) == nil {
		return "nobody"
	}
	return ""
}

// usable says why the kernel does not let this process act as a user, or nil.
func usable(user User) error { return As(user, func() error { return nil }) }

// Users find as whom tasks run. Whether a task may ask for a user is decided elsewhere; but nobody becomes root by
// another name.
type Users struct {
	// Default is for commands that ask for nobody: the name of a user, or Dynamic. "": the user of this process.
	Default string
	// Allowed are whom commands may ask for.
	Allowed []string
}

// Check says why tasks can't run as they should on this machine, or nil. reached is a folder that they must get to.
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

// onlySelf tells whether all tasks run as this process does.
func (u Users) onlySelf() bool {
	if u.Default == "" {
		return len(u.Allowed) == 0
	}
	found, err := lookup(u.Default)
	return err == nil && found.IsSelf() && len(u.Allowed) == 0
}

// Abilities name what keeps tasks apart by their users: "users" where they run as others than the agent, "frameworks"
// where each framework has one of its own.
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

// Lack says for people what tasks can do to the agent, as a sentence; "" where they run as others.
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

// Find looks a user up by name; a number is none, as 0 would be root. "" is the user of this process.
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

// groupsOf remembers the groups of users for as long as the process lives.
var groupsOf sync.Map

// GroupsOf are the groups of a user beside the first, by the machine's own list; none for one without a name.
func GroupsOf(uid int) []int {
	if known, is := groupsOf.Load(uid); is {
		return known.([]int)
	}
	var groups []int
	if account, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		ids, err := account.GroupIds()
		for _, id := range ids {
			if group, wrong := strconv.Atoi(id); err == nil && wrong == nil {
				groups = append(groups, group)
			}
		}
	}
	groupsOf.Store(uid, groups)
	return groups
}

// emptyFrom: with so many frameworks beside it, folders of those that are gone are given back before a number is chosen.
const emptyFrom = DynamicCount / 4

// OwnOf is the user of its own that a framework has: the group of its folder says the number, so that it is the same as
// long as the folder is there, also after a restart. A framework without one is given a number that no other folder
// beside it has. Calls must not run together, and nothing may be made beneath meanwhile.
func OwnOf(frameworks *os.Root, id api.FrameworkID) (User, error) {
	name := string(id)
	info, err := frameworks.Lstat(name)
	if err != nil {
		return User{}, err
	}
	if number := OwnerOf(info).GID; isDynamic(number) {
		return User{UID: number, GID: number}, nil
	}
	taken, err := numbersTaken(frameworks, name)
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
			return User{}, fmt.Errorf("user %d can't be given to framework %s: %w", number, id, err)
		}
		return User{UID: number, GID: number}, nil
	}
	return User{}, fmt.Errorf("all %d users for frameworks are taken; let old sandboxes go sooner (--sandbox-age, --sandboxes-max), "+
		"or name one user for all by --task-user", DynamicCount)
}

func isDynamic(number int) bool { return number >= DynamicFirst && number < DynamicFirst+DynamicCount }

// numbersTaken are those of all frameworks' folders. Where there are many, the empty ones go.
func numbersTaken(frameworks *os.Root, beside string) (map[int]bool, error) {
	folder, err := frameworks.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
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
	}
	return taken, nil
}
