package commandexecutor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
)

// cells are the control groups in which tasks live, one for each, and their other walls; nil: they have none.
type cells struct {
	cell.Handout
	home    cell.Cell       // of this process, where there are control groups
	spawner *spaces.Spawner // of tasks with namespaces; nil: they have none
	spares  spares
}

// newCells reads what the agent says of its control groups; "" is nothing.
func newCells(told string) (*cells, error) {
	if told == "" {
		return nil, nil
	}
	handout, err := cell.ParseHandout(told)
	if err != nil {
		return nil, api.E("executor.run", api.Invalid, "", err)
	}
	c := &cells{Handout: handout}
	if !c.grouped() {
		return c, nil
	}
	if c.home, err = handout.Cell.Home(); err != nil {
		return nil, api.E("executor.run", api.Internal, "", err)
	}
	if handout.Spaces || handout.Images {
		if c.spawner, err = spaces.OpenSpawner(); err != nil {
			return nil, api.E("executor.run", api.Internal, "", err)
		}
	}
	return c, nil
}

// grouped tells whether tasks have control groups.
func (c *cells) grouped() bool { return c != nil && c.Cell.Grade != "" }

// close ends the spawner, which is a child like any other.
func (c *cells) close() {
	if c != nil && c.spawner != nil {
		c.spawner.Close()
	}
}

// forget lets go of what newCells has opened.
func (c *cells) forget() error {
	if c == nil || c.spawner == nil {
		return nil
	}
	return c.spawner.Forget()
}

// onThreads does work again and again until it says that it is over. Where starts happen in cells it has a thread for
// itself, which goes into each of them for a moment; one that has not come home, and so has strayed, ends.
func (c *cells) onThreads(work func() (over, strayed bool)) {
	for over := false; !over; {
		if !c.grouped() {
			over, _ = work()
			continue
		}
		entry.OnThread(func() (asBefore bool) {
			var strayed bool
			over, strayed = work()
			return !strayed
		})
	}
}

// spawn starts a task in a cell of its own, which the process has also when that has failed: something may be left in it.
// strayed: the thread has not come home, so it must end.
func (c *cells) spawn(p *process, null *os.File) (pid int, strayed bool, err error) {
	program, opened, err := open(p.task, null)
	if err != nil {
		return 0, false, err
	}
	defer opened.close()
	if program.image != nil && (c == nil || !c.Images) {
		return 0, false, errors.New("this agent runs no tasks in images any more")
	}
	if !c.grouped() {
		pid, err = c.fork(program, &syscall.SysProcAttr{Setpgid: true}, opened)
		return pid, false, err
	}
	its, err := c.makeCell(p.task, program.user)
	if err != nil {
		return 0, false, err
	}
	spared := cell.FirmTask
	if p.task.Resources.HasRevocable() {
		spared = cell.RevocableTask
	}
	helped := c.helps(&p.task.Task)
	if helped {
		pid, err = c.startInSpaces(its.Cell, program, opened, spaces.Order{Score: strconv.Itoa(int(spared))})
	} else {
		pid, strayed, err = c.inside(its.Cell, func(attr *syscall.SysProcAttr) (int, error) { return c.fork(program, attr, opened) })
		cell.Spare(pid, spared)
	}
	p.cell, p.helped = &its, helped
	return pid, strayed, err
}

// helps says whether a task is started by a helper, in namespaces of its own.
func (c *cells) helps(task *api.Task) bool { return c.Spaces || task.Image != "" }

// taskCell is the cell of a task.
type taskCell struct {
	cell.Cell
	limits cell.Limits
	byRoot bool   // its task is root, who may change the kernel's files
	spare  string // the name that it has as a spare; "": it was none
}

// makeCell makes the cell of a task that runs as a user, of a spare if there is one.
func (c *cells) makeCell(task *executor.Task, user entry.User) (taskCell, error) {
	its := taskCell{
		Cell: c.Cell.Child(cell.TaskName(string(task.ID))).Brief(), limits: c.Rules.Limits(&task.Task), byRoot: user.UID == 0,
	}
	if c.helps(&task.Task) && its.limits.Pids != 0 {
		its.limits.Pids += spaces.HelperPids
	}
	if c.reuse(&its) {
		return its, nil
	}
	err := its.Make()
	if err == nil {
		err = errors.Join(its.Limit(its.limits), its.Deny(c.GPUs.Others(protocol.GPUIndices(task.GPUs))))
	}
	if err != nil {
		_ = its.Remove() // it goes with the executor's at the latest
		return its, fmt.Errorf("its control group can't be made: %w", err)
	}
	return its, nil
}

