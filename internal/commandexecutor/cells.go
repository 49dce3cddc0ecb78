package commandexecutor

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// cells are the control groups in which tasks live, one for each; nil: the machine has none.
type cells struct {
	cell.Handout
	home cell.Cell // of this process
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
	home, err := cell.Home(handout.Cell.Grade)
	if err != nil {
		return nil, api.E("executor.run", api.Internal, "", err)
	}
	return &cells{Handout: handout, home: home}, nil
}

// prepareThread makes the calling goroutine's thread its own where starts happen in cells: it goes into each for a moment.
func (c *cells) prepareThread() {
	if c != nil {
		runtime.LockOSThread()
	}
}

// spawn starts a task in a cell of its own. strayed: the thread has not come home, so it must end.
func (c *cells) spawn(p *process, null *os.File) (pid int, strayed bool, err error) {
	if c == nil {
		pid, err = spawn(p.task, null, &syscall.SysProcAttr{Setpgid: true})
		return pid, false, err
	}
	its := c.Cell.Child(cell.TaskName(string(p.task.ID))).Brief()
	if err = its.Make(); err == nil {
		err = its.Limit(c.Rules.Limits(&p.task.Task))
	}
	if err != nil {
		_ = its.Remove() // it goes with the executor's at the latest
		return 0, false, fmt.Errorf("its control group can't be made: %w", err)
	}
	pid, strayed, err = c.inside(its, func(attr *syscall.SysProcAttr) (int, error) { return spawn(p.task, null, attr) })
	if err != nil {
		_ = its.Remove() // likewise
		return 0, strayed, err
	}
	p.cell = &its
	spared := cell.FirmTask
	if p.task.Resources.HasRevocable() {
		spared = cell.RevocableTask
	}
	cell.Spare(pid, spared)
	return pid, strayed, nil
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

// startBeside starts a process in the cell of a task that runs.
func (c *cells) startBeside(p *process, start func(attr *syscall.SysProcAttr) (int, error)) (pid int, err error) {
	if c == nil || p.cell == nil {
		return start(&syscall.SysProcAttr{Setpgid: true})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var strayed bool
		if pid, strayed, err = c.inside(*p.cell, start); !strayed {
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
	}()
	<-done
	return pid, err
}

// cellGone kills what is left of a task in its cell, and tells whether nothing is. What the cell knows of the end is
// read first: where version 2 is missing, whoever is killed may start nothing more.
func (p *process) cellGone() bool {
	if !p.judged {
		p.judged = true
		if p.status != 0 { // who ends well has reached no limit that it could not live with
			p.limit, _ = p.cell.Reached() // one that can't be read says nothing
		}
	}
	populated, err := p.cell.Populated()
	if populated || err != nil {
		_ = p.cell.Kill() // it is looked at again
		return false
	}
	if p.cell.Remove() == nil { // nearly always
		return true
	}
	gone, _ := p.cell.TryEnd() // it is looked at again
	return gone
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
