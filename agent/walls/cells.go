package walls

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
)

// Config says which isolation an agent has. Zero fields mean the defaults.
type Config struct {
	// Isolation is what the operator asks for. Default: the best that there is.
	Isolation Isolation
	cell.Strict
	// GPUs are the GPUs that tasks can be given. Default: those that [FindGPUs] finds.
	GPUs cell.GPUs
	// Rlimits are the kernel's limits for each process of executors and tasks. Default: see [entry.Rlimits].
	Rlimits entry.Rlimits
	// PidsMax is how many processes and threads a task may have that sets no limit itself. Default 4096; negative: any
	// number.
	PidsMax int64
	// HardQuota gives a task no more of the processors than it has requested, even when they are idle. Default: a task
	// may use what no other wants.
	HardQuota bool
	// Landlock keeps tasks of an agent that is not root from each other's files and the agent's, and from changing any
	// other files, by the rules of package paths. The agent does not start where the kernel has no such rules. Default:
	// tasks may do what the agent's user may.
	Landlock bool
	// CopyImages gives each task with an image a copy of the image. Default: only where the kernel can't mount an
	// image's layers over one another.
	CopyImages bool
}

// Isolation says how an agent is to isolate its tasks.
type Isolation string

// The kinds of isolation. Best is the default.
const (
	Best    Isolation = "auto"       // the best that there is; the agent starts in any case
	Demand  Isolation = "cgroups"    // control groups, or the agent does not start
	Spaces  Isolation = "namespaces" // also namespaces for tasks of commands and executors of frameworks, or the agent does not start
	Without Isolation = "none"       // no control groups, even where there are some
)

// WithDefaults returns the config with the defaults of its zero fields, or why it is wrong.
func (c Config) WithDefaults() (Config, error) {
	switch c.Isolation {
	case "":
		c.Isolation = Best
	case Best, Demand, Spaces, Without:
	default:
		return c, fmt.Errorf("isolation %q is not known; write %s, %s, %s or %s", c.Isolation, Best, Demand, Spaces, Without)
	}
	if c.ReadOnlyRoot && c.Isolation != Spaces {
		return c, fmt.Errorf("a read-only root is something that only tasks with namespaces have; ask for isolation %q too", Spaces)
	}
	if c.PidsMax == 0 {
		c.PidsMax = 4096
	}
	return c, c.Rlimits.Check()
}

// Cells are the cells of one agent's executors. A nil *Cells belongs to an agent that starts no processes of its own;
// its methods may be called and do nothing.
type Cells struct {
	folder string // the agent's data folder
	rules  cell.Rules
	tree   cell.Tree
	config Config
	images images
	holds  holdings
	mends  mending

	showing sync.Mutex // held while a folder is shown to an executor or taken from it
}

// OpenCells finds the cells that an earlier agent with this folder has left, or prepares for new ones. They are open
// until Close. The error says that the machine can't do what was asked for.
func OpenCells(folder string, config Config) (*Cells, error) {
	place := cell.Place{Folder: folder, Devices: len(config.GPUs.Each) > 0}
	if config.Isolation == Without {
		place.Best = cell.Groups
	}
	c := &Cells{
		folder: folder, rules: cell.Rules{PidsMax: max(config.PidsMax, 0), HardQuota: config.HardQuota},
		tree: cell.Open(place), config: config, holds: newHoldings(),
	}
	switch {
	case (config.Isolation == Demand || config.Isolation == Spaces) && !c.tree.Makes:
		return nil, errors.New("control groups were asked for, and " + c.tree.Lacks)
	case config.Isolation == Spaces:
		if err := trySpaces(folder, config.ReadOnlyRoot); err != nil && !datafolder.IsDiskFull(err) {
			return nil, errors.Join(fmt.Errorf("namespaces were asked for, and %w", err), c.tree.Close())
		}
	}
	if err := errors.Join(c.tryDeny(), c.tryConfine()); err != nil {
		return nil, errors.Join(err, c.tree.Close())
	}
	c.images = tryImages(folder, config, c.tree)
	return c, nil
}

