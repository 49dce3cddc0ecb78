package commands

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/birth"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
)

// cells are the control groups in which tasks run, one for each, and their other isolation. A nil *cells isolates
// nothing.
type cells struct {
	cell.Handout
	spawner *spaces.Spawner // starts tasks with namespaces; nil: there are none
	spares  spares
}

// newCells reads what the agent says of the isolation of tasks; "" if it says nothing.
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
	if handout.Spaces || handout.Images {
		if c.spawner, err = spaces.OpenSpawner(); err != nil {
			return nil, api.E("executor.run", api.Internal, "", err)
		}
	}
	return c, nil
}

// grouped reports whether tasks have control groups.
func (c *cells) grouped() bool { return c != nil && c.Cell.Grade != "" }

// close ends the spawner. Its process is a child of this one, and is reaped like any other.
func (c *cells) close() {
	if c != nil && c.spawner != nil {
		c.spawner.Close()
	}
}

// forget closes what newCells has opened.
func (c *cells) forget() error {
	if c == nil || c.spawner == nil {
		return nil
	}
	return c.spawner.Forget()
}

// spawn starts a task in a cell of its own. It notes the cell in p also when the start has failed, because something
// may be left in the cell.
func (c *cells) spawn(p *process, null *os.File) (pid int, err error) {
	program, opened, err := open(p.task, null)
	if err != nil {
		return 0, err
	}
	defer opened.close()
	if program.image != nil && (c == nil || !c.Images) {
		return 0, errors.New("this agent runs no tasks in images any more")
	}
	if !c.grouped() {
		return c.fork(program, opened, birth.Groups{})
	}
	its, err := c.makeCell(p.task, program.user)
	if err != nil {
		return 0, err
	}
	spared := cell.FirmTask
	if p.task.Resources.HasRevocable() {
		spared = cell.RevocableTask
	}
	helped := c.helps(&p.task.Task)
	if helped {
		pid, err = c.startInSpaces(its.Cell, program, opened, spaces.Order{Score: strconv.Itoa(int(spared)), Stop: int(signals[p.task.KillSignal])})
	} else {
		pid, err = c.startInside(its.Cell, its.grip.Entrance(), program, opened)
		cell.Spare(pid, spared)
	}
	p.cell, p.helped = &its, helped
	return pid, err
}

// helps reports whether a task is started by a helper, in namespaces of its own.
func (c *cells) helps(task *api.Task) bool { return c.Spaces || task.Image != "" }

// taskCell is the cell of a task.
type taskCell struct {
	cell.Cell
	limits cell.Limits
	byRoot bool       // its task runs as root, and so may write the kernel's files
	spare  string     // the name that it had as a spare; "": it was none
	grip   *cell.Grip // of one that was a spare; else nil
}

// letGo closes what is open of the cell.
func (t *taskCell) letGo() {
	t.grip.Close()
	t.grip = nil
}

// remove removes a spare.
func (t *taskCell) remove() error {
	t.letGo()
	return t.Remove()
}

// makeCell makes the cell of a task that runs as a user, from a spare if there is one.
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
		_ = its.Remove() // it is removed with the executor's cell at the latest
		return its, ownError{fmt.Errorf("its control group can't be made: %w", err)}
	}
	return its, nil
}

// startInSpaces starts a program by a helper, in new namespaces or, with order.Beside, in those of a running task.
func (c *cells) startInSpaces(its cell.Cell, program program, opened files, order spaces.Order) (pid int, err error) {
	order.Join, order.Born = its.Ways()
	order.Deny = c.DenyCalls
	order.Path, order.Argv, order.Env, order.Folder = program.path, program.argv, program.env, program.begin()
	order.User = spaces.User{UID: program.user.UID, GID: program.user.GID}
	for _, group := range program.groups() {
		order.User.Groups = append(order.User.Groups, uint32(group))
	}
	if program.image != nil {
		order.View.Root, order.Path, order.Find, order.Stop = c.root(program), "", true, cmp.Or(order.Stop, program.image.StopSignal)
	} else {
		order.View = c.view(program)
	}
	for _, device := range c.GPUs.Own(program.gpus) {
		order.View.Devices = append(order.View.Devices, device.Path)
	}
	pid, err = c.spawner.Start(order, opened)
	// Only an error that is itself an errno is about the program. An errno within another error is about the
	// namespaces.
	if refused, is := err.(syscall.Errno); is { //nolint:errorlint // see above
		return pid, program.explain(refused)
	}
	if err != nil {
		return pid, ownError{fmt.Errorf("its namespaces can't be made: %w", err)}
	}
	return pid, nil
}

