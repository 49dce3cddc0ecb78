// Package spaces isolates a task by namespaces of the kernel: the task has its own processes, its own /tmp, /proc, /dev
// and shared memory, and of the agent's folder it sees only what belongs to it. The first process in there is a helper
// of ours. It sets up the isolation, starts the program as the task's user in such a way that the program can't gain
// further rights, passes signals on to it, waits for orphaned processes, and ends when the program has ended. Then the
// kernel ends all other processes of the task. Its mounts vanish with the last of its processes, so nobody has to clean
// up.
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

// HelperPids is how many processes and threads a helper adds to those of its task.
const HelperPids = 1

// View says which of the machine's files a task sees.
type View struct {
	// Hidden are folders in which the task sees nothing but what is Shown.
	Hidden []string `json:"hidden,omitempty"`
	// Shown are folders that the task sees as they are on the machine, though they are in a hidden folder or in /tmp.
	Shown []string `json:"shown,omitempty"`
	// Temporary is the task's sandbox. The folder ".tmp" in it is the task's /tmp and /var/tmp.
	Temporary string `json:"temporary"`
	// Devices are device files that are in the task's /dev beside those that every program may expect.
	Devices []string `json:"devices,omitempty"`
	// ReadOnly makes all files read-only, except what is shown and what is the task's own: the sandbox, /tmp and /dev.
	ReadOnly bool `json:"read_only,omitempty"`
	// Root is the image whose files the task sees in place of the machine's. With it only Devices counts of the fields
	// above. Nil: the task sees the machine's files.
	Root *Root `json:"root,omitempty"`
}

// Root is an image, with what a task in it sees beside it.
type Root struct {
	// Folder is a folder in the sandbox that belongs to the agent alone. In it are the folders root, where the image is
	// mounted, and upper and work, for what the task changes.
	Folder string `json:"folder"`
	// Layers are the folders of the image, the lowest first. None: the folder root holds a copy of the image.
	Layers []string `json:"layers,omitempty"`
	// Shown are folders of the machine that the task sees beside the image's.
	Shown []Shown `json:"shown,omitempty"`
	// Begin is the program's working directory. It is made if the image lacks it.
	Begin string `json:"begin"`
}

// Shown is a folder of the machine, and the path at which the task sees it.
type Shown struct {
	From string `json:"from"`
	At   string `json:"at"`
}

// User is the user as which the program runs.
type User struct {
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Order says what a helper is to do.
type Order struct {
	View View `json:"view"`
	// Beside is the process number of the helper of a running task. The program is then started in the walls of that
	// task instead of in new ones. A signal that its own helper handles kills the program, with its process group. If
	// its own helper is killed the program goes on, and ends with the task at the latest. 0: there is no such task.
	Beside int `json:"beside,omitempty"`
	// Path, Argv, Env, Folder and User are those of the program; Folder is its working directory. With Find the program
	// is looked for within the walls, by the first word of Argv instead of by Path. Without Path and Find there is no
	// program, and the walls are only tried.
	Path   string   `json:"path,omitempty"`
	Find   bool     `json:"find,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"`
	Folder string   `json:"folder,omitempty"`
	User   User     `json:"user"`
	// Stop is the signal that the program is sent in place of SIGTERM; 0: SIGTERM itself.
	Stop int `json:"stop,omitempty"`
	// Deny denies the program the system calls that package calls names.
	Deny bool `json:"deny,omitempty"`
	// Score is what is written to oom_score_adj; "": nothing.
	Score string `json:"score,omitempty"`
	// Join are files of the task's control groups. The helper writes 0 to each of them, which moves it into the group.
	// Born is the folder of a control group in which the kernel makes the helper; "": none.
	Join []string `json:"join,omitempty"`
	Born string   `json:"born,omitempty"`
}

// answer is what a spawner replies to an order: that the program was executed, or why it was not.
type answer struct {
	PID   int           `json:"pid,omitempty"`   // the helper's, if there is one
	Errno syscall.Errno `json:"errno,omitempty"` // the kernel's, when it refused the program itself
	Error string        `json:"error,omitempty"`
	Cause syscall.Errno `json:"cause,omitempty"` // the kernel's, if Error is about an error of the kernel
}

// recordBytes is the length of the record by which a helper tells how its program has ended: the helper's process
// number in 8 bytes, and the program's wait status in 4. It is short enough to be written to a pipe in one piece.
const recordBytes = 12