// trySpaces says why tasks of an agent with this folder can't have namespaces, or nil. A full disk is no reason: an agent
// that starts on one must look after its tasks, and launches nothing until there is room.
func trySpaces(folder string, readOnly bool) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("only an agent of root makes them; this one runs as user %d", os.Geteuid())
	}
	sandbox, err := makeTrial(folder)
	if err != nil {
		return err
	}
	err = spaces.Try(spaces.View{Hidden: []string{folder}, Shown: []string{sandbox}, Temporary: sandbox, ReadOnly: readOnly})
	return errors.Join(err, os.RemoveAll(sandbox))
}

// makeTrial makes the folder in which walls are tried. It first removes the one that an agent left which was killed
// while it tried.
func makeTrial(folder string) (string, error) {
	trial := filepath.Join(folder, "trial")
	if err := os.RemoveAll(trial); err != nil {
		return "", err
	}
	return trial, os.Mkdir(trial, 0o700)
}

// Close removes the agent's cell, unless there are cells of executors in it: these stay for the agent's next process.
func (c *Cells) Close() error {
	if c == nil {
		return nil
	}
	return c.tree.Close()
}

// Found returns what the agent's isolation can do, and what is missing.
func (c *Cells) Found() Found {
	if c == nil {
		return FromCells(cell.Tree{Lacks: "this agent starts no processes of its own"})
	}
	found := FromCells(c.tree)
	if c.config.Isolation == Spaces {
		found.Add(string(Spaces))
	}
	if c.images.not == "" {
		found.Add(Images)
	}
	if c.config.ReadOnlyRoot {
		found.Add("readonly")
	}
	if c.config.DenyCalls {
		found.Add(calls.Ability)
	}
	c.findPaths(&found)
	if len(c.config.GPUs.Each) > 0 {
		if c.tree.Makes && c.tree.Root.Devices != "" {
			found.Add(api.GPUs)
		} else {
			found.Lack("GPUs are given to tasks, and nothing keeps tasks from the others: that needs the controller of devices, which control groups of version 1 have")
		}
	}
	return found
}

// Holds reports whether no process of an executor can be left when it has ended.
func (c *Cells) Holds() bool { return c != nil && c.tree.Makes }

// Sweep ends all executors except the known ones, with their tasks: the others are left over, and no agent knows them
// any more. (R41)
func (c *Cells) Sweep(ctx context.Context, known []api.ExecutorRef) error {
	if c == nil {
		return nil
	}
	names := map[string]bool{}
	for _, ref := range known {
		names[cell.ExecutorName(string(ref.Framework), string(ref.Executor))] = true
	}
	return c.tree.Sweep(ctx, names)
}

// of returns the cell of an executor. In it are the cells of the executor's tasks, and the one that holds the executor
// itself.
func (c *Cells) of(ref api.ExecutorRef) cell.Cell {
	return c.tree.Executor(string(ref.Framework), string(ref.Executor))
}

// Make makes the cell of an executor that has no tasks yet. It first ends what an earlier run of the executor has left
// there. told is the handout for the built-in executor (see [cell.Handout]); "" for others.
func (c *Cells) Make(ctx context.Context, held Holding) (told string, err error) {
	if c == nil || !c.tree.Makes {
		if c != nil && c.config.Landlock && held.Builtin {
			told = c.handout(cell.Cell{}).String()
		}
		return told, nil
	}
	around := c.of(held.Executor)
	own := around.Child(cell.Own)
	if err = c.mendRoot(); err == nil {
		err = around.End(ctx)
	}
	if err == nil {
		err = errors.Join(around.MakeParent(), own.Make())
	}
	if err == nil {
		err = errors.Join(own.Limit(cell.Limits{CPUs: 1000}), c.Remember([]Holding{held}))
	}
	if err == nil && !held.Builtin { // each task of the built-in executor has a cell of its own
		err = around.Deny(c.config.GPUs.Others(nil))
	}
	if err != nil {
		return "", fmt.Errorf("the executor's control group can't be made: %w", errors.Join(err, around.Remove()))
	}
	if held.Builtin {
		told = c.handout(around).String()
	}
	return told, nil
}

