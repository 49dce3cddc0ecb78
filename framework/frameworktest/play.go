package frameworktest

import (
	"context"
	"errors"
	"net/http"
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

// runTask is what an executor of this package does with a task.
func (p *process) runTask(ctx context.Context, task *executor.Task) error {
	h := p.host.handle
	run := h.cluster.Executors[task.ExecutorID()]
	var play *Play
	if run == nil {
		scripted := h.scriptOf(task)
		play = &scripted
	}
	if !p.begin(task.Executor) {
		return errSIGKILL
	}
	defer p.tasks.Done()
	defer p.forgetGrace(task.ID)
	ref := api.TaskRef{Framework: task.Framework, Task: task.ID}
	h.journal.noteStart(p.host.name, ref, play)
	holding := held{resources: task.Resources, executor: p.id, began: time.Now(), secrets: p.host.secretsOf(task)}
	if play != nil {
		holding.end, holding.readyAfter = make(chan Play, 1), play.ReadyAfter
	}
	p.host.holdForTask(ref, holding)
	rest := sync.OnceFunc(func() {
		p.host.freeOfTask(ref)
		h.journal.noteEnd(p.host.name, ref)
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

// begin counts a task that begins; false: the process is dead.
func (p *process) begin(of *api.Executor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Err() != nil {
		return false
	}
	p.tasks.Add(1)
	if of != nil && p.own.IsZero() {
		p.own = of.Resources
		p.host.holdResources(p.own)
	}
	return true
}

// player passes tasks to functions. Unlike a function, it knows the grace of a kill.
type player struct {
	executor.Handler
	process *process
}

// grace is how long a killed task may still run.
type grace struct {
	by    time.Time
	timer *time.Timer // fires at that time
}

// Kill notes how long the task may still run, and asks for its end. A further kill can only shorten that time.
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

// late returns the channel that fires when the grace of a killed task is over.
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

// play plays the script. rest is called before the end is reported, because a task that has ended uses nothing.
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
		p.host.handle.journal.noteCrash(p.host.agentID())
		p.kill()
		return errSIGKILL
	}
	rest()
	state, message := play.outcome()
	code := play.ExitCode
	return task.Report(executor.Report{State: state, Message: message, Data: play.Data, ExitCode: &code})
}

// endOf waits for the end of a task: by its play, by another play that the story gives it, or by a kill.
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

// answerCheck answers a check as the story says.
func (h *host) answerCheck(_ context.Context, task *executor.Task, check api.Check) (api.CheckResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := api.CheckResult{Kind: check.Kind(), Known: true, Code: 1}
	if check.HTTP != nil {
		found.Code = http.StatusServiceUnavailable
	}
	running, is := h.tasks[api.TaskRef{Framework: task.Framework, Task: task.ID}]
	switch {
	case !is:
		return found, errNotReady
	case running.ill != nil && *running.ill:
		return found, errIll
	case running.ill == nil && time.Since(running.began) < running.readyAfter:
		return found, errNotReady
	}
	found.Passed, found.Code = true, 0
	if check.HTTP != nil {
		found.Code = http.StatusOK
	}
	return found, nil
}
