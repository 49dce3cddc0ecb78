// Package spaces isolates a task by namespaces of the kernel: the task has its own processes, its own /tmp, /proc, /dev
// and shared memory, and of the agent's folder it sees only what belongs to it. The first process in there is a helper
// of ours. It sets up the isolation, starts the task's program as its user with no right to more, passes signals on to
// it, waits for orphaned processes, and ends when the program has ended. Then the kernel ends all that is left in
// there. Mounts go with the last of its processes, so nobody has to clean up.
//
// A helper is forked by a spawner, which is this very program started under another name: see init. The helper executes
// no program itself: see life. It has hardly any of the spawner's memory: see lean. The threads of the spawner prepare
// the isolation by going into namespaces that they make, and return when the helper is born: see spawning. To its
// parent, which has asked the spawner for it, the helper stands for the task: its process number, as seen outside, is
// the one by which the task is killed, found again and looked into.
//
// The package decides nothing, and never lets a program start with only a part of its isolation.
package spaces

import "syscall"

// Helper is the name under which helpers, and their spawner, show in lists of processes.
const Helper = "tender-walls"

// HelperPids is how many of a task's processes and threads its helper is.
const HelperPids = 1

// View is what a task sees of the machine's files.
type View struct {
	// Hidden are folders of which nothing is seen but what is shown.
	Hidden []string `json:"hidden,omitempty"`
	// Shown are folders that stay as they are, in a hidden one or in /tmp.
	Shown []string `json:"shown,omitempty"`
	// Temporary is the folder in which a folder ".tmp" is /tmp and /var/tmp of the task: its sandbox.
	Temporary string `json:"temporary"`
	// Devices are files in /dev that are there beside those that every program may expect.
	Devices []string `json:"devices,omitempty"`
	// ReadOnly lets nothing be written but what is shown and what is the task's own: the sandbox, /tmp and /dev.
	ReadOnly bool `json:"read_only,omitempty"`
	// Root is what the task sees in place of all that, and of the machine's files. Nil: it sees these.
	Root *Root `json:"root,omitempty"`
}

// Root is an image.
type Root struct {
	// Folder is the agent's own in the sandbox. In it are the folders root, where the image is mounted, and upper and
	// work, for what the task changes.
	Folder string `json:"folder"`
	// Layers are the folders of the image, the lowest first. None: root is a copy of it.
	Layers []string `json:"layers,omitempty"`
	// Shown are folders of the machine that the task sees beside the image's.
	Shown []Shown `json:"shown,omitempty"`
	// Begin is the folder in which the program begins; it is made if the image lacks it.
	Begin string `json:"begin"`
}

// Shown is a folder of the machine, and where it is seen.
type Shown struct {
	From string `json:"from"`
	At   string `json:"at"`
}

// User is as whom the program runs.
type User struct {
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Order says what a helper is to do.
type Order struct {
	View View `json:"view"`
	// Beside is the helper of a task into whose walls the program goes, instead of into new ones. Any signal to its own
	// helper then kills it, with its group; but one that kills the helper leaves it to the task. 0: none.
	Beside int `json:"beside,omitempty"`
	// Path, Argv, Env, Folder and User are the program's. Find says that the program is looked for within the walls, by the
	// first word of Argv, instead of Path. No program: the walls are tried, and that is all.
	Path   string   `json:"path,omitempty"`
	Find   bool     `json:"find,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"`
	Folder string   `json:"folder,omitempty"`
	User   User     `json:"user"`
	// Stop is the signal that the program is sent for SIGTERM; 0: that.
	Stop int `json:"stop,omitempty"`
	// Deny denies the program the calls of the kernel that package calls names.
	Deny bool `json:"deny,omitempty"`
	// Score is what is written to oom_score_adj; "": nothing.
	Score string `json:"score,omitempty"`
	// Join are files of the task's control groups to which the helper writes 0, and is in them; Born is the folder of one in
	// which the kernel makes it.
	Join []string `json:"join,omitempty"`
	Born string   `json:"born,omitempty"`
}

// answer is what a spawner says when the program was executed, or why it was not.
type answer struct {
	PID   int           `json:"pid,omitempty"`   // the helper's, if there is one
	Errno syscall.Errno `json:"errno,omitempty"` // the kernel's, when it refused the program itself
	Error string        `json:"error,omitempty"`
}

// recordBytes is the length of what tells of an end: a number, and a status as the kernel has it. A pipe takes it whole.
const recordBytes = 12