// handout returns what the built-in executor is told of its cell and of the isolation of its tasks.
func (c *Cells) handout(around cell.Cell) cell.Handout {
	handout := cell.Handout{
		Cell: around, Rules: c.rules, GPUs: c.config.GPUs, Images: c.images.not == "", Volumes: c.volumes(),
		Spaces: c.config.Isolation == Spaces, Paths: c.config.Landlock,
	}
	if handout.Spaces || handout.Paths {
		handout.Hidden = []string{c.folder}
	}
	if handout.Spaces {
		handout.Strict = c.config.Strict
	}
	return handout
}

// Enter prepares that the executor which the calling thread starts next, with attr, is in its cell from its first
// instruction on. Where the executor is denied the call for that, only Join puts it there. The thread must be locked to
// its goroutine, and end with it. closing is to be called after the start.
func (c *Cells) Enter(ground Ground, attr *syscall.SysProcAttr) (closing func(), err error) {
	if c == nil || !c.tree.Makes || c.denies(ground.Builtin) {
		return func() {}, nil
	}
	if closing, err = c.of(ground.Executor).Child(cell.Own).Start(attr); err != nil {
		return nil, fmt.Errorf("the executor's control group can't be entered: %w", err)
	}
	return closing, nil
}

// Join puts an executor that waits at its gate into its cell, unless it is there already.
func (c *Cells) Join(ref api.ExecutorRef, pid int) error {
	if c == nil || !c.tree.Makes {
		return nil
	}
	if err := c.of(ref).Child(cell.Own).Join(pid); err != nil {
		return fmt.Errorf("the executor can't be put into its control group: %w", err)
	}
	cell.Spare(pid, cell.ExecutorSpared)
	return nil
}

// End says which limit of its cell has ended the processes of an executor. The zero value says that none did.
type End struct {
	Reason  api.Reason
	Message string
}

// Clear ends all processes of an executor and its tasks, and waits until none is left. found is false if the executor
// has no cell. (R41)
func (c *Cells) Clear(ctx context.Context, ref api.ExecutorRef) (end End, found bool, err error) {
	if c == nil {
		return End{}, false, nil
	}
	around := c.of(ref)
	if !around.Exists() {
		return End{}, false, nil
	}
	c.holds.forget(ref)
	end = ending(around.Child(cell.Own))
	return end, true, around.End(ctx)
}

// ending returns which limit has ended the processes of a cell. It returns zero if the cell can't be read.
func ending(c cell.Cell) End {
	reached, err := c.Reached()
	switch {
	case err != nil:
		return End{}
	case reached.Memory:
		return End{api.ReasonMemoryLimit, reached.Why}
	case reached.Pids:
		return End{api.ReasonPidsLimit, reached.Why}
	}
	return End{}
}

// Measure returns the control group of an executor with all its tasks, or of one of them if a task is given, and what is
// used in it. found is false if it has none of its own, or one without a controller of memory.
func (c *Cells) Measure(executor api.ExecutorRef, task api.TaskID) (group string, used cell.Usage, found bool) {
	if c == nil {
		return "", used, false
	}
	its := c.of(executor)
	if task != "" {
		its = its.Child(cell.TaskName(string(task))).Brief()
	}
	if its.Memory == "" || !its.Exists() {
		return "", used, false
	}
	used, err := its.Usage()
	return its.String(), used, err == nil
}

// KillTask kills all processes of a task that has a cell of its own, and does not wait for their end.
func (c *Cells) KillTask(executor api.ExecutorRef, task api.TaskID) (found bool, err error) {
	if c == nil {
		return false, nil
	}
	its := c.of(executor).Child(cell.TaskName(string(task)))
	if !its.Exists() {
		return false, nil
	}
	return true, its.Kill()
}