// startInSpaces starts a program with a helper, which gives it namespaces of its own, or takes it into those of a task.
func (c *cells) startInSpaces(its cell.Cell, program program, opened files, order spaces.Order) (pid int, err error) {
	order.Join, order.Born = its.Ways()
	order.Deny = c.DenyCalls
	order.Path, order.Argv, order.Env, order.Folder = program.path, program.argv, program.env, program.begin()
	order.User = spaces.User{UID: program.user.UID, GID: program.user.GID}
	for _, group := range program.groups() {
		order.User.Groups = append(order.User.Groups, uint32(group))
	}
	if program.image != nil {
		order.View.Root, order.Path, order.Find, order.Stop = c.root(program), "", true, program.image.StopSignal
	} else {
		order.View = c.view(program)
	}
	for _, device := range c.GPUs.Own(program.gpus) {
		order.View.Devices = append(order.View.Devices, device.Path)
	}
	pid, err = c.spawner.Start(order, opened)
	// Within another error it is what has gone wrong with the walls.
	if refused, is := err.(syscall.Errno); is { //nolint:errorlint // see above
		return pid, program.explain(refused)
	}
	if err != nil {
		return pid, fmt.Errorf("its namespaces can't be made: %w", err)
	}
	return pid, nil
}

// view is what a task sees of the machine's files.
func (c *cells) view(program program) spaces.View {
	return spaces.View{Hidden: c.Hidden, Shown: c.own(program), Temporary: program.sandbox, ReadOnly: c.ReadOnlyRoot}
}

// own are the folders that are a task's own.
func (c *cells) own(program program) []string {
	own := []string{program.sandbox}
	for _, volume := range program.volumes {
		own = append(own, filepath.Join(c.Volumes, string(volume)))
	}
	if program.shared != "" && filepath.Dir(program.shared) != program.sandbox {
		own = append(own, program.shared)
	}
	return own
}

// fork starts a program that reaches no files but those that it may. Where there are rules for that, a thread takes them
// on that ends with the start; control groups of version 2 are entered from any thread, and there are no others then.
func (c *cells) fork(program program, attr *syscall.SysProcAttr, opened files) (pid int, err error) {
	if c == nil || !c.Paths {
		return program.fork(attr, opened)
	}
	err = entry.Start(func() error {
		if err := (paths.Reach{Hidden: c.Hidden[0], Own: c.own(program)}).Confine(); err != nil {
			return err
		}
		pid, err = program.fork(attr, opened)
		return err
	})
	return pid, err
}

// ended is how a program has ended whose process was waited for; its helper has told that, if it had one.
func (c *cells) ended(pid int, status syscall.WaitStatus) syscall.WaitStatus {
	if c == nil || c.spawner == nil {
		return status
	}
	return c.spawner.Ended(pid, status)
}

// inside has the calling thread, which is its goroutine's own, start a process in a cell, from its first instruction on
// (R41). strayed: the thread has not come home.
func (c *cells) inside(its cell.Cell, start func(attr *syscall.SysProcAttr) (int, error)) (pid int, strayed bool, err error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	closing, err := its.Start(attr)
	if err != nil {
		return 0, c.home.Return() != nil, fmt.Errorf("its control group can't be entered: %w", err)
	}
	pid, err = start(attr)
	closing()
	return pid, c.home.Return() != nil, err
}

// startBeside starts a program within the walls of a task that runs.
func (c *cells) startBeside(p *process, program program, opened files) (pid int, err error) {
	if !c.grouped() || p.cell == nil {
		return c.fork(program, &syscall.SysProcAttr{Setpgid: true}, opened)
	}
	if p.helped {
		return c.startInSpaces(p.cell.Cell, program, opened, spaces.Order{Beside: p.pid})
	}
	entry.OnThread(func() (asBefore bool) {
		var strayed bool
		pid, strayed, err = c.inside(p.cell.Cell, func(attr *syscall.SysProcAttr) (int, error) { return c.fork(program, attr, opened) })
		return !strayed
	})
	return pid, err
}

// cellGone kills what is left of a task in its cell, and tells whether nothing is. What the cell knows of the end is
// read first: where version 2 is missing, whoever is killed may start nothing more. Under mu.
func (x *commands) cellGone(p *process) bool {
	if !p.judged {
		p.judged = true
		if p.status != 0 { // who ends well has reached no limit that it could not live with
			p.limit, _ = p.cell.Reached() // one that can't be read says nothing
		}
	}
	if p.rest == nil {
		rest, kept := p.cell.Cell, false
		if x.mayKeepCell(p) {
			rest, kept = x.cells.keep(*p.cell)
		}
		if kept {
			return true
		}
		p.rest = &rest
	}
	if p.rest.Remove() == nil { // nearly always; the kernel removes none in which something lives
		return true
	}
	gone, _ := p.rest.TryEnd() // it is looked at again
	return gone
}

// mayKeepCell tells whether the cell of a task whose first process has ended may serve another task: not when the task was
// never started, or has reached a limit, or when a check may be entering the cell, or no task comes any more. Under mu.
func (x *commands) mayKeepCell(p *process) bool {
	return p.refused == nil && p.limit == cell.Reached{} && p.check == nil && !x.closing
}

// explainLimit has a task that has failed tell which limit it has reached.
func (p *process) explainLimit(report *executor.Report) {
	switch {
	case report.State != api.TaskFailed:
		return
	case p.limit.Memory:
		report.Reason = api.ReasonMemoryLimit
	case p.limit.Pids:
		report.Reason = api.ReasonPidsLimit
	default:
		return
	}
	report.Message += ": " + p.limit.Why
}
