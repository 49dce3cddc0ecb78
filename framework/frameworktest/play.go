package frameworktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/pause"
)

var (
	errNotReady = errors.New("it is not ready yet")
	errIll      = errors.New("its story says that it is ill")
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
	defer p.forgetGrace(task.ID)
	ref := api.TaskRef{Framework: task.Framework, Task: task.ID}
	h.journal.started(p.host.name, ref, play)
	holding := held{resources: task.Resources, executor: p.id, began: time.Now(), secrets: p.host.secretsOf(task)}
	if play != nil {
		holding.end, holding.readyAfter = make(chan Play, 1), play.ReadyAfter
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

// player hands tasks to functions and, unlike them, knows what grace a killed one was given.
type player struct {
	executor.Handler
	process *process
}

// grace is until when a killed task may go on.
type grace struct {
	by    time.Time
	timer *time.Timer // rings then
}

// Kill notes until when the task may go on, then asks for its end. A further kill may only shorten that.
func (p player) Kill(task *executor.Task, within time.Duration) {
	if within <= 0 {
		within = executor.DefaultGrace
	}
	within = max(within, pause.Soonest)
	by := time.Now().Add(within)
	p.process.mu.Lock()
	if given, again := p.process.graces[task.ID]; !again {
		p.process.graces[task.ID] = &grace{by: by, timer: time.NewTimer(within)}
	} else if by.Before(given.by) {
		given.by = by
		given.timer.Reset(within)
	}
	p.process.mu.Unlock()
	p.Handler.Kill(task, within)
}

// late rings when the grace of a task that is being killed is over.
func (p *process) late(task api.TaskID) <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.graces[task].timer.C
}

func (p *process) forgetGrace(task api.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if given := p.graces[task]; given != nil {
		given.timer.Stop()
		delete(p.graces, task)
	}
}

// play plays the script. rest is called before the end is reported: what has ended uses nothing.
func (p *process) play(ctx context.Context, task *executor.Task, play *Play, end <-chan Play, rest func()) error {
	play, err := p.endOf(ctx, task.ID, play, end)
	switch {
	case errors.Is(err, errLate):
		rest()
		code := 128 + 9
		return task.Report(executor.Report{State: api.TaskKilled, Message: err.Error(), ExitCode: &code})
	case err != nil:
		return err
	case play.Crash:
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

// endOf waits for the end of a task: by its play, by another that the story puts in its place,
// or by a signal.
func (p *process) endOf(ctx context.Context, task api.TaskID, play *Play, other <-chan Play) (*Play, error) {
	var over, late <-chan time.Time
	if !play.Forever {
		timer := time.NewTimer(max(play.Duration, pause.Soonest))
		defer timer.Stop()
		over = timer.C
	}
	for killed := ctx.Done(); ; {
		select {
		case <-p.dead.Done():
			return nil, errSIGKILL
		case <-killed:
			if !play.Stubborn {
				return nil, ctx.Err()
			}
			killed, late = nil, p.late(task)
		case <-late:
			return nil, errLate
		case another := <-other:
			return &another, nil
		case <-over:
			return play, nil
		}
	}
}

// probe answers a check as the task's story says.
func (h *host) probe(_ context.Context, task *executor.Task, _ api.Check) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	running, is := h.tasks[api.TaskRef{Framework: task.Framework, Task: task.ID}]
	switch {
	case !is:
		return errNotReady
	case running.ill != nil && *running.ill:
		return errIll
	case running.ill == nil && time.Since(running.began) < running.readyAfter:
		return errNotReady
	}
	return nil
}