// view returns which of the machine's files a task sees.
func (c *cells) view(program program) spaces.View {
	return spaces.View{Hidden: c.Hidden, Shown: c.own(program), Temporary: program.sandbox, ReadOnly: c.ReadOnlyRoot}
}

// own returns the folders of the agent that a task may use: its sandbox, its volumes, and the folder of its group.
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

// fork starts a program, which enters the groups first. Where there are rules for files, a thread restricts itself by
// them, forks the program and ends.
func (c *cells) fork(program program, opened files, groups birth.Groups) (pid int, err error) {
	if c == nil || !c.Paths {
		return program.fork(opened, groups)
	}
	err = entry.Start(func() error {
		if err := (paths.Reach{Hidden: c.Hidden[0], Own: c.own(program)}).Confine(); err != nil {
			return err
		}
		pid, err = program.fork(opened, groups)
		return err
	})
	return pid, err
}

// ended returns how a program has ended whose process was reaped with this status. If the process was a helper, that is
// what the helper has told.
func (c *cells) ended(pid int, status syscall.WaitStatus) syscall.WaitStatus {
	if c == nil || c.spawner == nil {
		return status
	}
	return c.spawner.Ended(pid, status)
}

// startInside starts a program that is in a cell from its first instruction on. (R41) in is the cell's entrance, nil if
// it is not open.
func (c *cells) startInside(its cell.Cell, in cell.Entrance, program program, opened files) (pid int, err error) {
	groups, closing, err := its.Groups(in)
	if err != nil {
		return 0, ownError{&birth.AstrayError{Err: err}}
	}
	defer closing()
	return c.fork(program, opened, groups)
}

// startBeside starts a program with the isolation of a running task.
func (c *cells) startBeside(p *process, program program, opened files) (pid int, err error) {
	switch {
	case !c.grouped() || p.cell == nil:
		return c.fork(program, opened, birth.Groups{})
	case p.helped:
		return c.startInSpaces(p.cell.Cell, program, opened, spaces.Order{Beside: p.pid})
	}
	return c.startInside(p.cell.Cell, nil, program, opened) // the entrance of the task's cell may be closed at any moment: the task may end
}

// cellGone kills what is left of a task in its cell, and reports whether nothing is left. It first reads which limit
// the task has reached: without version 2 a kill forbids new processes, and what that refuses would look like the
// task's limit. Under mu.
func (x *commands) cellGone(p *process) bool {
	if !p.judged {
		p.judged = true
		if p.status != 0 { // a task that has ended well could do without what a limit refused
			p.limit, _ = p.cell.Reached() // a cell that can't be read has no limit to report
		}
	}
	if p.rest == nil {
		rest, kept := p.cell.Cell, false
		if x.mayKeepCell(p) {
			rest, kept = x.cells.keep(p.cell)
		}
		if kept {
			return true
		}
		p.cell.letGo()
		p.rest = &rest
	}
	if p.rest.Remove() == nil { // nearly always; the kernel removes no cell in which a process lives
		return true
	}
	gone, _ := p.rest.TryEnd() // after an error it is tried again
	return gone
}

// mayKeepCell reports whether the cell of a task whose first process has ended may serve another task. It may not if
// the task was never started or has reached a limit, if a check may be entering the cell, or if no more tasks will
// come. Under mu.
func (x *commands) mayKeepCell(p *process) bool {
	return p.refused == nil && p.limit == cell.Reached{} && p.check == nil && !x.closing
}

// explainLimit adds to the report of a failed task which limit the task has reached.
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
