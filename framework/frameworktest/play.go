package frameworktest

import (
	"context"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// runTask is what an executor of ours does with a task.
func (p *process) runTask(ctx context.Context, task *executor.Task) error {
	h := p.host.handle
	run := h.cluster.Executors[task.ExecutorID()]
	var play *Play
	if run == nil {
		scripted := h.script(task)
		play = &scripted
	}
	if !p.begin(task.Executor) {
		return errSIGKILL
	}
	defer p.tasks.Done()
	ref := api.TaskRef{Framework: task.Framework, Task: task.ID}
	h.journal.started(p.host.name, ref, play)
	holding := held{resources: task.Resources, executor: p.id}
	if play != nil {
		holding.end = make(chan Play, 1)
	}
	p.host.begins(ref, holding)
	rest := sync.OnceFunc(func() {
		p.host.ends(ref)
		h.journal.ended(p.host.name, ref)
	})
	defer rest()
	if run == nil {
		return p.play(ctx, task, play, holding.end, rest)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.dead, cancel)()
	return run(ctx, task)
}

// begin counts a task in, unless the process is dead.
func (p *process) begin(of *api.Executor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Err() != nil {
		return false
	}
	p.tasks.Add(1)
	if of != nil && p.own.IsZero() {
		p.own = of.Resources
		p.host.hold(p.own)
	}
	return true
}

// play plays the script. rest is called before the end is reported: what has ended uses nothing.
func (p *process) play(ctx context.Context, task *executor.Task, play *Play, end <-chan Play, rest func()) error {
	var over <-chan time.Time
	if !play.Forever {
		timer := time.NewTimer(play.Duration)
		defer timer.Stop()
		over = timer.C
	}
	killed := ctx.Done()
	if play.Stubborn {
		killed = nil
	}
	select {
	case <-p.dead.Done():
		return errSIGKILL
	case <-killed:
		return ctx.Err()
	case other := <-end:
		play = &other
	case <-over:
	}
	if play.Crash {
		p.host.handle.journal.excuseHost(p.host.name, p.host.agentID(), p.id.Framework, "task "+string(task.ID)+" crashed its executor")
		p.host.handle.journal.crash(p.host.agentID())
		p.kill()
		return errSIGKILL
	}
	rest()
	state, message := play.outcome()
	code := play.ExitCode
	return task.Report(executor.Report{State: state, Message: message, Data: play.Data, ExitCode: &code})
}
